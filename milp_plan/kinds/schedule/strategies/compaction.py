"""An expanded plan, tightened: coarse intervals leave gaps that the original operators can fill."""

from __future__ import annotations

from milp_plan.core import Plan, PlanningProblem

from ..planners.dispatch import dispatch_order
from ..planners.late import put_off


def compact(problem: PlanningProblem, plan: Plan) -> Plan | None:
    """Schedule every operator anew in the plan's order and places, each as early as it can.

    Returns ``None`` when memory does not admit that order without the gaps, or when that ends
    later: transfers follow their readers' order, which need not be the order they had.
    """
    position = {name: number for number, name in enumerate(problem.graph.topological_order)}
    runs = sorted(
        plan.runs,
        key=lambda run: (run.start_ticks or 0, run.stop_ticks or 0, position[run.operator]),
    )
    placements = {run.operator: run.placement for run in plan.runs}
    tight = dispatch_order(problem, placements, [run.operator for run in runs])
    return tight if tight is not None and tight.stop_ticks <= plan.stop_ticks else None


def tight(problem: PlanningProblem, plan: Plan) -> Plan:
    """Return a plan of the decoder, compact where its units are rounded, late where that helps."""
    from ..planners.decoder import compiled_problem

    if not compiled_problem(problem).exact:
        plan = compact(problem, plan) or plan
    return put_off(problem, plan)
