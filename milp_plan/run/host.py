"""What the ways of planning special problems ask of the run they work for."""

from __future__ import annotations

from typing import Protocol

from milp_plan.api import Plan, PlanningProblem
from milp_plan.backends import Stop
from milp_plan.bounds import Bound

from .model import ModelAnswer, Solver
from .settings import Clock, Settings


class Host(Protocol):
    """A run that plans a problem of a special kind: it keeps plan and bound."""

    problem: PlanningProblem
    settings: Settings
    clock: Clock
    solver: Solver
    plan: Plan | None
    value: int | None
    bound: Bound | None
    baselines: dict[str, int | None]
    answer: ModelAnswer | None
    infeasible_because: str | None
    stop: Stop
    disputed: str

    @property
    def gap(self) -> float | None:
        """Relative gap between value and bound, ``None`` where either is missing."""
        ...

    @property
    def proved(self) -> bool:
        """Whether the gap asked for is reached."""
        ...

    def offer(self, plan: Plan | None, planner: str, phase: str) -> bool:
        """Take a plan if the checker accepts it and it is better."""
        ...

    def raise_bound(self, bound: Bound) -> None:
        """Take a bound on the whole problem."""
        ...

    def look_for_obstacle(self) -> None:
        """Look for a proof that there is no plan."""
        ...

    def dispute(self, because: str) -> None:
        """Note that the checker disputes an answer of a model, unless the reason is empty."""
        ...

    def use_answer(self, answer: ModelAnswer, cutoff: int | None) -> None:
        """Take plan and bound of the exact model, asked for plans up to a cutoff.

        Notes a dispute; raises ``KeyboardInterrupt`` where the solve was interrupted.
        """
        ...

    def check_start(self, start: Plan) -> None:
        """Take the user's plan, or refuse it."""
        ...

    def polish(self, limit_s: float | None = None) -> None:
        """Search neighbourhoods by the model, for some seconds or to the end of the run."""
        ...

    def say(self, phase: str, note: str = "") -> None:
        """Report progress."""
        ...
