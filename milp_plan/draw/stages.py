"""Picture of a plan of hybrid parallelism: time per sample and memory of every stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milp_plan.check.hybrid import verify_hybrid
from milp_plan.core import Finding, InputError
from milp_plan.hybrid import HybridPlan, HybridProblem

from .canvas import FULL, MEMORY, axis_label, new_figure, size_scale, time_scale
from .panels import Axis, Panel, row_box
from .style import drawing_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def stages_figure(problem: HybridProblem, plan: HybridPlan) -> Figure:
    """Draw a plan, valid or not: a bar per stage, labelled with its layers and degrees.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    InputError
        It leaves out a layer, or names what the problem does not have.
    """
    value, seconds, memory = _costs(problem, plan)
    places = range(len(plan.stages))
    limit = int(problem.limits.memory_bytes)
    time, size = time_scale(problem.units, max(seconds)), size_scale(problem.units, limit)
    labels = _labels(plan)
    figure = new_figure(9.0, 0.3 * len(labels) + 1.6)
    with drawing_style():
        first, second = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
        first.barh(places, [time(ticks) for ticks in seconds], color="#0072B2")
        first.set_xlabel(axis_label("time per sample", time))
        first.set_title(f"{problem.name}: {time.text(value)} per sample", loc="left")
        first.set_yticks(places, labels)
        first.invert_yaxis()
        second.barh(places, [size(amount) for amount in memory], color=MEMORY)
        second.axvline(size(limit), color="black", linewidth=0.8, linestyle="--")
        second.set_xlabel(axis_label("memory", size))
    return figure


def _costs(problem: HybridProblem, plan: HybridPlan) -> tuple[int, list[int], list[int]]:
    """Value of a plan; time and memory of each stage."""
    verdict = verify_hybrid(problem, plan)
    if verdict.value is None:
        found, expected = "stages that are not all the layers", "every layer in one stage"
        raise InputError([Finding("plan", found, expected, "plan the instance again")])
    seconds, memory = (
        [verdict.components[f"{what} {place}"] for place in range(len(plan.stages))]
        for what in ("seconds", "memory")
    )
    return verdict.value, seconds, memory


def _labels(plan: HybridPlan) -> list[str]:
    return [
        f"{place}: {len(stage.choices)} layers, {stage.data} x {stage.tensor}"
        for place, stage in enumerate(plan.stages)
    ]


def stages_panels(problem: HybridProblem, plan: HybridPlan) -> tuple[Panel, ...]:
    """Return time per sample and memory of every stage, a row each.

    Raises
    ------
    InputError
        The plan leaves out a layer, or names what the problem does not have.
    """
    _, seconds, memory = _costs(problem, plan)
    limit = int(problem.limits.memory_bytes)
    time, size = time_scale(problem.units, max(seconds)), size_scale(problem.units, limit)
    rows = _labels(plan)
    times = [
        row_box(row, name, (0, time(ticks)), "time", name, said=time.text(ticks))
        for row, (name, ticks) in enumerate(zip(rows, seconds, strict=True))
    ]
    held, free, above = "held", "free", "above the limit"
    amounts = []
    for row, (name, amount) in enumerate(zip(rows, memory, strict=True)):
        said = f"{size.text(amount)}, limit {size.text(limit)}"
        kind = above if amount > limit else held
        amounts.append(row_box(row, name, (0, size(amount)), kind, name, said=said))
        if amount < limit:
            span = (size(amount), size(limit))
            amounts.append(row_box(row, name, span, free, name, said=said))
    fills = {held: MEMORY, above: FULL, free: "#CCCCCC"}
    x, y = Axis("time per sample", time), Axis("memory", size)
    return (
        Panel("Stages", x, rows=rows, boxes=times, fills={"time": "#0072B2"}),
        Panel("Memory", y, rows=rows, boxes=amounts, fills=fills),
    )
