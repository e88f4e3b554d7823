"""Lower bounds only: those of the kind, and those that a run of the same length proves."""

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
"""Shares of the time limit for infeasibility proofs and for the bounds of the kind."""


@dataclass(frozen=True)
class Bounds:
    """Lower bounds of a problem.

    Parameters
    ----------
    bounds
        The best bound of each name, the best first.
    infeasible_reason
        A proof in words that no plan exists.
    interrupted
        Whether Ctrl-C ended the search.
    """

    bounds: tuple[Bound, ...]
    infeasible_reason: str | None = None
    interrupted: bool = False


def find_bounds(
    problem: Any,
    time_limit_s: float = 60.0,
    on_progress: ProgressHook | None = None,
    *,
    began: float | None = None,
) -> Bounds:
    """Return the best bounds that a run can prove within a time limit.

    Parameters
    ----------
    problem
        A problem of any kind.
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
        if outcome.infeasible_reason is not None:
            return Bounds((), outcome.infeasible_reason)
        known += outcome.bounds
        interrupted = outcome.stop is Stop.INTERRUPTED
    known.sort(key=lambda bound: -bound.value)
    best = {bound.name: bound for bound in reversed(known)}
    return Bounds(tuple(bound for bound in known if best[bound.name] is bound), None, interrupted)
