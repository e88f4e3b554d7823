"""The verbs of the public face, for problems of every kind; see :mod:`milp_plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from milp_plan.core import Verdict
from milp_plan.core.bound import Bound
from milp_plan.run import Outcome, Settings, kind_of
from milp_plan.run import read as read_any
from milp_plan.run import solve as solve_any
from milp_plan.run.settings import ProgressHook


def read(path: str | Path, **changes: Any) -> Any:
    """Read a problem of any kind.

    Parameters
    ----------
    path
        File of any known format, compressed or not.
    changes
        What is asked of it beside what it says, as on the command line: ``memory_scale="4/5"``,
        ``objective="bottleneck"``, ``devices=8``.

    Raises
    ------
    InputError
        The file is not what its format says; with every finding.
    """
    return read_any(path, changes)[1]


def solve(
    problem: Any, on_progress: ProgressHook | None = None, **settings: Any
) -> Outcome[Any, Any]:
    """Plan a problem; see :class:`milp_plan.run.Settings` for what can be asked.

    Raises
    ------
    UnsupportedProblemError, InputError, FormulationError
        As :func:`milp_plan.run.solve`.
    """
    return solve_any(problem, Settings(**settings), on_progress)


def check(problem: Any, plan: Any) -> Verdict:
    """Hold a plan against every law, and recompute its value; never raises."""
    return kind_of(problem).verify(problem, plan)


def bound(problem: Any, time_limit_s: float = 10.0) -> Bound | None:
    """Return the best bound that a run proves in some time; ``None`` where there is none.

    A problem without any plan has no bound worth the name: ask :func:`solve` for the proof.
    """
    return max(
        solve(problem, time_limit_s=time_limit_s).bounds,
        key=lambda entry: entry.value,
        default=None,
    )


def draw(problem: Any, plan: Any, path: str | Path | None = None) -> Any:
    """Return the picture of a plan (``matplotlib.figure.Figure``); write it where a path is given.

    Raises
    ------
    UnsupportedProblemError
        There is no picture of this kind of problem.
    BackendUnavailableError
        matplotlib is not installed.
    """
    figure = kind_of(problem).draw(problem, plan)
    if path is not None:
        from milp_plan.draw import write_figure

        write_figure(figure, Path(path))
    return figure


def write(problem: Any, path: str | Path, format_name: str | None = None) -> None:
    """Write a problem, in the first format of its kind that can be written unless one is named.

    Raises
    ------
    ValueError
        The kind has no such format.
    """
    from milp_plan.io import write_document

    for entry in kind_of(problem).formats():
        if entry.write is not None and format_name in (None, entry.name):
            write_document(path, entry.write(problem))
            return
    raise ValueError(f"problems of this kind cannot be written as {format_name or 'a file'}")
