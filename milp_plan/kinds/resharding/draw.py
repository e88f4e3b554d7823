"""Panel of resharding: deliveries of each card over time."""

from __future__ import annotations

from milp_plan.draw.canvas import time_scale
from milp_plan.draw.panels import Axis, Panel, row_box

from .check import ports, verify_resharding
from .problem import ReshardingPlan, ReshardingProblem

_FILLS = {"delivery": "#56B4E9", "breaks a rule": "#D55E00"}


def resharding_panels(problem: ReshardingProblem, plan: ReshardingPlan) -> tuple[Panel, ...]:
    """Return the deliveries of each card, a row for sending and one for receiving."""
    known = [entry for entry in plan.deliveries if entry.slice in problem.by_name]
    names = [f"{card.name} {what}" for what in ("sends", "receives") for card in problem.cards]
    used = {port for entry in known for port in ports(problem, entry)}
    rows = {name: at for at, name in enumerate(name for name in names if name in used)}
    verdict = verify_resharding(problem, plan)
    broken = {name for violation in verdict.violations for name in violation.subjects}
    scale = time_scale(problem.units, max((entry.stop for entry in known), default=0))
    boxes = []
    for entry in known:
        span = (scale(entry.start), scale(entry.stop))
        kind = "breaks a rule" if entry.slice in broken else "delivery"
        for port in ports(problem, entry):
            if port in rows:
                boxes.append(row_box(rows[port], entry.slice, span, kind, port))
    x = Axis("time", scale)
    drawn = Panel("Cards", x, rows=list(rows), boxes=boxes, fills=_FILLS, searched=True)
    return (drawn,) if boxes else ()
