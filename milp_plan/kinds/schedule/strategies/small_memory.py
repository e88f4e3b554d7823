"""Few operators that may run again, or values that may wait on hosts: every order."""

from __future__ import annotations

from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.run.ledger import Ledger
from milp_plan.run.settings import AUTO

from ..planners.enumeration.memory_orders import EVERY_ORDER, best_order, suits, works_alone

SHARE = 0.3
"""Part of the time limit."""

NO_PLAN = "every order of runs and transfers was looked at; none fits into the memory"


def is_small(ledger: Ledger[PlanningProblem, Plan]) -> bool:
    """Whether to enumerate every order; a formulation by name asks for its model instead."""
    return ledger.settings.formulation == AUTO and suits(ledger.problem)


def offer_orders(ledger: Ledger[PlanningProblem, Plan]) -> None:
    """Enumerate every order: gives a plan if there is one, the best where one device works."""
    problem, part = ledger.problem, ledger.budget.part(EVERY_ORDER, SHARE)
    with ledger.budget.phase(EVERY_ORDER):
        found = best_order(problem, part)
        if found.plan is None:
            if found.complete:
                ledger.refute(NO_PLAN)
            return
        ledger.offer(found.plan, EVERY_ORDER, EVERY_ORDER)
        if problem.objective is Objective.PEAK_MEMORY:
            _halve_peaks(ledger, part)
        elif found.complete and works_alone(problem):
            ledger.prove(Bound(EVERY_ORDER, found.plan.stop_ticks, "no order takes fewer ticks"))


def _halve_peaks(ledger: Ledger[PlanningProblem, Plan], budget: Budget) -> None:
    """Halve the peaks between bound and value until they meet."""
    while not ledger.done and ledger.value is not None and not budget.over:
        low = ledger.lower or 0
        middle = (low + ledger.value - 1) // 2
        found = best_order(ledger.problem, budget, middle)
        if found.plan is not None:
            ledger.offer(found.plan, EVERY_ORDER, EVERY_ORDER)
        elif found.complete:
            ledger.prove(Bound(EVERY_ORDER, middle + 1, "no order has a lower peak"))
        else:
            return
