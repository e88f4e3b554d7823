"""What an expert is: a published schedule as words, and the planner made of it."""

from __future__ import annotations

from collections.abc import Callable

from milp_plan.core import Plan, PlanningProblem
from milp_plan.kinds.schedule.planners.planner import Planner

from ..reading import shop_of
from ..shop import Shop
from ..timing import Words, fits, times

Expert = Callable[[Shop], Words | None]
"""Words of a schedule, or ``None`` where it is not defined for the shop. Memory limits are not
looked at, unless the schedule itself depends on them."""


def planner_of(name: str, expert: Expert) -> Planner:
    """Make a planner of an expert.

    It returns no plan where the problem is no shop, the schedule is not defined for it, or its
    memory does not suffice. The seed does nothing.
    """

    def planner(problem: PlanningProblem, seed: int = 0) -> Plan | None:  # noqa: ARG001
        shop = shop_of(problem)
        words = None if shop is None else expert(shop)
        if shop is None or words is None or not fits(shop, words):
            return None
        return shop.plan(times(shop, words), name)

    planner.__name__ = name
    planner.__doc__ = expert.__doc__
    return planner
