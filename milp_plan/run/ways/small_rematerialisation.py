"""What all ways of rematerialisation begin with: every operator once, and every plan of few."""

from __future__ import annotations

from milp_plan.core.bound import Bound
from milp_plan.core.rematerialisation import RematerialisationPlan, RematerialisationProblem
from milp_plan.planners.rematerialisation.enumeration import EVERY_PLAN, best_of_all

from ..ledger import Ledger
from ..settings import AUTO

ONCE = "every operator once"

SHARE = 0.3
"""Part of the time limit."""

NO_PLAN = "every plan was looked at; none is within memory and limits"


def offer_once(ledger: Ledger[RematerialisationProblem, RematerialisationPlan]) -> None:
    """Every operator once: no time is added, if the problem's own budget allows it."""
    runs = tuple(entry.name for entry in ledger.problem.computations)
    ledger.offer(RematerialisationPlan(ledger.problem.name, runs), ONCE, "once", sure=False)


def offer_best_of_all(ledger: Ledger[RematerialisationProblem, RematerialisationPlan]) -> None:
    """Look at every plan of a small problem; who names a formulation asks for its model."""
    if ledger.settings.formulation != AUTO:
        return
    with ledger.budget.phase("every plan"):
        found = best_of_all(ledger.problem, ledger.budget.part("every plan", SHARE))
    if found is None:
        return
    if found.plan is None or found.value is None:
        ledger.refute(NO_PLAN)
        return
    ledger.offer(found.plan, EVERY_PLAN, "every plan")
    ledger.prove(Bound(EVERY_PLAN, found.value, "no plan is better"))
