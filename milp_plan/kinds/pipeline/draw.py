"""Draws schedules of pipelines one above the other, on one time axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from milp_plan.core import Operator, Plan, PlanningProblem
from milp_plan.draw.canvas import time_scale
from milp_plan.draw.figures import panels_figure
from milp_plan.kinds.schedule.draw import timeline
from milp_plan.kinds.schedule.lanes import lanes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class TitledPlan:
    """A plan, its problem, and the title of its picture."""

    title: str
    problem: PlanningProblem
    plan: Plan


def schedules(plans: Sequence[TitledPlan]) -> Figure:
    """Draw schedules of pipelines one above the other, on one time axis.

    A row per device; each box is an operator with its micro-batch inside, coloured by kind, and
    paler from chunk to chunk where devices have several.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    MissingFacetError
        A plan has no schedule.
    """
    rows = [lanes(entry.problem, entry.plan) for entry in plans]
    time = time_scale(plans[0].problem.units, max(row.stop_ticks for row in rows))
    panels = []
    for entry, row in zip(plans, rows, strict=True):
        panel = timeline(replace(row, transfer=(), notes=()), time)
        operator = entry.problem.graph.operator
        boxes = [replace(box, name=_micro_batches(operator(box.name))) for box in panel.boxes]
        panels.append(replace(panel, title=entry.title, boxes=boxes))
    return panels_figure([("", panels)])


def _micro_batches(operator: Operator) -> str:
    """Return the micro-batch of an operator; of fused ones, the micro-batches of their parts."""
    if operator.micro_batch is not None:
        return str(operator.micro_batch)
    parts = [part.rpartition("@")[2] for part in operator.name.split("&") if "@" in part]
    return "+".join(dict.fromkeys(parts))
