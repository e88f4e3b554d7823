"""Exit codes, and which of several counts."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from milp_plan.core import (
    BackendFailureError,
    BackendUnavailableError,
    FormulationFailureError,
    MilpPlanError,
    UnusedOptionError,
)


class Exit(IntEnum):
    """What the exit code of a command says."""

    DONE = 0
    """Done as asked."""
    USAGE = 2
    """The command line is wrong, or an output cannot be written where it says."""
    BAD_INPUT = 3
    """A file is not what its format says, or not for this command."""
    INFEASIBLE = 4
    """It is proved that no plan exists."""
    NO_PLAN = 5
    """A limit was reached before there was a plan."""
    SOLVER_FAILURE = 6
    """The solver or a formulation failed, or the solver is not installed."""
    NOT_VALID = 7
    """A plan fails the check, or the checker disputes the solver."""
    DIFFERS = 8
    """What PyTorch did is not what was planned."""
    INTERRUPTED = 130
    """Ctrl-C: the best results so far are written, the rest is not done."""
    HUNG_UP = 129
    """SIGHUP (the terminal has gone): as Ctrl-C."""
    QUIT = 131
    """SIGQUIT: as Ctrl-C."""
    TERMINATED = 143
    """SIGTERM (timeout, SLURM, docker, Kubernetes): as Ctrl-C."""


SERIOUSNESS = (
    Exit.DONE,
    Exit.INFEASIBLE,
    Exit.NO_PLAN,
    Exit.USAGE,
    Exit.BAD_INPUT,
    Exit.SOLVER_FAILURE,
    Exit.INTERRUPTED,
    Exit.HUNG_UP,
    Exit.QUIT,
    Exit.TERMINATED,
    Exit.DIFFERS,
    Exit.NOT_VALID,
)
"""Codes a file can end with, the least serious first.

A proof that no plan exists is an answer; no plan within the limit is none; an answer that could not
be written may be lost; a bad file was not even tried; a failed solver is a defect. After an
interruption the rest was not even looked at. Nothing is worse than a plan that breaks a law.
"""


def most_serious(codes: Iterable[Exit]) -> Exit:
    """Return the code of a command that handled several files."""
    return max(codes, key=SERIOUSNESS.index, default=Exit.DONE)


def code_of(error: MilpPlanError) -> Exit:
    """Return the code of an error that ends a command, or the work on one file."""
    if isinstance(error, BackendUnavailableError | BackendFailureError | FormulationFailureError):
        return Exit.SOLVER_FAILURE
    if isinstance(error, UnusedOptionError):
        return Exit.USAGE
    return Exit.BAD_INPUT
