"""Lower bounds on the cost of sharding plans."""

from __future__ import annotations

from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget

from .choice_bounds import EVERY_CHOICE, best_choice
from .labelling import Labelling
from .messages import Dual

BOUND = "messages and prices"


def dual_bound(labelling: Labelling, budget: Budget, target: float | None = None) -> Bound:
    """Return the bound of the local-polytope relaxation's dual, improved until the time is up.

    Parameters
    ----------
    labelling
        The problem, preferably after reductions.
    budget
        Budget; the bound is valid however small it is.
    target
        Cost of a plan, if one is known.
    """
    choice = best_choice(labelling)
    value = None if choice is None or choice.labels is None else labelling.value(choice.labels)
    if value is not None:
        return Bound(EVERY_CHOICE, value, "the best of all")
    dual = Dual(labelling)
    dual.settle(20)
    last, best = float("-inf"), dual.bound + labelling.constant
    while not budget.over:
        goal = target if target is not None else best + 0.1 * abs(best) + 1.0
        best = dual.step(4, goal)
        for _ in range(15):
            if not budget.over:
                best = dual.step(4, goal)
        if best - last <= 1e-6 * abs(best):
            break
        last = best
    dual.settle(10)
    priced = int((dual.prices > 0).sum())
    detail = f"operators after reductions: {len(labelling)}; rows of memory with a price: {priced}"
    return Bound(BOUND, dual.certified(), detail)
