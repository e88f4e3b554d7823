"""Piper's problem: every listed configuration planned exactly, beside the published code.

Needs the benchmark's files in ``$MILP_PLAN_BENCHMARKS/piper``. Reads ``cases.toml`` of the folder
``results/paper/piper`` and writes ``table.json`` and ``table.md`` there; ``--render`` writes the
page from the stored results. Seconds are wall clock and CPU, compiled loops being loaded before.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import tomllib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from milp_plan.run.hybrid import solve_hybrid, uniform_value
from pages import DASH, seconds, table
from suites import REPOSITORY

from milp_plan.cli.hybrid import size
from milp_plan.hybrid import HybridProblem
from milp_plan.io import read_hybrid, write_atomic
from milp_plan.run import versions

FOLDER = REPOSITORY / "results" / "paper" / "piper"
CASES, STORED, PAGE = "cases.toml", "table.json", "table.md"
INFEASIBLE = "infeasible"
SAME = 1e-6
"""Relative difference to which published values, printed to nine digits, are compared."""

Row = dict[str, Any]


def main(arguments: list[str] | None = None) -> int:
    """Run the cases; 1 when the checker disputes one or ours is worse than a published value."""
    asked = parse(arguments)
    recipe = tomllib.loads((asked.folder / CASES).read_text(encoding="utf-8"))
    stored = asked.folder / STORED
    if asked.render:
        content = json.loads(stored.read_text(encoding="utf-8"))
    else:
        content = {"versions": versions(), "rows": run(recipe, asked.files)}
        write_atomic(stored, json.dumps(content, indent=1).encode() + b"\n")
    write_atomic(asked.folder / PAGE, page(recipe, content).encode())
    print(asked.folder / PAGE)
    wrong = [row for row in content["rows"] if row["against"] == "worse" or row["disputed"]]
    return 1 if wrong else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, help="holds cases.toml")
    home = os.environ.get("MILP_PLAN_BENCHMARKS")
    parser.add_argument("--files", type=Path, default=home and Path(home) / "piper")
    parser.add_argument("--render", action="store_true", help="only write the page")
    asked = parser.parse_args(arguments)
    if asked.files is None and not asked.render:
        parser.error("set MILP_PLAN_BENCHMARKS, or name the folder of the files with --files")
    return asked


def run(recipe: dict[str, Any], files: Path) -> list[Row]:
    """Plan every case."""
    problems: dict[str, HybridProblem] = {}
    rows = []
    for case in recipe["cases"]:
        name = case["file"]
        if name not in problems:
            problems[name] = read_hybrid(files / name)
            solve_hybrid(problems[name], 600.0)  # loads the compiled loops
        problem = problems[name].with_limits(limits_of(problems[name], recipe, case))
        rows.append(row_of(case, problem, recipe["time_limit"]))
        row = rows[-1]
        print(f"{len(rows)}/{len(recipe['cases'])} {name} {case['memory']} x {case['devices']}:",
              f"{row['value']}, {row['against']}, {row['seconds']} s", file=sys.stderr)  # fmt: skip
    return rows


def limits_of(problem: HybridProblem, recipe: dict[str, Any], case: Row) -> Any:
    """Limits of a case."""
    memory, rate = exact_size(case["memory"]), exact_size(recipe["bandwidth"])
    switches = {case["without"]: False} if "without" in case else {}
    return replace(
        problem.limits,
        devices=case["devices"],
        memory_bytes=memory,
        bandwidth_bytes_per_s=rate,
        micro_batches=case["micro_batches"],
        **switches,
    )


def exact_size(text: str) -> Fraction:
    """Read a size as the command line does."""
    number = size(None, None, text)  # type: ignore[arg-type]
    assert number is not None
    return number


def row_of(case: Row, problem: HybridProblem, limit_s: float) -> Row:
    """Plan a case and compare."""
    began, worked = time.perf_counter(), time.process_time()
    outcome = solve_hybrid(problem, limit_s, baseline=False)
    spent, worked = time.perf_counter() - began, time.process_time() - worked
    began = time.perf_counter()
    even = uniform_value(problem)
    even_s = time.perf_counter() - began
    scale = problem.units.time_scale
    value = None if outcome.value is None else outcome.value / scale
    split = INFEASIBLE if even is None else even / scale
    found = INFEASIBLE if outcome.infeasible_because else value
    stages = [] if outcome.plan is None else outcome.plan.stages
    return {
        **{key: case.get(key) for key in ("section", "file", "memory", "devices", "micro_batches")},
        "without": case.get("without"),
        "value": found,
        "bound": outcome.bound / scale,
        "proved": outcome.proved or outcome.infeasible_because is not None,
        "verdict": outcome.record["verdict"],
        "disputed": bool(outcome.disputed_because),
        "stages": [[len(s.choices), s.data, s.tensor] for s in stages],
        "down_sets": outcome.answer.down_sets,
        "seconds": round(spent, 3),
        "cpu_seconds": round(worked, 3),
        "uniform": split,
        "uniform_seconds": round(even_s, 3),
        "published": case.get("piper"),
        "published_uniform": case.get("uniform"),
        "against": standing(found, case.get("piper")),
        "uniform_against": standing(split, case.get("uniform")),
    }


def standing(ours: float | str | None, published: Row | None) -> str:
    """``better``, ``equal`` or ``worse`` than a published value; ``alone`` where there is none."""
    if published is None:
        return "alone"
    theirs = published["value"]
    if ours is None or (ours == INFEASIBLE) != (theirs == INFEASIBLE):
        return "better" if theirs == INFEASIBLE and ours is not None else "worse"
    if ours == INFEASIBLE or abs(ours - theirs) <= SAME * theirs:
        return "equal"
    return "better" if ours < theirs else "worse"


def page(recipe: dict[str, Any], content: dict[str, Any]) -> str:
    """Write the page."""
    rows = content["rows"]
    known = [row for row in rows if row["against"] != "alone"]
    counts = _counts([row["against"] for row in known])
    splits = _counts([row["uniform_against"] for row in rows])
    proved = sum(row["proved"] for row in rows)
    lines = [f"# {recipe['title']}", "", "Generated, do not edit. Made again by:", ""]
    lines += ["```", "python benchmarks/piper.py", "```", "", recipe["about"].strip(), ""]
    lines += [
        f"{len(rows)} configurations, {proved} of them proved (optimal to a billionth, or "
        f"infeasible). Against the published code, where it was measured ({len(known)}): {counts}, "
        f"to {SAME:g} relative; the uniform splits: {splits}. Published values: "
        f"{recipe['published']}. Stages are written layers x data degree x tensor "
        "degree; stages in a row that are alike are counted. Seconds: wall clock, and CPU time "
        "of the one thread; published: wall clock.",
    ]
    for section in dict.fromkeys(row["section"] for row in rows):
        chosen = [row for row in rows if row["section"] == section]
        lines += ["", f"## {section}", "", table(*_cells(chosen))]
    versions_line = ", ".join(f"{k} {v}" for k, v in content["versions"].items() if v)
    return "\n".join([*lines, "", f"Versions: {versions_line}.", ""])


def _counts(standings: list[str]) -> str:
    return ", ".join(f"{standings.count(word)} {word}" for word in ("better", "equal", "worse"))


def _cells(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    heads = ["memory", "devices", "without", "ours", "", "published", "uniform split, ours"]
    heads += ["uniform split, published", "s", "CPU s", "s, published", "stages"]
    return heads, [
        [
            row["memory"],
            str(row["devices"]),
            row["without"] or "",
            f"**{_value(row['value'])}**",
            "proved" if row["proved"] else f"bound {_value(row['bound'])}",
            _value((row["published"] or {}).get("value")),
            _value(row["uniform"]),
            _value((row["published_uniform"] or {}).get("value")),
            seconds(row["seconds"]),
            seconds(row.get("cpu_seconds")),
            seconds((row["published"] or {}).get("seconds")),
            _stages(row["stages"]),
        ]
        for row in rows
    ]


def _value(entry: float | str | None) -> str:
    if entry is None:
        return DASH
    return entry if isinstance(entry, str) else f"{entry:.9g}"


def _stages(stages: list[list[int]]) -> str:
    runs: list[tuple[list[int], int]] = []
    for stage in stages:
        if runs and runs[-1][0] == stage:
            runs[-1] = (stage, runs[-1][1] + 1)
        else:
            runs.append((stage, 1))
    texts = [
        "x".join(map(str, s)) + (f" ({count} times)" if count > 1 else "") for s, count in runs
    ]
    return ", ".join(texts[:6] + ([f"... {len(stages)} in all"] if len(texts) > 6 else []))


if __name__ == "__main__":
    sys.exit(main())
