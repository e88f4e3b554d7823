"""Processor seconds and memory to plan a sharding problem with a bound, against its operators.

A training step on a line of devices, generated in memory: equal blocks, one micro-batch after the
other, weights that stay as they are. It is planned by what ``milp-plan solve`` does, until value
and bound are as close as the case asks, and the plan is checked again on the whole problem.
Operators grow with micro-batches; blocks, and with them the room in memory, stay. Processor seconds
are counted, of all threads: a busy machine gives nearly the same figures.

The study is ``results/sharding-growth/study.toml``: ``milp-plan table results/sharding-growth``.
"""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from milp_plan.check.sharding import verify_sharding
from milp_plan.core.sharding import ShardingProblem
from milp_plan.draw.canvas import new_figure
from milp_plan.draw.style import drawing_style
from milp_plan.run import Settings, solve
from milp_plan.zoo import shard

ABOUT_LINEAR = 1.2
"""The largest power of the number of operators that is asked for."""

MOST_S, MOST_GB = 600.0, 12.0
"""Processor seconds and memory that the largest problem may take."""

GIGABYTE_OF_KIB = 1e6 / 1.024
"""``ru_maxrss`` counts kibibytes."""

WARM = {"blocks": 3, "micro_batches": 2}
"""Sizes of a step that is planned first, so that compiled loops are there."""

Row = dict[str, Any]


def step(case: Mapping[str, Any]) -> ShardingProblem:
    """Generate a training step with one sample per device and micro-batch."""
    return shard(
        case["architecture"],
        case["cluster"],
        case["mesh"],
        batch=case["samples"] * case["micro_batches"],
        micro_batches=case["micro_batches"],
        blocks=case["blocks"],
        zero_levels=(2, 3),
    )


def measure(case: Mapping[str, Any]) -> Row:
    """Measure one size, after a small one."""
    planned({**case, **WARM})
    return planned(case)


def planned(case: Mapping[str, Any]) -> Row:
    """Generate, plan and check; processor seconds of each, value, bound and memory."""
    marks = [time.process_time()]
    problem = step(case)
    marks.append(time.process_time())
    outcome = solve(problem, Settings(time_limit_s=case["limit_s"], gap=case["gap"]))
    marks.append(time.process_time())
    verdict = None if outcome.plan is None else verify_sharding(problem, outcome.plan)
    marks.append(time.process_time())
    generated, took, checked = np.diff(marks).tolist()
    return {
        "operators": len(problem.operators),
        "strategies": len(problem.strategies.cost),
        "pairs": len(problem.transitions.cost),
        "left": outcome.record["operators_left"],
        "generate_s": generated,
        "plan_s": took,
        "check_s": checked,
        "value": verdict.value if verdict is not None and verdict.ok else None,
        "bound": outcome.bound,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIGABYTE_OF_KIB,
    }


def present(rows: list[Row]) -> Row:
    """Gaps, microseconds per operator, and the powers with which seconds and memory grow."""
    for row in rows:
        value, bound = row["value"] or math.nan, row["bound"] or math.nan
        row |= {"gap_left": value / bound - 1, "value_ms": value / 1e6, "bound_ms": bound / 1e6}
        row["each_us"] = 1e6 * row["plan_s"] / row["operators"]
    told = {name: rows[0][name] for name in ("architecture", "cluster", "blocks", "samples", "gap")}
    return {
        **told,
        "seconds_power": power(rows, "plan_s"),
        "memory_power": power(rows, "peak_gb"),
    }


def power(rows: list[Row], of: str) -> float:
    """The slope of its logarithm over that of operators."""
    if len(rows) < 2:
        return math.nan
    operators, found = (np.log([row[key] for row in rows]) for key in ("operators", of))
    return float(np.polyfit(operators, found, 1)[0])


def complaints(rows: list[Row]) -> list[str]:
    """Problems without a plan or with a wide gap, and what grows too fast or takes too much."""
    found = []
    for row in rows:
        where = f"{row['operators']:,} operators"
        if row["value"] is None or row["bound"] is None:
            found.append(f"{where}: no plan, or no bound")
        elif row["value"] - row["bound"] > row["gap"] * row["value"]:
            found.append(f"{where}: value {row['value']}, bound {row['bound']}")
        if row["plan_s"] > MOST_S or row["peak_gb"] > MOST_GB:
            found.append(f"{where}: {row['plan_s']:.0f} s, {row['peak_gb']:.1f} GB")
    if power(rows, "plan_s") > ABOUT_LINEAR:
        found.append(f"seconds grow with the power {power(rows, 'plan_s'):.2f}")
    return found


def figures(rows: list[Row]) -> dict[str, Any]:
    """Seconds and memory against operators, both logarithmic, with the fitted powers."""
    rows = sorted(rows, key=lambda row: row["operators"])
    operators = [row["operators"] for row in rows]
    with drawing_style():
        figure = new_figure(6.4, 3.0)
        for axes, of, label in zip(
            figure.subplots(1, 2),
            ("plan_s", "peak_gb"),
            ("processor time, s", "peak memory, GB"),
            strict=True,
        ):
            axes.loglog(operators, [row[of] for row in rows], "o-")
            axes.set_title(f"grows as operators to the power {power(rows, of):.2f}")
            axes.set_xlabel("operators")
            axes.set_ylabel(label)
    return {"growth.png": figure}
