"""What a plan of our own making is worth, computed fast; the checker has the last word."""

from __future__ import annotations

from milp_plan.check import verify
from milp_plan.core import Objective, Plan, PlanningProblem


def objective_value(problem: PlanningProblem, plan: Plan) -> int:
    """Return the objective value of a valid plan.

    Raises
    ------
    ValueError
        The plan breaks a law, so its maker is defective.
    """
    if problem.objective is Objective.MAKESPAN:
        return plan.stop_ns
    verdict = verify(problem, plan)
    if verdict.value is None or not verdict.ok:
        raise ValueError(f"invalid plan of {problem.name!r}: {verdict.violations[0]}")
    return verdict.value
