"""Limits and reports of solves, the same for every backend."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.gap import relative_gap


class Stop(StrEnum):
    """Why the solver stopped, which says nothing about the plan."""

    PROVED = "proved"
    """The requested gap was reached."""
    INFEASIBLE = "infeasible"
    TIME_LIMIT = "time_limit"
    NODE_LIMIT = "node_limit"
    MEMORY_LIMIT = "memory_limit"
    KILLED = "killed"
    """The solver's process ended without an answer, or was killed."""
    INTERRUPTED = "interrupted"
    ERROR = "error"
    FINISHED = "finished"
    """All steps of a run are done, and optimality is not proved."""


@dataclass(frozen=True)
class Limits:
    """Limits of a solve, and settings that make it repeatable.

    Parameters
    ----------
    time_s
        Wall-clock seconds for the solver; the process is ended ``grace_s`` later at the latest.
    nodes
        Branch-and-bound nodes; ``None`` means without limit.
    gap
        Relative gap at which the optimum counts as proved.
    gap_abs
        Absolute gap, in the model's unit, at which it does.
    seed, threads
        Passed to the solver and recorded.
    grace_s
        Seconds by which the process may exceed the time limit.
    careful
        Solve in another way than usual, to confirm what was proved.
    """

    time_s: float = 60.0
    nodes: int | None = None
    gap: float = 1e-6
    gap_abs: float = 1e-9
    seed: int = 0
    threads: int = 1
    grace_s: float = 5.0
    careful: bool = False


@dataclass(frozen=True, slots=True)
class TracePoint:
    """Incumbent and bound at a time of the solve; ``None`` while there is none."""

    seconds: float
    incumbent: float | None
    bound: float | None
    nodes: int = 0


@dataclass(frozen=True)
class SolverReport:
    """A solver's report.

    Parameters
    ----------
    stop
        Why it stopped.
    solution
        Best solution, shape (num_columns,); ``None`` without one.
    objective, bound
        Value of that vector and proven bound, in the model's unit; ``None`` when there is none.
    nodes
        Branch-and-bound nodes.
    seconds
        Wall-clock time in the solver's process, hand-over included.
    handover_s
        Part of them for passing the matrix to the solver.
    start_accepted
        Whether the start was taken; ``None`` when none was given.
    trace
        Incumbent and bound over time.
    message
        The solver's own word, or what went wrong.
    row_duals
        Multipliers of the rows of a linear program, shape (num_rows,), signed as HiGHS signs them
        (of a minimisation: at most 0 where a row presses from above); they may be inexact and
        prove nothing unless re-checked. ``None`` for integer models, or when there are none.
    """

    stop: Stop
    solution: NDArray[np.float64] | None = None
    objective: float | None = None
    bound: float | None = None
    nodes: int = 0
    seconds: float = 0.0
    handover_s: float = 0.0
    start_accepted: bool | None = None
    trace: tuple[TracePoint, ...] = field(default=())
    message: str = ""
    row_duals: NDArray[np.float64] | None = None

    @property
    def gap(self) -> float | None:
        """Relative gap reached, ``None`` without solution or bound."""
        return relative_gap(self.objective, self.bound)

    @property
    def root_bound(self) -> float | None:
        """Last bound before branching, in the model's unit; ``None`` when there is none."""
        if self.nodes <= 1:
            return self.bound
        return max(
            (p.bound for p in self.trace if p.nodes <= 1 and p.bound is not None), default=None
        )
