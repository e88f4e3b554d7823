"""What a run is asked, and what it says on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

AUTO = "auto"
"""Settings.formulation: the one that suits the problem."""


@dataclass(frozen=True)
class Settings:
    """How to solve, the same for every kind of problem.

    Parameters
    ----------
    time_limit_s
        Wall-clock seconds for everything together, reading included.
    node_limit
        Branch-and-bound nodes per model. With it, nothing depends on the clock before
        ``time_limit_s`` is reached, so that two runs give the same plan.
    rounds
        Rounds of neighbourhood search; ``None`` means until the time limit (8 with a node limit).
    gap
        Relative gap at which the run may end; with 0 it goes on until value and bound are equal.
    seed
        Of the solver and of every search.
    threads
        Of the solver and of searches; ``None`` leaves it to the kind of problem.
    target
        Operators that stage one aims at; ``None`` leaves it to the way, which plans large problems
        by search alone.
    formulation
        Name, path to a ``.py`` file, or ``"auto"`` for the one that suits the problem.
    options
        Switches of the formulation.
    start
        A plan to start from.
    hints
        Plans of similar problems (other memory, other links), whose orders may be worth a try.
    solver
        ``"highs"``, or the name of a solver Pyomo knows.
    dask
        Address of a Dask scheduler whose workers do the search.
    only
        Whether the formulation's model runs alone: no heuristics before it, no search after it.
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
