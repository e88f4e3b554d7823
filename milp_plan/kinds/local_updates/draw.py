"""Panel of a step with local updates: the tasks of each stage over time."""

from __future__ import annotations

from milp_plan.draw.canvas import time_scale
from milp_plan.draw.panels import Axis, Curve, Panel, row_box

from .check import task_stops
from .problem import LocalUpdatesPlan, LocalUpdatesProblem

_FILLS = {"forward": "#56B4E9", "head": "#E69F00", "backward": "#009E73"}


def local_updates_panels(problem: LocalUpdatesProblem, plan: LocalUpdatesPlan) -> tuple[Panel, ...]:
    """Return the tasks of each stage, a row each, and a line under each cut.

    Cuts where there is no boundary are left out.
    """
    cuts = sorted(problem.by_name[name] for name in problem.boundaries if name in plan.cuts)
    stops = task_stops(problem, cuts)
    scale = time_scale(problem.units, max(stops.values()))
    rows = [stage.name for stage in problem.stages]
    boxes = []
    for (task, place, batch), stop in stops.items():
        span = (scale(stop - getattr(problem.stages[place], task)), scale(stop))
        boxes.append(row_box(place, f"{task} {batch}", span, task, rows[place]))
    end = scale(max(stops.values()))
    curves = [Curve("cut", [(0, place + 0.5), (end, place + 0.5)], "#000000") for place in cuts]
    x = Axis("time", scale)
    return (Panel("Stages", x, rows=rows, boxes=boxes, curves=curves, fills=_FILLS, searched=True),)
