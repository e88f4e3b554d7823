"""What a run is asked, what it says on the way, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from milp_plan.backends import Stop
from milp_plan.core import Plan, PlanningProblem, Verdict
from milp_plan.core.budget import now

AUTO = "auto"
"""Settings.formulation: the one that suits the problem."""


@dataclass(frozen=True)
class Settings:
    """How to solve.

    Parameters
    ----------
    time_limit_s
        Wall-clock seconds for everything together.
    node_limit
        Branch-and-bound nodes per model. With it, nothing depends on the clock before
        ``time_limit_s`` is reached, so that two runs give the same plan.
    rounds
        Rounds of neighbourhood search; ``None`` means until the time limit (8 with a node limit).
    gap
        Relative gap at which a plan counts as proved optimal.
    seed, threads
        Of the solver and of the neighbourhood search.
    target
        Operators that stage one aims at.
    formulation
        Name, path to a ``.py`` file, or ``"auto"`` for the one that suits the problem.
    options
        Switches of the formulation.
    start
        A plan to start from.
    solver
        ``"highs"``, or the name of a solver Pyomo knows.
    """

    time_limit_s: float = 60.0
    node_limit: int | None = None
    rounds: int | None = None
    gap: float = 1e-4
    seed: int = 0
    threads: int = 1
    target: int = 25
    formulation: str = AUTO
    options: Mapping[str, Any] = field(default_factory=dict)
    start: Plan | None = None
    solver: str = "highs"


@dataclass(frozen=True, slots=True)
class Progress:
    """One line of progress; ``None`` while there is no such number."""

    phase: str
    incumbent: int | None
    bound: int | None
    gap: float | None
    elapsed_s: float
    note: str = ""


ProgressHook = Callable[[Progress], None]


@dataclass(frozen=True)
class Outcome:
    """What a run found: why it stopped, and which plan exists, are two answers.

    Parameters
    ----------
    problem, plan, verdict
        The plan is checked on this problem; ``None`` when there is none.
    value, bound, bound_name, gap
        Recomputed objective; best proven bound on the original problem and its proof's name;
        the relative gap between them (:mod:`milp_plan.core.gap`).
    stop
        Why the run stopped.
    disputed
        The checker disagrees with a solver's claim.
    proved
        The gap asked for was reached.
    infeasible_because
        A proof in words that no plan exists.
    baselines
        Value of each heuristic, ``None`` where it found no plan.
    planner
        Who made the plan.
    record
        Everything above and more, as plain data.
    """

    problem: PlanningProblem
    plan: Plan | None
    verdict: Verdict | None
    value: int | None
    bound: int | None
    bound_name: str | None
    gap: float | None
    stop: Stop
    disputed: bool
    proved: bool
    infeasible_because: str | None
    baselines: Mapping[str, int | None]
    planner: str
    seconds: float
    record: dict[str, Any]


class Clock:
    """Elapsed time of a run, by phase."""

    def __init__(self, time_limit_s: float) -> None:
        self.began = now()
        self.time_limit_s = time_limit_s
        self.phases: dict[str, float] = {}

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run began."""
        return now() - self.began

    @property
    def left_s(self) -> float:
        """Seconds left of the time limit, at least 0."""
        return max(0.0, self.time_limit_s - self.elapsed_s)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a phase."""
        began = now()
        try:
            yield
        finally:
            self.add(name, now() - began)

    def add(self, name: str, seconds: float) -> None:
        """Add seconds to a phase."""
        self.phases[name] = self.phases.get(name, 0.0) + seconds
