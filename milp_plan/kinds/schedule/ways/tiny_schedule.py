"""Few operators: every plan is looked at before a model is asked, whatever counts."""

from __future__ import annotations

from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.bound import Bound
from milp_plan.run.ledger import Ledger
from milp_plan.run.settings import AUTO

from ..planners.enumeration import sizes

SHARE = 0.3
"""Part of the time limit."""

NO_PLAN = "every placement and every order was looked at; none keeps the laws"


def is_tiny(ledger: Ledger[PlanningProblem, Plan]) -> bool:
    """Whether every plan may be looked at; who names a formulation asks for its model."""
    return ledger.settings.formulation == AUTO and sizes.is_tiny(ledger.problem)


def offer_best_of_all(ledger: Ledger[PlanningProblem, Plan]) -> None:
    """Look at every plan of a tiny problem that may be better than the best one known."""
    from ..planners.enumeration.every import EVERY_PLAN, MOST_STEPS, EveryPlan

    search = EveryPlan(ledger.problem, ledger.value)
    with ledger.budget.phase(EVERY_PLAN):
        part = ledger.budget.part(EVERY_PLAN, SHARE)
        for plan in search.plans(part, MOST_STEPS if ledger.repeatable else None):
            ledger.offer(plan, EVERY_PLAN, EVERY_PLAN)
    if not search.complete:
        return
    if search.best is None:
        ledger.refute(NO_PLAN)
    else:
        ledger.prove(Bound(EVERY_PLAN, search.best, "no plan is better"))
