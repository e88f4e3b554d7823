"""Solve every instance of the suites with both stages and write ``results/overview.*``.

``python benchmarks/overview.py`` solves all; ``--resume`` reuses the records in ``results/runs``
of runs with the same problem, settings and versions; ``--collect`` solves nothing. Each instance
has its own process: a crash becomes a row with its message, and the others go on.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from runs import NOT_RUN, RECORDS, Pool, Record
from suites import REPOSITORY, SUITE_NAMES, Entry, Known, Suite, known_values, load_suite

from milp_plan.report import median_line, overview, to_json
from milp_plan.report.pages import amount, amount_scale, provenance, seconds, share, table
from milp_plan.run import Settings

DASH = "—"
RESULTS = REPOSITORY / "results"
SMALL = 20
"""Instances with so many operators or fewer are expected to be proved optimal."""

Rows = dict[str, list[Record]]
"""Suite name -> one record or error row per file, in the order of the suite."""


def text(entry: Any) -> str:
    """Write anything; what is not known is a dash."""
    return DASH if entry is None or entry == "" else str(entry)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", action="append", help="name or .toml file; may be repeated")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds per instance")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="of the solver, per instance")
    parser.add_argument("--jobs", type=int, default=2, help="instances at a time")
    parser.add_argument("--largest", type=int, help="leave out files above so many kilobytes")
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the tables")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--resume", action="store_true", help="reuse records of the same runs")
    group.add_argument("--collect", action="store_true", help="solve nothing, reuse only")
    return parser.parse_args(arguments)


def solve_all(suites: list[Suite], pool: Pool) -> Rows:
    """Solve every file of every suite; what did not run when interrupted is said to be so."""
    entries = [entry for suite in suites for entry in suite.entries]
    found: dict[Entry, Record] = {}

    def keep(entry: Entry, record: Record) -> None:
        found[entry] = record
        print(f"[{len(found)}/{len(entries)}] {_line(record)}", file=sys.stderr, flush=True)

    try:
        pool.run(entries, keep)
    except KeyboardInterrupt:
        print("interrupted; the tables hold what is done", file=sys.stderr)
    missing = {"stop": NOT_RUN, "verdict": "no plan", "error": NOT_RUN}
    return {
        suite.name: [found.get(e, {"instance": e.stem, **missing}) for e in suite.entries]
        for suite in suites
    }


def _line(record: Record) -> str:
    if record.get("error"):
        return f"{record['instance']}: {record['error']}"
    value = amount(record["value"], amount_scale(record))
    return (
        f"{record['instance']}: {value}, gap {share(record['gap'])}, {record['stop']}, "
        f"check {record['verdict']}, {record['seconds']:.1f} s"
    )


# -- what the records say ------------------------------------------------------------------------


def improvement(row: Record) -> float | None:
    """(baseline - value) / baseline, ``None`` where one is not known."""
    value, baseline = row.get("value"), row.get("best_baseline")
    return None if value is None or not baseline else (baseline - value) / baseline


def concerns(rows: Iterable[Record], known: Mapping[tuple[str, str], Known]) -> list[str]:
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


def broken(rows: Iterable[Record], known: Mapping[tuple[str, str], Known]) -> bool:
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


def summary(suites: list[Suite], rows: Rows) -> str:
    """One row per suite: how many plans pass, beat the baselines, are proved."""
    lines = []
    for suite in suites:
        every = rows[suite.name]
        solved = [row for row in every if not row.get("error")]
        plans = [row for row in solved if row["verdict"] == "ok"]
        small = [row for row in solved if row["operators"] <= SMALL]
        better = [improvement(row) for row in plans]
        lines.append(
            [
                suite.title,
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


def page(suites: list[Suite], rows: Rows, command: str, given: argparse.Namespace) -> str:
    """Return the whole page as Markdown."""
    every = [row for suite in suites for row in rows[suite.name]]
    known = known_values()
    asked = (
        f"- {given.time_limit:g} s per instance for everything together, {given.threads} solver "
        f"thread(s), {given.jobs} instance(s) at a time, seed {given.seed}"
    )
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
        mine = rows[suite.name]
        solved = [row for row in mine if not row.get("error")]
        parts += [
            f"## {suite.title}\n",
            f"{suite.about}\n\n**{median_line(solved)}.**\n",
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


def write(suites: list[Suite], rows: Rows, command: str, given: argparse.Namespace) -> None:
    """Write ``overview.md``, ``overview.csv`` and ``overview.json``."""
    import pandas

    given.out.mkdir(parents=True, exist_ok=True)
    content = page(suites, rows, command, given)
    (given.out / "overview.md").write_text(content, encoding="utf-8")
    every = [row for suite in suites for row in rows[suite.name]]
    frame = overview(every)
    more = {
        "suite": [suite.name for suite in suites for _ in rows[suite.name]],
        "proved": [row.get("proved") for row in every],
        "infeasible_because": [row.get("infeasible_because") for row in every],
        "error": [row.get("error") for row in every],
        "time_unit": [(row.get("units") or {}).get("time") for row in every],
        "ticks_per_time_unit": [(row.get("units") or {}).get("time_scale") for row in every],
    }
    for name, column in more.items():
        place = 0 if name == "suite" else len(frame.columns)
        frame.insert(place, name, pandas.Series(column, dtype=object))
    frame.to_csv(given.out / "overview.csv", index=False)
    by_suite: dict[str, Any] = {s.name: json.loads(to_json(rows[s.name])) for s in suites}
    text_of_all = json.dumps({"command": command, "suites": by_suite}, indent=1)
    (given.out / "overview.json").write_text(text_of_all + "\n", encoding="utf-8")


def command_of(given: argparse.Namespace) -> str:
    """Return the command that makes the page again, without folders of this machine."""
    words = ["python", "benchmarks/overview.py"]
    for name in given.suite or []:
        words += ["--suite", Path(name).name]
    words += ["--time-limit", f"{given.time_limit:g}", "--seed", str(given.seed)]
    words += ["--threads", str(given.threads), "--jobs", str(given.jobs)]
    if given.largest is not None:
        words += ["--largest", str(given.largest)]
    return shlex.join(words)


def main(arguments: list[str] | None = None) -> int:
    """Run; 1 if anything crashed, fails the check or contradicts a known optimum."""
    given = parse(arguments)
    suites = [load_suite(name) for name in given.suite or SUITE_NAMES]
    if given.largest is not None:
        suites = [_up_to(suite, given.largest) for suite in suites]
    settings = Settings(time_limit_s=given.time_limit, seed=given.seed, threads=given.threads)
    reuse = "only" if given.collect else "yes" if given.resume else "no"
    rows = solve_all(suites, Pool(settings, given.records, given.jobs, reuse))
    write(suites, rows, command_of(given), given)
    print(f"{given.out / 'overview.md'}")
    return int(broken([row for group in rows.values() for row in group], known_values()))


def _up_to(suite: Suite, kilobytes: int) -> Suite:
    kept = [e for e in suite.entries if e.absent or e.path.stat().st_size <= 1000 * kilobytes]
    return Suite(suite.name, suite.title, suite.about, tuple(kept))


if __name__ == "__main__":
    sys.exit(main())
