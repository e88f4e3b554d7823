"""Picture of a plan of hybrid parallelism: time per sample and memory of every stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milp_plan.check.hybrid import verify_hybrid
from milp_plan.core import Finding, InputError
from milp_plan.hybrid import HybridPlan, HybridProblem

from .canvas import axis_label, drawing_style, new_figure, size_scale, time_scale

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
    verdict = verify_hybrid(problem, plan)
    if verdict.value is None:
        found, expected = "stages that are not all the layers", "every layer in one stage"
        raise InputError([Finding("plan", found, expected, "plan the instance again")])
    places = range(len(plan.stages))
    seconds, memory = (
        [verdict.components[f"{what} {place}"] for place in places]
        for what in ("seconds", "memory")
    )
    limit = int(problem.limits.memory_bytes)
    time, size = time_scale(problem.units, max(seconds)), size_scale(problem.units, limit)
    labels = [
        f"{place}: {len(stage.choices)} layers, {stage.data} x {stage.tensor}"
        for place, stage in enumerate(plan.stages)
    ]
    figure = new_figure(9.0, 0.3 * len(labels) + 1.6)
    with drawing_style():
        first, second = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
        first.barh(places, [time(ticks) for ticks in seconds], color="#0072B2")
        first.set_xlabel(axis_label("time per sample", time))
        first.set_title(f"{problem.name}: {time.text(verdict.value)} per sample", loc="left")
        first.set_yticks(places, labels)
        first.invert_yaxis()
        second.barh(places, [size(amount) for amount in memory], color="#B8622B")
        second.axvline(size(limit), color="black", linewidth=0.8, linestyle="--")
        second.set_xlabel(axis_label("memory", size))
    return figure
