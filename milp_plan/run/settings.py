"""Settings of a run, and its progress reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from milp_plan.core import Finding, InputError
from milp_plan.core.budget import LARGEST_SETTING

AUTO = "auto"
"""Value of ``Settings.formulation`` for the formulation that suits the problem."""


EVERY_RUN = frozenset({"time_limit_s", "node_limit", "gap"})
"""Settings of every run; others are for strategies that declare them (:attr:`.Strategy.uses`)."""

MODEL_ALONE = frozenset({"seed", "threads", "formulation", "options", "only", "solver", "start"})
"""Settings that a run of a formulation's model alone uses in addition to those of every run."""

UNUSED_REASONS = {
    "seed": "nothing is drawn at random",
    "threads": "the work is done in one thread",
    "rounds": "there is no search in rounds of neighbourhoods",
    "target": "stage one makes no coarse model",
    "formulation": "no formulation is solved",
    "options": "no formulation is solved unless it is named, so its switches are not read",
    "only": "no formulation is solved unless it is named",
    "solver": "no solver is called",
    "start": "the search does not start from a plan",
    "hints": "plans of similar problems are not used",
    "two_stage": "no coarse model is solved and expanded",
    "dask": "the search runs on this machine only",
}
"""Why a setting would do nothing, if no strategy declares that it uses it."""


_INTEGERS = {"node_limit": 1, "rounds": 0, "seed": 0, "threads": 1, "target": 1}
"""Settings that are integers, with the minimum of each."""


@dataclass(frozen=True)
class Settings:
    """How to solve, the same for every kind of problem.

    A setting that would do nothing for a problem is refused: see :func:`.solving.refuse_unused`.

    Parameters
    ----------
    time_limit_s
        Wall-clock seconds for the whole run, reading included.
    node_limit
        Maximum number of branch-and-bound nodes per model. With it, nothing depends on the clock
        before ``time_limit_s`` is reached, so that two runs give the same plan.
    rounds
        Rounds of neighbourhood search; ``None`` means until the time limit (40 with a node limit).
    gap
        Relative gap at which the run may stop; with 0 it runs until value and bound are equal.
    seed
        Random seed of the solver and all searches.
    threads
        Threads of the solver and all searches; ``None`` leaves it to the kind of problem.
    target
        Number of operators that coarsening aims at; ``None`` leaves it to the strategy, which
        plans large problems by search only.
    formulation
        Name, path to a ``.py`` file, or ``"auto"`` for the one that suits the problem.
    options
        Switches of the formulation.
    start
        A plan to start from. If its times do not fit, or it has only places and orders, new times
        are computed.
    hints
        Plans of similar problems (other memory, other links), whose orders searches may try.
    solver
        ``"highs"``, or the name of a solver that Pyomo supports.
    dask
        Address of a Dask scheduler whose workers do the search.
    only
        Whether the formulation's model runs alone: no search before or after it. The model of a
        schedule starts from a list schedule unless ``start`` is given.
    two_stage
        ``True``: only coarsening and models, from list schedules: no annealing, no enumeration,
        no bounds but the model's. ``False``: no model of a whole problem, neither of the original
        nor of a coarse one. ``None``: both stages and everything else.
    """

    time_limit_s: float = 60.0
    node_limit: int | None = None
    rounds: int | None = None
    gap: float = 0.0
    seed: int = 0
    threads: int | None = None
    target: int | None = None
    formulation: str = AUTO
    options: Mapping[str, Any] = field(default_factory=dict)
    start: Any = None
    hints: Sequence[Any] = ()
    solver: str = "highs"
    dask: str | None = None
    only: bool = False
    two_stage: bool | None = None

    def __post_init__(self) -> None:
        """Refuse invalid numbers, with all findings at once."""
        if findings := [*self._findings()]:
            raise InputError(findings)

    def _findings(self) -> Iterator[Finding]:
        for name in ("time_limit_s", "gap"):
            number = getattr(self, name)
            if not (isinstance(number, Real) and float(number) >= 0):  # nan is not, either
                yield Finding(name, repr(number), "a number of at least 0", "correct it")
        for name, least in _INTEGERS.items():
            number = getattr(self, name)
            fits = isinstance(number, Integral) and least <= int(number) <= LARGEST_SETTING
            if not (fits or (number is None and name != "seed")):
                expected = f"a whole number from {least} to {LARGEST_SETTING}"
                yield Finding(name, repr(number), expected, "correct it")
        if self.only and self.two_stage:
            yield Finding("two_stage", "True together with only", "one of the two", "leave out one")


@dataclass(frozen=True, slots=True)
class Progress:
    """One progress report; numbers are ``None`` while they are not known."""

    phase: str
    incumbent: int | None
    bound: int | None
    gap: float | None
    elapsed_s: float
    note: str = ""


ProgressHook = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Incumbent:
    """A plan that is better than all before it and that the checker accepted.

    Parameters
    ----------
    plan, value, planner
        The plan, its exact value, and the name of its planner.
    bound, gap
        The best bound at that time, and the gap to it; ``None`` while they are not known.
    elapsed_s
        Seconds since the run began.
    """

    plan: Any
    value: int
    planner: str
    bound: int | None
    gap: float | None
    elapsed_s: float


IncumbentHook = Callable[[Incumbent], object]
