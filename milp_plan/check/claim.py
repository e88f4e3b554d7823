"""Rule `claim`: a plan's claimed objective and value are true. Claiming nothing is fine.

A plan that is for a relative of the problem claims nothing about this one.
"""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.core import Counts, Objective, Plan, PlanningProblem, Violation
from milp_plan.core.amounts import value_text

from .statement import is_own

RULE = "claim"


def check(problem: PlanningProblem, plan: Plan, value: int | None) -> Iterator[Violation]:
    """Yield a wrong objective and a wrong value."""
    if not is_own(problem, plan):
        return
    if plan.objective is not None and plan.objective != problem.objective:
        yield Violation(
            RULE,
            (plan.objective, problem.objective.value),
            f"the plan claims objective {plan.objective!r}, the problem asks for "
            f"{problem.objective.value!r}",
        )
    if plan.value is not None and plan.value != value:
        achieved = "cannot be computed" if value is None else f"is {value_text(problem, value)}"
        yield Violation(
            RULE,
            (problem.objective.value,),
            f"the plan claims a {problem.objective.value} of {value_text(problem, plan.value)}, "
            f"which {achieved}",
            plan.value,
            value,
            Counts.SIZE if problem.objective is Objective.PEAK_MEMORY else Counts.TIME,
        )
