"""The type of a planner, and a decorator for functions that need no seed."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Protocol

from milp_plan.core import Plan, PlanningProblem

from .indexed import indexed


class Planner(Protocol):
    """A heuristic: deterministic for a given seed."""

    def __call__(self, problem: PlanningProblem, seed: int = 0) -> Plan | None:
        """Return a plan that obeys every law, or ``None``."""
        ...


def seedless(function: Callable[[PlanningProblem], Plan | None]) -> Planner:
    """Make a planner that ignores the seed and remembers its plan with the problem's view.

    Planners that start from its plan do not compute it again.
    """

    @wraps(function)
    def planner(problem: PlanningProblem, seed: int = 0) -> Plan | None:  # noqa: ARG001
        plans = indexed(problem).plans
        if function.__name__ not in plans:
            plans[function.__name__] = function(problem)
        return plans[function.__name__]

    return planner
