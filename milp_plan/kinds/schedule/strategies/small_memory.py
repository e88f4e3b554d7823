"""Enumeration of every order where few operators may run again or values may wait on hosts."""

from __future__ import annotations

from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.run.ledger import Ledger
from milp_plan.run.settings import AUTO

from ..planners.enumeration.memory_orders import EVERY_ORDER, best_order, suits, works_alone

SHARE = 0.3
"""Part of the time limit for the enumeration."""

NO_PLAN = "every order of runs and transfers was examined; none fits into the memory"


def is_small(ledger: Ledger[PlanningProblem, Plan]) -> bool:
    """Return whether to enumerate every order; a formulation that is named is used instead."""
    return ledger.settings.formulation == AUTO and suits(ledger.problem)


def offer_orders(ledger: Ledger[PlanningProblem, Plan]) -> None:
    """Enumerate every order; it finds a plan if there is one, the best if one device works."""
    problem, part = ledger.problem, ledger.budget.part(EVERY_ORDER, SHARE)
    with ledger.budget.phase(EVERY_ORDER):
        result = best_order(problem, part)
        if result.plan is None:
            if result.complete:
                ledger.refute(NO_PLAN)
            return
        ledger.offer(result.plan, EVERY_ORDER, EVERY_ORDER)
        if problem.objective is Objective.PEAK_MEMORY:
            _bisect_peaks(ledger, part)
        elif result.complete and works_alone(problem):
            ledger.prove(Bound(EVERY_ORDER, result.plan.stop_ticks, "no order takes fewer ticks"))


def _bisect_peaks(ledger: Ledger[PlanningProblem, Plan], budget: Budget) -> None:
    """Bisect between bound and value of the peak until they meet."""
    while not ledger.done and ledger.value is not None and not budget.over:
        low = ledger.lower or 0
        middle = (low + ledger.value - 1) // 2
        result = best_order(ledger.problem, budget, middle)
        if result.plan is not None:
            ledger.offer(result.plan, EVERY_ORDER, EVERY_ORDER)
        elif result.complete:
            ledger.prove(Bound(EVERY_ORDER, middle + 1, "no order has a lower peak"))
        else:
            return
