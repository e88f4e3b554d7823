"""Settings of a run, and what it reports meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from milp_plan.core import Finding, InputError
from milp_plan.core.budget import LARGEST_SETTING

AUTO = "auto"
"""Settings.formulation: the one that suits the problem."""


EVERY_RUN = frozenset({"time_limit_s", "node_limit", "gap"})
"""Settings of every run; others are for strategies that declare them (:attr:`.Way.uses`)."""

MODEL_ALONE = frozenset({"seed", "threads", "formulation", "options", "only", "solver", "start"})
"""Settings that a run of a formulation's model alone uses beside those of every run."""

WHY_UNUSED = {
    "seed": "nothing is drawn at random",
    "threads": "the work is done in one thread",
    "rounds": "there is no search in rounds of neighbourhoods",
    "target": "stage one makes no coarse model",
    "formulation": "no formulation is asked",
    "options": "no formulation is asked unless it is named, so nobody reads its switches",
    "only": "no formulation is asked unless it is named",
    "solver": "no solver is asked",
    "start": "the search does not begin from a plan",
    "hints": "plans of similar problems are not looked at",
    "two_stage": "nothing is coarsened for a model whose plan is expanded",
    "dask": "the search is done on this machine alone",
}
"""Why a setting would do nothing where no strategy declares that it uses it."""


_WHOLE = {"node_limit": 1, "rounds": 0, "seed": 0, "threads": 1, "target": 1}
"""Settings that are whole numbers, with the least of each."""


@dataclass(frozen=True)
class Settings:
    """How to solve, the same for every kind of problem.

    A setting that would do nothing for a problem is refused: see :func:`.solving.refuse_unused`.

    Parameters
    ----------
    time_limit_s
        Wall-clock seconds for everything together, reading included.
    node_limit
        Branch-and-bound nodes per model. With it, nothing depends on the clock before
        ``time_limit_s`` is reached, so that two runs give the same plan.
    rounds
        Rounds of neighbourhood search; ``None`` means until the time limit (40 with a node limit).
    gap
        Relative gap at which the run may end; with 0 it goes on until value and bound are equal.
    seed
        Of the solver and of every search.
    threads
        Of the solver and of searches; ``None`` leaves it to the kind of problem.
    target
        Operators that stage one aims at; ``None`` leaves it to the strategy, which plans large
        problems by search alone.
    formulation
        Name, path to a ``.py`` file, or ``"auto"`` for the one that suits the problem.
    options
        Switches of the formulation.
    start
        A plan to start from. One whose times do not fit, or that has places and order alone, is
        timed anew.
    hints
        Plans of similar problems (other memory, other links), whose orders may be worth a try.
    solver
        ``"highs"``, or the name of a solver Pyomo knows.
    dask
        Address of a Dask scheduler whose workers do the search.
    only
        Whether the formulation's model runs alone: no search before or after it. The model of a
        schedule starts from a list schedule unless ``start`` is given.
    two_stage
        ``True``: coarsening and models plan by themselves, from list schedules: no annealing, no
        enumeration, no bounds but the model's. ``False``: no model of a whole problem, neither of
        the original nor of a coarse one. ``None``: both stages and everything else.
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
        """Refuse numbers that mean nothing, with every finding at once."""
        if findings := [*self._findings()]:
            raise InputError(findings)

    def _findings(self) -> Iterator[Finding]:
        for name in ("time_limit_s", "gap"):
            number = getattr(self, name)
            if not (isinstance(number, Real) and float(number) >= 0):  # nan is not, either
                yield Finding(name, repr(number), "a number of at least 0", "correct it")
        for name, least in _WHOLE.items():
            whole = getattr(self, name)
            fits = isinstance(whole, Integral) and least <= int(whole) <= LARGEST_SETTING
            if not (fits or (whole is None and name != "seed")):
                expected = f"a whole number from {least} to {LARGEST_SETTING}"
                yield Finding(name, repr(whole), expected, "correct it")
        if self.only and self.two_stage:
            yield Finding("two_stage", "True beside only", "one of the two", "leave out one")


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


@dataclass(frozen=True, slots=True)
class Incumbent:
    """A plan that is better than all before it, as soon as the checker has accepted it.

    Parameters
    ----------
    plan, value, planner
        The plan, its exact value, and who made it.
    bound, gap
        What was proved until then, and the gap to it; ``None`` while there is no such number.
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
