"""Picture of resharding: what each card sends and receives, over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milp_plan.check.resharding import ports, verify_resharding
from milp_plan.core.amounts import time_text
from milp_plan.core.resharding import Delivery, ReshardingPlan, ReshardingProblem

from .canvas import axis_label, new_figure, time_scale
from .panels import Axis, Panel, row_box
from .style import drawing_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FILLS = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#0072B2", "#CC79A7")
_BROKEN = "#D55E00"
_NAMED = 24
"""Deliveries up to which their names are written into the bars."""


def resharding_figure(problem: ReshardingProblem, plan: ReshardingPlan) -> Figure:
    """Draw a plan, valid or not: a row per card that sends and per card that receives.

    A colour per delivery, those that break a rule in one colour of their own.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    """
    verdict = verify_resharding(problem, plan)
    known, rows = _rows(problem, plan)
    broken = {name for violation in verdict.violations for name in violation.subjects}
    scale = time_scale(problem.units, max((entry.stop for entry in known), default=0))
    figure = new_figure(9.0, 1.5 + 0.4 * max(2, len(rows)))
    with drawing_style():
        axes = figure.subplots()
        for number, entry in enumerate(known):
            fill = _BROKEN if entry.slice in broken else _FILLS[number % len(_FILLS)]
            left, width = scale(entry.start), scale(entry.stop) - scale(entry.start)
            for port in ports(problem, entry):
                if port in rows:
                    at = rows[port]
                    axes.barh(at, width, left=left, color=fill, edgecolor="white", height=0.8)
                    if len(known) <= _NAMED:
                        axes.text(
                            left + width / 2, at, entry.slice, ha="center", va="center", fontsize=6
                        )
        axes.set_yticks(range(len(rows)), list(rows))
        axes.invert_yaxis()
        axes.set_xlabel(axis_label("time", scale))
        value = time_text(problem.units, verdict.value)
        axes.set_title(f"{problem.name}: {verdict.objective} {value}", loc="left")
    return figure


def _rows(
    problem: ReshardingProblem, plan: ReshardingPlan
) -> tuple[list[Delivery], dict[str, int]]:
    """Deliveries of slices that the problem has, and the row of each port they use."""
    known = [entry for entry in plan.deliveries if entry.slice in problem.by_name]
    names = [f"{card.name} {what}" for what in ("sends", "receives") for card in problem.cards]
    used = {port for entry in known for port in ports(problem, entry)}
    rows = {name: at for at, name in enumerate(name for name in names if name in used)}
    return known, rows


def resharding_panels(problem: ReshardingProblem, plan: ReshardingPlan) -> tuple[Panel, ...]:
    """Return what each card sends and receives, a row each."""
    known, rows = _rows(problem, plan)
    verdict = verify_resharding(problem, plan)
    broken = {name for violation in verdict.violations for name in violation.subjects}
    scale = time_scale(problem.units, max((entry.stop for entry in known), default=0))
    boxes = []
    for entry in known:
        span = (scale(entry.start), scale(entry.stop))
        kind = "breaks a rule" if entry.slice in broken else "delivery"
        for port in ports(problem, entry):
            boxes.append(row_box(rows[port], entry.slice, span, kind, port))
    fills = {"delivery": _FILLS[0], "breaks a rule": _BROKEN}
    x = Axis("time", scale)
    drawn = Panel("Cards", x, rows=list(rows), boxes=boxes, fills=fills, searched=True)
    return (drawn,) if boxes else ()
