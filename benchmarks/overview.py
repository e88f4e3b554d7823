"""Solve every instance of the suites and write ``results/overview.*``.

``python benchmarks/overview.py`` does what is left of the suites' runs, as ``milp-plan bench run``
does, and writes the tables; ``--collect`` solves nothing. A crash becomes a row with its message,
and the others go on.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from milp_plan.cli.bench import STORE, SuiteRuns
from milp_plan.io.known_file import KnownValue, read_known
from milp_plan.io.suite_file import read_suite
from milp_plan.report import median_line, overview, to_json
from milp_plan.report.pages import DASH, amount, amount_scale, provenance, seconds, share, table
from milp_plan.study.store import Store
from milp_plan.study.tasks import Expansion, expand

REPOSITORY = Path(__file__).resolve().parent.parent
SUITES = REPOSITORY / "instances" / "suites"
SUITE_NAMES = ("shipped", "traps", "dnn-partitioning")
KNOWN_VALUES = REPOSITORY / "instances" / "known_values.toml"
RESULTS = REPOSITORY / "results"
SMALL = 20
"""Instances with this many operators or fewer are expected to be proved optimal."""
NOT_RUN = "not run"

Record = dict[str, Any]
Rows = dict[str, list[Record]]
"""Suite name -> one record or error row per run, in the order of the suite."""


def text(entry: Any) -> str:
    """Write anything; what is not known is a dash."""
    return DASH if entry is None or entry == "" else str(entry)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", action="append", help="name or .toml file; may be repeated")
    parser.add_argument("--jobs", type=int, default=2, help="instances at a time")
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the tables")
    parser.add_argument("--collect", action="store_true", help="solve nothing")
    return parser.parse_args(arguments)


def open_suites(names: Iterable[str]) -> list[Expansion]:
    """Read suites by name, or by the path of a ``.toml`` file."""
    return [
        expand(read_suite(Path(name) if name.endswith(".toml") else SUITES / f"{name}.toml"))
        for name in names
    ]


def known_values(path: Path = KNOWN_VALUES) -> dict[tuple[str, str], KnownValue]:
    """Return exact optima: (instance, objective) -> what is known about it."""
    exact = [entry for entry in read_known(path).entries if entry.optimum is not None]
    return {(entry.instance, entry.objective): entry for entry in exact}


def records_of(suite: Expansion, store: Store) -> list[Record]:
    """Return what is known of every run of a suite, and of what cannot be run."""
    found: list[tuple[str, Record]] = []
    for task in suite.tasks:
        record = store.load(task.key)
        if record is None or record["outcome"] is None:
            said = NOT_RUN if record is None else without_folders(record["error"])
            stop = NOT_RUN if record is None else "error"
            found.append((task.about["file"], error_row(task.about["instance"], said, stop)))
        else:
            found.append((task.about["file"], record["outcome"]))
    for entry in suite.missing:
        stop = "absent" if entry.reason.startswith("absent") else "error"
        name = Path(entry.label).name.removesuffix(".gz").removesuffix(".json")
        found.append((entry.label, error_row(name, without_folders(entry.reason), stop)))
    order = {entry.label: place for place, entry in enumerate(suite.suite.entries)}
    return [record for _, record in sorted(found, key=lambda pair: order[pair[0]])]


def error_row(instance: str, message: str, stop: str) -> Record:
    """Return a row for a file that gave no record."""
    return {"instance": instance, "stop": stop, "verdict": "no plan", "error": message}


def without_folders(message: str) -> str:
    """Return a message in which no folder of this machine is named."""
    return message.replace(f"{REPOSITORY}/", "")


# -- what the records say ------------------------------------------------------------------------


def improvement(row: Record) -> float | None:
    """(baseline - value) / baseline, ``None`` where one is not known."""
    value, baseline = row.get("value"), row.get("best_baseline")
    return None if value is None or not baseline else (baseline - value) / baseline


def concerns(rows: Iterable[Record], known: Mapping[tuple[str, str], KnownValue]) -> list[str]:
    """Everything about the rows that should not be."""
    found = []
    for row in rows:
        name = row["instance"]
        if row.get("error"):
            found.append(f"`{name}`: {row['error']}")
            continue
        if row["verdict"] not in {"ok", "no plan"}:
            because = row.get("disputed_because") or "see its record"
            found.append(f"`{name}`: check {row['verdict']}: {because}")
        elif row["value"] is None and row["infeasible_because"] is None:
            found.append(f"`{name}`: no plan found, and no proof that there is none")
        if row["stop"] == "proved" and not row["proved"]:
            found.append(f"`{name}`: stopped as proved at a gap of {share(row['gap'])}")
        better = improvement(row)
        if better is not None and better < 0:
            found.append(f"`{name}`: worse than baseline {row['baseline_name']}")
        if row["operators"] <= SMALL and not row["proved"] and row["infeasible_because"] is None:
            found.append(f"`{name}`: {row['operators']} operators, but not proved optimal")
        truth = known.get((name, row["objective"]))
        if truth is not None and _contradicts(row, truth.optimum):
            found.append(
                f"`{name}`: value {row['value']}, bound {row['bound']}, but its optimum is "
                f"{truth.optimum} ({truth.source})"
            )
    return found


def _contradicts(row: Record, optimum: int) -> bool:
    value, bound = row["value"], row["bound"]
    wrong = (value is not None and value < optimum) or (bound is not None and bound > optimum)
    return wrong or row["infeasible_because"] is not None


def broken(rows: Iterable[Record], known: Mapping[tuple[str, str], KnownValue]) -> bool:
    """Whether anything failed or is wrong (absent files and open gaps are neither)."""
    for row in rows:
        if row.get("error"):
            if row["stop"] == "error":
                return True
            continue
        truth = known.get((row["instance"], row["objective"]))
        if row["verdict"] not in {"ok", "no plan"}:
            return True
        if truth is not None and _contradicts(row, truth.optimum):
            return True
    return False


# -- the page ------------------------------------------------------------------------------------


def summary(suites: list[Expansion], rows: Rows) -> str:
    """One row per suite: how many plans pass, beat the baselines, are proved."""
    lines = []
    for suite in suites:
        every = rows[suite.suite.name]
        solved = [row for row in every if not row.get("error")]
        plans = [row for row in solved if row["verdict"] == "ok"]
        small = [row for row in solved if row["operators"] <= SMALL]
        better = [improvement(row) for row in plans]
        lines.append(
            [
                suite.suite.content.title,
                str(len(every)),
                str(sum(row["stop"] == "absent" for row in every)),
                str(len(plans)),
                str(sum(number is None or number >= 0 for number in better)),
                str(sum(number is not None and number > 0 for number in better)),
                str(sum(row["proved"] for row in solved)),
                f"{sum(row['proved'] for row in small)} of {len(small)}",
            ]
        )
    headings = ["suite", "instances", "absent", "plans that pass the check"]
    headings += ["no worse than the best baseline", "better", "proved optimal"]
    return table([*headings, f"proved, of those with ≤ {SMALL} operators"], lines)


def values_table(rows: Iterable[Record]) -> str:
    """Value, baseline, bound and gap of each instance, in readable units."""
    headings = ["instance", "operators", "after coarsening", "objective", "value"]
    headings += ["best baseline", "baseline", "better by", "bound", "bound by", "gap"]
    headings += ["stop", "check", "planner", "seconds"]
    lines = []
    for row in rows:
        scale = amount_scale(row)
        bound = "infeasible" if row.get("infeasible_because") else amount(row.get("bound"), scale)
        lines.append(
            [
                row["instance"],
                text(row.get("operators")),
                text(row.get("coarse_operators")),
                text(row.get("objective")),
                amount(row.get("value"), scale),
                amount(row.get("best_baseline"), scale),
                text(row.get("baseline_name")),
                share(improvement(row)),
                bound,
                text(row.get("bound_name")),
                share(row.get("gap")),
                text(row.get("stop")),
                text(row.get("verdict")),
                text(row.get("planner")),
                seconds(row.get("seconds")),
            ]
        )
    return table(headings, lines)


def phases_table(rows: Iterable[Record]) -> str:
    """Seconds per phase and size of the model of each instance that was solved."""
    solved = [row for row in rows if not row.get("error")]
    phases = list(dict.fromkeys(phase for row in solved for phase in row["phases"]))
    lines = []
    for row in solved:
        model = row.get("model") or {}
        times = [seconds(row["phases"].get(phase)) for phase in phases]
        sizes = [text(model.get("columns")), text(model.get("rows"))]
        lines.append([row["instance"], *times, seconds(row["seconds"]), *sizes])
    return table(["instance", *phases, "total", "columns", "rows"], lines)


def page(suites: list[Expansion], rows: Rows, command: str) -> str:
    """Return the whole page as Markdown."""
    every = [row for suite in suites for row in rows[suite.suite.name]]
    known = known_values()
    limits = sorted({suite.suite.content.limits.time for suite in suites})
    asked = f"- {' or '.join(f'{s:g}' for s in limits)} s per instance for everything together"
    parts = [
        "# Overview\n",
        provenance(command, every, asked),
        "gap = (value − bound) / value, with a bound on the original problem; better by = "
        "(best baseline − value) / best baseline. Amounts are rounded here and exact in "
        "`overview.csv` (ticks, or bytes for peak_memory). The check is recomputed from the plan "
        "alone, in exact integers.\n",
        summary(suites, rows),
    ]
    for suite in suites:
        mine = rows[suite.suite.name]
        solved = [row for row in mine if not row.get("error")]
        parts += [
            f"## {suite.suite.content.title}\n",
            f"{suite.suite.content.about}\n\n**{median_line(solved)}.**\n",
            values_table(mine),
            "Seconds per phase, and size of the model:\n",
            phases_table(mine),
        ]
        notes = concerns(mine, known)
        notes += [
            f"`{row['instance']}`: {row['infeasible_because']}"
            for row in solved
            if row["infeasible_because"]
        ]
        if notes:
            parts.append("Notes:\n\n" + "\n".join(f"- {note}" for note in notes) + "\n")
    return "\n".join(parts)


def write(suites: list[Expansion], rows: Rows, command: str, folder: Path) -> None:
    """Write ``overview.md``, ``overview.csv`` and ``overview.json``."""
    import pandas

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "overview.md").write_text(page(suites, rows, command), encoding="utf-8")
    pairs = [(name, row) for name, own in rows.items() for row in own]
    every = [row for _, row in pairs]
    frame = overview(every)
    frame.insert(0, "suite", pandas.Series([name for name, _ in pairs], dtype=object))
    for name in ("proved", "infeasible_because", "error", "unit", "ticks_per_unit"):
        column = pandas.Series([row.get(name) for row in every], dtype=object)
        frame.insert(len(frame.columns), name, column)
    frame.to_csv(folder / "overview.csv", index=False)
    by_suite = {name: json.loads(to_json(own)) for name, own in rows.items()}
    content = json.dumps({"command": command, "suites": by_suite}, indent=1)
    (folder / "overview.json").write_text(content + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Run; 1 if anything crashed, fails the check or contradicts a known optimum."""
    given = parse(arguments)
    suites = open_suites(given.suite or SUITE_NAMES)
    if not given.collect:
        state = SuiteRuns(given.store, given.jobs).all_of(
            [t for suite in suites for t in suite.tasks]
        )
        if state.left or state.stopped:
            print("interrupted; the tables hold what is done", file=sys.stderr)
    store = Store(given.store)
    rows = {suite.suite.name: records_of(suite, store) for suite in suites}
    words = ["python", "benchmarks/overview.py"]
    for name in given.suite or []:
        words += ["--suite", Path(name).name]
    write(suites, rows, shlex.join([*words, "--jobs", str(given.jobs)]), given.out)
    print(f"{given.out / 'overview.md'}")
    return int(broken([row for group in rows.values() for row in group], known_values()))


if __name__ == "__main__":
    sys.exit(main())
