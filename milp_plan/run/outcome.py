"""What a run found, the same for every kind of problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from milp_plan.backends import Stop
from milp_plan.core import Verdict
from milp_plan.core.bound import Bound

from .kind import Kind, Measure

P = TypeVar("P")
S = TypeVar("S")


@dataclass(frozen=True)
class Outcome(Generic[P, S]):
    """What a run found: why it stopped, and which plan exists, are two answers.

    Parameters
    ----------
    kind, problem
        What was planned.
    plan, verdict
        The plan is checked on this problem; ``None`` when there is none.
    value, bound, bound_name, gap
        Recomputed objective; best proven bound on the problem and its proof's name; what lies
        between them (:mod:`milp_plan.core.gap`).
    stop
        Why the run stopped.
    proved
        Value and bound are equal: no plan is better.
    disputed_because
        Why the checker disagrees with a solver's claim; empty if it does not.
    infeasible_because
        A proof in words that no plan exists.
    baselines
        Value of each heuristic, ``None`` where it found no plan.
    bounds
        Every bound that was the best once.
    defects
        What went wrong on the way, in words.
    planner
        Who made the plan.
    record
        Everything above and more, as plain data.
    """

    kind: Kind[P, S]
    problem: P
    plan: S | None
    verdict: Verdict | None
    value: int | None
    bound: int | None
    bound_name: str | None
    gap: float | None
    stop: Stop
    proved: bool
    disputed_because: str
    infeasible_because: str | None
    baselines: Mapping[str, int | None]
    bounds: tuple[Bound, ...]
    defects: tuple[str, ...]
    planner: str
    seconds: float
    record: dict[str, Any] = field(repr=False)

    @property
    def disputed(self) -> bool:
        """Whether the checker disagrees with a solver's claim."""
        return bool(self.disputed_because)

    @property
    def measure(self) -> Measure:
        """What value and bound count."""
        return self.kind.measure(self.problem)
