"""Runs a single heuristic as a complete run."""

from __future__ import annotations

from typing import Any

from milp_plan.backends import Stop
from milp_plan.core.budget import Budget

from .kinds import kind_of
from .ledger import Ledger
from .outcome import Outcome
from .record import outcome_of
from .settings import Settings


def run_heuristic(problem: Any, name: str, settings: Settings) -> Outcome[Any, Any]:
    """Run a heuristic, check its plan, and return the outcome.

    Raises
    ------
    KeyError
        The problem's kind has no heuristic of that name.
    """
    kind = kind_of(problem)
    planner = kind.heuristics()[name]
    ledger: Ledger[Any, Any] = Ledger(kind, problem, settings, Budget(settings.time_limit_s))
    ledger.details["strategy"] = name
    if ledger.look_for_places():
        with ledger.budget.phase("plan"):
            plan = planner(problem, settings.seed)
        ledger.offer(plan, name, "plan")
    ledger.stop = Stop.FINISHED
    return outcome_of(ledger)
