"""The objective value of a plan that a planner made, computed fast."""

from __future__ import annotations

from milp_plan.check import verify
from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.core.schedule import schedule


def objective_value(problem: PlanningProblem, plan: Plan) -> int:
    """Return the objective value of a valid plan.

    Raises
    ------
    ValueError
        The plan breaks a law, so its maker is defective.
    """
    if problem.objective is Objective.MAKESPAN:
        return plan.stop_ticks
    if problem.objective is Objective.SPAN:
        return _span(plan)
    if problem.objective is Objective.BOTTLENECK and plan.has_schedule:
        return _busiest(problem, plan)
    verdict = verify(problem, plan)
    if verdict.value is None or not verdict.ok:
        raise ValueError(f"invalid plan of {problem.name!r}: {verdict.violations[0]}")
    return verdict.value


def _span(plan: Plan) -> int:
    """Return the longest time from the first start to the last stop of a device."""
    ends: dict[str, tuple[int, int]] = {}
    for run in plan.runs:
        for device in run.devices:
            start, stop = run.start_ticks or 0, run.stop_ticks or 0
            first, last = ends.get(device, (start, stop))
            ends[device] = min(first, start), max(last, stop)
    return max(last - first for first, last in ends.values())


def _busiest(problem: PlanningProblem, plan: Plan) -> int:
    """Return the work of the busiest device, channel or port."""
    busy: dict[str, int] = {}
    for task in schedule(problem, plan):
        for resource in task.resources:
            busy[resource] = busy.get(resource, 0) + task.stop_ticks - task.start_ticks
    return max(busy.values())
