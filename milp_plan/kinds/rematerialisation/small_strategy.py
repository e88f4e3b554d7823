"""What all ways of rematerialisation begin with: every operator once, and every plan of few."""

from __future__ import annotations

from milp_plan.core.bound import Bound
from milp_plan.run.ledger import Ledger
from milp_plan.run.settings import AUTO

from .planners.enumeration import ALL_STATES, EVERY_PLAN, MOST_STATES, best_of_all
from .problem import RematerialisationPlan, RematerialisationProblem

ONCE = "every operator once"

SHARE = 0.3
"""Part of the time limit."""

NO_PLAN = "every plan was looked at; none is within memory and limits"


def offer_once(ledger: Ledger[RematerialisationProblem, RematerialisationPlan]) -> None:
    """Every operator once: no time is added, if the problem's own budget allows it."""
    runs = tuple(entry.name for entry in ledger.problem.computations)
    ledger.offer(
        RematerialisationPlan(ledger.problem.name, runs), ONCE, "once", must_be_valid=False
    )


def offer_best_of_all(
    ledger: Ledger[RematerialisationProblem, RematerialisationPlan], *, last: bool = False
) -> None:
    """Look at every plan of a small problem; who names a formulation asks for its model first.

    At ``last`` that takes all the time that is left.
    """
    if ledger.settings.formulation != AUTO and not last:
        return
    budget = ledger.budget if last else ledger.budget.part("every plan", SHARE)
    with ledger.budget.phase("every plan"):
        states = ALL_STATES if last else MOST_STATES
        found = best_of_all(ledger.problem, budget, ledger.value, states)
    if found is None:
        return
    if found.value is None:
        ledger.refute(NO_PLAN)
        return
    if found.plan is not None:
        ledger.offer(found.plan, EVERY_PLAN, "every plan")
    ledger.prove(Bound(EVERY_PLAN, found.value, "no plan is better"))
