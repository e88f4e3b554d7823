"""First steps of all strategies of rematerialisation: every operator once, and exact search."""

from __future__ import annotations

from milp_plan.core.bound import Bound
from milp_plan.run.ledger import Ledger
from milp_plan.run.settings import AUTO

from .planners.enumeration import ALL_STATES, EVERY_PLAN, MAX_STATES, best_of_all
from .problem import RematerialisationPlan, RematerialisationProblem

ONCE = "every operator once"

SHARE = 0.3
"""Share of the time limit for the exact search."""

NO_PLAN = "every plan was enumerated; none is within memory and limits"


def offer_once(ledger: Ledger[RematerialisationProblem, RematerialisationPlan]) -> None:
    """Offer every operator once: it adds no time, if the problem's budget allows it."""
    runs = tuple(entry.name for entry in ledger.problem.computations)
    ledger.offer(
        RematerialisationPlan(ledger.problem.name, runs), ONCE, "once", must_be_valid=False
    )


def offer_best_of_all(
    ledger: Ledger[RematerialisationProblem, RematerialisationPlan], *, last: bool = False
) -> None:
    """Search a small problem exactly; where a formulation is named, its model comes first.

    At ``last`` the search takes all the time that is left.
    """
    if ledger.settings.formulation != AUTO and not last:
        return
    budget = ledger.budget if last else ledger.budget.part("every plan", SHARE)
    with ledger.budget.phase("every plan"):
        states = ALL_STATES if last else MAX_STATES
        result = best_of_all(ledger.problem, budget, ledger.value, states)
    if result is None:
        return
    if result.value is None:
        ledger.refute(NO_PLAN)
        return
    if result.plan is not None:
        ledger.offer(result.plan, EVERY_PLAN, "every plan")
    ledger.prove(Bound(EVERY_PLAN, result.value, "no plan is better"))
