"""The contest on intra-operator parallelism: every instance at the contest's own time limit.

Needs the contest's files in ``$MILP_PLAN_BENCHMARKS/iopddl`` (``milp-plan data get iopddl``). Each
run is the command ``milp-plan solve FILE --time-limit LIMIT``: seconds and peak memory are those of
its whole process, reading and checking included; the solution it writes is read and checked again.

``python benchmarks/iopddl.py`` writes ``results/paper/iopddl/table.md`` and ``table.json``;
``--instances M`` repeats that run and keeps the others. What is known from the contest is in
``published.csv`` beside them.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pages import DASH, provenance, seconds, table
from suites import REPOSITORY

from milp_plan.io.public_data import VARIABLE
from milp_plan.run import versions

FOLDER = REPOSITORY / "results" / "paper" / "iopddl"
FILE = "asplos-2025-iopddl-{}.json.gz"
PROGRAM = [sys.executable, "-c", "from milp_plan.cli.main import main; main()"]
GAP = 1e-6


@dataclass(frozen=True)
class Row:
    """One run. ``seconds`` and ``peak_mib`` are of the whole process; costs are exact."""

    instance: str
    limit_s: float
    operators: int
    edges: int
    strategies: int
    rows_before: int
    operators_left: int
    edges_left: int
    strategies_left: int
    rows_left: int
    cost: int | None
    bound: int | None
    gap: float | None
    proved: bool
    checked: bool
    seconds: float
    reading_and_reducing_s: float
    peak_mib: int


def measure(name: str, path: Path, limit_s: float) -> Row:
    """Run the command in a process of its own, and check what it has written."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        solution = folder / "solution.json"
        words = ["solve", str(path), "--time-limit", f"{limit_s:g}", "--gap", str(GAP), "--json"]
        words += ["--quiet", "--record-folder", str(folder), "--solution", str(solution)]
        with (folder / "said.json").open("wb") as said:
            began = time.perf_counter()
            process = subprocess.Popen([*PROGRAM, *words], stdout=said)
            _, _, used = os.wait4(process.pid, 0)
            took = time.perf_counter() - began
            process.returncode = 0  # waited for already
        told = json.loads((folder / "said.json").read_text(encoding="utf-8"))
        record = json.loads(Path(told["record_file"]).read_text(encoding="utf-8"))
        checked = solution.exists() and _checked(path, solution) == record["value"]
    searching = (item for item in record["trace"] if item["phase"] not in {"reducing", "reading"})
    return Row(
        instance=name,
        limit_s=limit_s,
        **{key: record[key] for key in ("operators", "edges", "strategies")},
        rows_before=record["reduction"][0][5],
        **{f"{key}_left": record[f"{key}_left"] for key in ("operators", "edges", "strategies")},
        rows_left=record["rows_left"],
        cost=record["value"],
        bound=record["bound"],
        gap=record["gap"],
        proved=record["proved"],
        checked=checked,
        seconds=took,
        reading_and_reducing_s=next((item["seconds"] for item in searching), record["seconds"]),
        peak_mib=used.ru_maxrss // (2**20 if sys.platform == "darwin" else 2**10),
    )


def _checked(path: Path, solution: Path) -> int | None:
    """Cost of a solution by ``milp-plan check``, ``None`` if it is not a plan.

    Another process: what this one holds would count as peak memory of those it starts.
    """
    words = [*PROGRAM, "check", str(path), str(solution), "--json"]
    said = subprocess.run(words, capture_output=True, check=False, text=True)
    told = json.loads(said.stdout)
    return int(told["value"]) if said.returncode == 0 and told["verdict"] == "ok" else None


def page(rows: list[Row], published: Mapping[str, Mapping[str, str]], record: Any) -> str:
    """Return the page as Markdown."""
    gaps = [row.gap for row in rows if row.gap is not None]
    median = f"{statistics.median(gaps):.3%}" if gaps else DASH
    beaten = _tally(rows, published)
    return "\n".join(
        [
            "# The contest on intra-operator parallelism\n",
            provenance(record["command"], [record]),
            "Public instances of the contest of ASPLOS/EuroSys 2025 (github.com/google/iopddl): "
            "one strategy per operator, least total cost, memory limited at every instant. Each "
            "row is one run of `milp-plan solve` at the contest's time limit with two threads; "
            "seconds are those of the whole process, and every solution is checked again from "
            "its file. The contest's machine had 8 cores. Compiled loops lie on disk from an "
            "earlier run; the first run after an installation compiles them for about 45 s.\n",
            "## Costs\n",
            _costs(rows, published),
            "`winner, two cores`: the winner's published program, run for comparison on two "
            "cores of a busy machine, where a longer time than the contest's is "
            "given in published.csv; `later`: best published since. Change: against the least "
            f"published cost. {beaten}\n",
            "## Bounds\n",
            _bounds(rows),
            f"The bound holds for every plan, in exact integers; median gap {median}. `proved`: "
            f"gap at most {GAP:g}.\n",
            "## Reductions\n",
            _sizes(rows),
            "Exact reductions: the optimum stays. `rows`: instants at which memory counts. `s`: "
            "from the start of the process until the search begins.\n",
        ]
    )


