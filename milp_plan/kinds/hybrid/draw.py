"""Panels of a plan of hybrid parallelism: time per sample and memory of every stage."""

from __future__ import annotations

from milp_plan.core import Finding, InputError
from milp_plan.draw.canvas import size_scale, time_scale
from milp_plan.draw.panels import Axis, Panel, memory_panel, row_box

from .check import verify_hybrid
from .plan import HybridPlan
from .problem import HybridProblem


def stages_panels(problem: HybridProblem, plan: HybridPlan) -> tuple[Panel, ...]:
    """Return time per sample and memory of every stage, a row each.

    Raises
    ------
    InputError
        The plan leaves out a layer, or names what the problem does not have.
    """
    verdict = verify_hybrid(problem, plan)
    if verdict.value is None:
        found, expected = "stages that are not all the layers", "every layer in one stage"
        raise InputError([Finding("plan", found, expected, "plan the instance again")])
    seconds, memory = (
        [verdict.components[f"{component} {place}"] for place in range(len(plan.stages))]
        for component in ("seconds", "memory")
    )
    limit = int(problem.limits.memory_bytes)
    time, size = time_scale(problem.units, max(seconds)), size_scale(problem.units, limit)
    rows = [
        f"{place}: {len(stage.choices)} layers, {stage.data} x {stage.tensor}"
        for place, stage in enumerate(plan.stages)
    ]
    times = [
        row_box(row, name, (0, time(ticks)), "time", name, tooltip=time.text(ticks))
        for row, (name, ticks) in enumerate(zip(rows, seconds, strict=True))
    ]
    x = Axis("time per sample", time)
    used = [(name, amount, limit) for name, amount in zip(rows, memory, strict=True)]
    fills = {"time": "#0072B2"}
    return Panel("Stages", x, rows=rows, boxes=times, fills=fills), memory_panel(used, size)
