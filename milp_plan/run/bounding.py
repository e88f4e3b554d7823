"""Lower bounds alone: those that a kind has, and those that a run of the same length proves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from milp_plan.backends import Stop
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget

from .kinds import kind_of
from .settings import ProgressHook, Settings
from .solving import solve

OBSTACLE_SHARE, CATALOGUE_SHARE = 0.1, 0.3
"""Parts of the time for proofs that there is no plan, and for the bounds of the kind."""


@dataclass(frozen=True)
class Bounds:
    """What no plan can beat.

    Parameters
    ----------
    bounds
        One of each name, the best first.
    infeasible_because
        A proof in words that no plan exists.
    interrupted
        Whether Ctrl-C ended it.
    """

    bounds: tuple[Bound, ...]
    infeasible_because: str | None = None
    interrupted: bool = False


def find_bounds(
    problem: Any,
    time_limit_s: float = 60.0,
    on_progress: ProgressHook | None = None,
    *,
    began: float | None = None,
) -> Bounds:
    """Find the best bounds that any strategy would prove in that time.

    Parameters
    ----------
    problem
        Of any kind.
    time_limit_s, on_progress, began
        As in :func:`~.solving.solve`.
    """
    kind = kind_of(problem)
    budget = Budget(time_limit_s, began=began)
    reason = kind.obstacle(problem, budget.part("obstacle", OBSTACLE_SHARE))
    if reason is not None:
        return Bounds((), reason)
    known = list(kind.bounds(problem, budget.part("bounds", CATALOGUE_SHARE), None))
    interrupted = False
    if not budget.over:
        settings = Settings(time_limit_s=time_limit_s)
        outcome = solve(problem, settings, on_progress, began=budget.began)
        if outcome.infeasible_because is not None:
            return Bounds((), outcome.infeasible_because)
        known += outcome.bounds
        interrupted = outcome.stop is Stop.INTERRUPTED
    known.sort(key=lambda bound: -bound.value)
    best = {bound.name: bound for bound in reversed(known)}
    return Bounds(tuple(bound for bound in known if best[bound.name] is bound), None, interrupted)
