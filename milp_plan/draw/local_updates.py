"""Picture of a step with local updates: what each stage runs, over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milp_plan.check.local_updates import task_stops, verify_local_updates
from milp_plan.core.amounts import time_text
from milp_plan.core.local_updates import LocalUpdatesPlan, LocalUpdatesProblem

from .canvas import axis_label, new_figure, time_scale
from .panels import Axis, Panel, row_box
from .style import drawing_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FILLS = {"forward": "#56B4E9", "head": "#E69F00", "backward": "#009E73"}

Bar = tuple[str, int, int, int, int]
"""What, stage, micro-batch, start, stop."""


def _bars(problem: LocalUpdatesProblem, plan: LocalUpdatesPlan) -> list[Bar]:
    """Tasks of the step; cuts where there is no boundary are left out."""
    cuts = sorted(problem.by_name[name] for name in problem.boundaries if name in plan.cuts)
    return [
        (what, place, batch, stop - getattr(problem.stages[place], what), stop)
        for (what, place, batch), stop in task_stops(problem, cuts).items()
    ]


def local_updates_figure(problem: LocalUpdatesProblem, plan: LocalUpdatesPlan) -> Figure:
    """Draw a plan, valid or not: a row per stage, and a line under each cut.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    """
    verdict, bars = verify_local_updates(problem, plan), _bars(problem, plan)
    scale = time_scale(problem.units, max(stop for *_, stop in bars))
    figure = new_figure(9.0, 1.5 + 0.4 * max(2, len(problem.stages)))
    with drawing_style():
        axes = figure.subplots()
        for what, place, _, start, stop in bars:
            width = scale(stop) - scale(start)
            axes.barh(
                place, width, left=scale(start), color=_FILLS[what], edgecolor="white", height=0.8
            )
        for name in plan.cuts:
            if name in problem.boundaries:
                axes.axhline(problem.by_name[name] + 0.5, color="black", linewidth=1)
        axes.set_yticks(range(len(problem.stages)), [stage.name for stage in problem.stages])
        axes.invert_yaxis()
        axes.set_xlabel(axis_label("time", scale))
        value = time_text(problem.units, verdict.value)
        axes.set_title(f"{problem.name}: {verdict.objective} {value}", loc="left")
    return figure


def local_updates_panels(problem: LocalUpdatesProblem, plan: LocalUpdatesPlan) -> tuple[Panel, ...]:
    """Return what each stage runs, a row each."""
    bars = _bars(problem, plan)
    scale = time_scale(problem.units, max(stop for *_, stop in bars))
    rows = [stage.name for stage in problem.stages]
    boxes = [
        row_box(
            place, f"{what} {batch}", (scale(start), scale(stop)), what, problem.stages[place].name
        )
        for what, place, batch, start, stop in bars
    ]
    x = Axis("time", scale)
    return (Panel("Stages", x, rows=rows, boxes=boxes, fills=_FILLS, searched=True),)
