"""Processor seconds to plan a training step, against the number of operators.

From the file to a checked plan: reading, the views that planning looks things up in, bounds that
look at no pairs of operators, a fixed number of constructions, the check, the text of the plan.
Operators grow with micro-batches; layers and devices stay. Nothing depends on the clock, so a busy
machine gives nearly the same figures.

The study is ``results/step-growth/study.toml``: ``milp-plan table results/step-growth``.
"""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from milp_plan.bounds import all_bounds
from milp_plan.check import verify
from milp_plan.core import PlanningProblem
from milp_plan.draw.canvas import new_figure
from milp_plan.draw.style import drawing_style
from milp_plan.io import plan_to_json, read, write
from milp_plan.planners.constructions import best_starts, placed, structure
from milp_plan.planners.decoder import Decoder
from milp_plan.zoo import generate

PARTS = ("read", "index", "bounds", "construct", "check", "write")
"""What is measured, in this order."""

LAST = "turns of a group"
"""The last bound that looks at no pairs of operators."""

CLAIM = 1.15
"""Makespan over bound that is asked for."""

ABOUT_LINEAR = 1.2
"""The largest power of the number of operators that counts as linear."""

GIGABYTE_OF_KIB = 1e6 / 1.024
"""``ru_maxrss`` counts kibibytes."""

Row = dict[str, Any]


def step(case: Mapping[str, Any], architecture: str, batches: int) -> PlanningProblem:
    """Generate a training step with one sample per micro-batch."""
    return generate(
        architecture,
        case["cluster"],
        batch=batches,
        micro_batches=batches,
        granularity="block",
    )


def bound_without_pairs(problem: PlanningProblem) -> int:
    """The best bound that problems of every size have."""
    found = []
    for bound in all_bounds(problem):
        found.append(bound.value)
        if bound.name == LAST:
            break
    return max(found)


def planned(file: Path, schedules: int) -> Row:
    """Plan a file; seconds of each part, value and bound."""
    marks = [time.process_time()]

    def lap() -> None:
        marks.append(time.process_time())

    problem = read(file)
    lap()
    decoder = Decoder(problem)
    structure(problem)
    lap()
    bound = bound_without_pairs(problem)
    lap()
    start = best_starts(problem, decoder, count=1, most=schedules)[0]
    decoder.decode(*placed(decoder, start))
    plan = decoder.plan("constructions")
    lap()
    verdict = verify(problem, plan)
    lap()
    plan_to_json(plan)
    lap()
    seconds = [after - before for before, after in pairwise(marks)]
    return {
        "operators": len(problem.graph.operators),
        **{f"{part}_s": taken for part, taken in zip(PARTS, seconds, strict=True)},
        "all_s": sum(seconds),
        "value": verdict.value if verdict.ok else None,
        "bound": bound,
    }


def measure(case: Mapping[str, Any]) -> Row:
    """Measure one size; a small step first, so that compiled code is there."""
    with TemporaryDirectory() as folder:
        for name, batches in (("gpt-tiny", 2), (case["architecture"], case["micro_batches"])):
            file = Path(folder) / f"{name}.json"
            write(step(case, name, batches), file)
            row = planned(file, case["schedules"])
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {**row, "peak_gb": kib / GIGABYTE_OF_KIB}


def present(rows: list[Row]) -> Row:
    """Seconds per operator, the ratio to the bound, and the power with which seconds grow."""
    for row in rows:
        row["each_ms"] = 1e3 * row["all_s"] / row["operators"]
        row["value_ms"] = (row["value"] or math.nan) / 1e6
        row["over"] = (row["value"] or math.nan) / row["bound"]
    return {
        "architecture": rows[0]["architecture"],
        "cluster": rows[0]["cluster"],
        "schedules": rows[0]["schedules"],
        "exponent": exponent(rows),
    }


def exponent(rows: list[Row]) -> float:
    """The slope of log seconds over log operators."""
    operators, seconds = (np.log([row[key] for row in rows]) for key in ("operators", "all_s"))
    return float(np.polyfit(operators, seconds, 1)[0])


def complaints(rows: list[Row]) -> list[str]:
    """Steps without a plan, the largest one far above its bound, seconds that grow too fast."""
    found = [f"{row['operators']} operators: no plan" for row in rows if row["value"] is None]
    if found:
        return found
    last = max(rows, key=lambda row: row["operators"])
    if last["value"] > CLAIM * last["bound"]:
        found.append(f"{last['operators']} operators: {last['value'] / last['bound']:.3f} bounds")
    if len(rows) > 1 and exponent(rows) > ABOUT_LINEAR:
        found.append(f"seconds grow with the power {exponent(rows):.2f}")
    return found


def figures(rows: list[Row]) -> dict[str, Any]:
    """Seconds against operators, the parts on top of each other."""
    rows = sorted(rows, key=lambda row: row["operators"])
    operators = [row["operators"] for row in rows]
    with drawing_style():
        figure = new_figure(5.0, 3.2)
        axes = figure.subplots()
        axes.stackplot(
            operators, *[[row[f"{part}_s"] for row in rows] for part in PARTS], labels=PARTS
        )
        axes.set_xlabel("operators")
        axes.set_ylabel("processor seconds")
        axes.set_xlim(operators[0], operators[-1])
        axes.set_ylim(bottom=0)
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return {"growth.png": figure}
