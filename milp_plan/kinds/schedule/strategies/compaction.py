"""Compaction of expanded plans: coarse intervals leave gaps that the original operators fill."""

from __future__ import annotations

from milp_plan.core import Plan, PlanningProblem

from ..planners.dispatch import dispatch_order
from ..planners.late import put_off


def compact(problem: PlanningProblem, plan: Plan) -> Plan | None:
    """Return a plan of the same places and order in which every operator starts as early as it can.

    Returns ``None`` where memory does not admit that order without the gaps, or where the plan
    would end later: its transfers follow their readers' order, which may differ from the plan's.
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
    """Return a decoder's plan with gaps closed, if it rounds times, and late where that helps."""
    from ..planners.decoder import compiled_problem

    if not compiled_problem(problem).exact:
        plan = compact(problem, plan) or plan
    return put_off(problem, plan)
