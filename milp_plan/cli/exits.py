"""Exit codes, and the most serious of several."""

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
    """Exit codes of commands."""

    DONE = 0
    """Success."""
    USAGE = 2
    """The command line is wrong, or an output cannot be written."""
    BAD_INPUT = 3
    """A file breaks its format, or is not for this command."""
    INFEASIBLE = 4
    """It is proved that no plan exists."""
    NO_PLAN = 5
    """A limit was reached before a plan was found."""
    SOLVER_FAILURE = 6
    """The solver or a formulation failed, or the solver is not installed."""
    NOT_VALID = 7
    """A plan fails the check, or the checker disputes the solver."""
    DIFFERS = 8
    """PyTorch's run differs from the plan."""
    INTERRUPTED = 130
    """Ctrl-C: the best results so far are written, and the command stops."""
    HUNG_UP = 129
    """SIGHUP (the terminal was closed): like Ctrl-C."""
    QUIT = 131
    """SIGQUIT: like Ctrl-C."""
    TERMINATED = 143
    """SIGTERM (timeout, SLURM, docker, Kubernetes): like Ctrl-C."""


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
    """Return the code of an error that ends a command or the processing of a file."""
    if isinstance(error, BackendUnavailableError | BackendFailureError | FormulationFailureError):
        return Exit.SOLVER_FAILURE
    if isinstance(error, UnusedOptionError):
        return Exit.USAGE
    return Exit.BAD_INPUT