def _least(known: Mapping[str, str]) -> int:
    return min(int(known[key]) for key in ("contest_best", "later_best") if known.get(key))


def _costs(rows: list[Row], published: Mapping[str, Mapping[str, str]]) -> str:
    headings = ["instance", "limit, s", "XLA", "winner, two cores", "contest best", "later"]
    headings += ["ours", "change", "s", "peak MiB", "checked"]
    cells = []
    for row in rows:
        known = published.get(row.instance, {})
        keys = ("xla", "winner_two_cores", "contest_best", "later_best")
        change = DASH
        if known and row.cost is not None:
            change = f"{row.cost / _least(known) - 1:+.3%}"
        cells.append(
            [
                row.instance,
                f"{row.limit_s:g}",
                *(_amount(int(known[key]) if known.get(key) else None) for key in keys),
                _amount(row.cost),
                change,
                seconds(row.seconds),
                f"{row.peak_mib:,}",
                "yes" if row.checked else "NO",
            ]
        )
    return table(headings, cells)


def _bounds(rows: list[Row]) -> str:
    cells = [
        [
            row.instance,
            _amount(row.cost),
            _amount(row.bound),
            DASH if row.gap is None else f"{row.gap:.4%}",
            "proved optimal" if row.proved else DASH,
        ]
        for row in rows
    ]
    return table(["instance", "ours", "lower bound", "gap", "proof"], cells)


def _sizes(rows: list[Row]) -> str:
    names = ("operators", "strategies", "edges", "rows")
    headings = ["instance", *(part for name in names for part in (name, "left")), "s"]
    cells = []
    for row in rows:
        before = (row.operators, row.strategies, row.edges, row.rows_before)
        after = (row.operators_left, row.strategies_left, row.edges_left, row.rows_left)
        pairs = [f"{size:,}" for both in zip(before, after, strict=True) for size in both]
        cells.append([row.instance, *pairs, seconds(row.reading_and_reducing_s)])
    return table(headings, cells)


def _tally(rows: list[Row], published: Mapping[str, Mapping[str, str]]) -> str:
    """Say on how many instances ours is at most, or below, what is known."""

    def count(key: str, strictly: bool) -> int:
        found = 0
        for row in rows:
            known = published.get(row.instance, {}).get(key)
            if known and row.cost is not None:
                found += row.cost < int(known) or (row.cost == int(known) and not strictly)
        return found

    parts = [
        f"{count('winner_two_cores', strictly=False)} at most the winner's on two cores",
        f"{count('contest_best', strictly=False)} at most the contest's best",
        f"{count('later_best', strictly=False)} at most the later best",
        f"{count('later_best', strictly=True)} below it",
    ]
    return f"Of {len(rows)} instances: {', '.join(parts)}."


def _amount(number: int | None) -> str:
    return DASH if number is None else f"{number:,}"


def read_published(path: Path) -> dict[str, dict[str, str]]:
    """Published figures by instance."""
    with path.open(encoding="utf-8") as stream:
        lines = [line for line in stream if not line.startswith("#")]
    return {row["instance"]: row for row in csv.DictReader(lines)}


def kept(path: Path) -> dict[str, Row]:
    """Rows of an earlier run, by instance."""
    if not path.exists():
        return {}
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {row["instance"]: Row(**row) for row in rows}


def parse(arguments: list[str] | None, known: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", nargs="+", default=known, choices=known)
    parser.add_argument("--files", type=Path, help="folder of the contest's files")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the time limits")
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--page-only", action="store_true", help="run nothing, write the page")
    given = parser.parse_args(arguments)
    home = os.environ.get(VARIABLE)
    if given.files is None:
        if home is None and not given.page_only:
            parser.error(f"set {VARIABLE}, or name the folder of the files with --files")
        given.files = Path(home or ".") / "iopddl"
    return given


def main(arguments: list[str] | None = None) -> int:
    """Measure and write the page."""
    published = read_published(FOLDER / "published.csv")
    given = parse(arguments, list(published))
    given.out.mkdir(parents=True, exist_ok=True)
    rows = kept(given.out / "table.json")
    for name in [] if given.page_only else given.instances:
        limit_s = given.scale * float(published[name]["limit_s"])
        rows[name] = measure(name, given.files / FILE.format(name), limit_s)
        print(rows[name], flush=True)
        _write(given.out, [rows[key] for key in published if key in rows], published)
    _write(given.out, [rows[key] for key in published if key in rows], published)
    print(given.out / "table.md")
    return 0 if all(row.checked for row in rows.values()) else 1


def _write(folder: Path, rows: list[Row], published: Mapping[str, Mapping[str, str]]) -> None:
    record = {
        "command": "python benchmarks/iopddl.py",
        "rows": [asdict(row) for row in rows],
        "versions": versions(),
        "machine": {"system": platform.system(), "processor": platform.machine()},
    }
    text = json.dumps(record, indent=1) + "\n"
    (folder / "table.json").write_text(text, encoding="utf-8")
    (folder / "table.md").write_text(page(rows, published, record), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
