"""The formats this package reads and writes, found by content rather than by file name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from milp_plan.core import InputError, PlanningProblem
from milp_plan.io import native
from milp_plan.io.files import Document, read_document, write_document
from milp_plan.io.goal import Goal, pursue
from milp_plan.run.kinds import unknown_format


@dataclass(frozen=True)
class Format:
    """A file format of planning problems.

    Parameters
    ----------
    name, title
        Short name for command lines, and what it is in a few words.
    can_read
        Whether a document is of this format, from its content.
    read
        Returns the problem with the goal asked for; raises ``InputError``.
    write
        Returns the text of a problem; ``None`` for formats that are only read.
    """

    name: str
    title: str
    can_read: Callable[[Document], bool]
    read: Callable[[Document, Goal], PlanningProblem]
    write: Callable[[PlanningProblem], bytes] | None = None


def _native(document: Document, goal: Goal) -> PlanningProblem:
    return pursue(native.read(document), goal)


def is_benchmark(document: Document) -> bool:
    """Whether a document has the members of an input of the placement benchmark."""
    return {"maxFPGAs", "maxCPUs", "nodes"} <= set(document.top_level)


def _benchmark(document: Document, goal: Goal) -> PlanningProblem:
    from milp_plan.kinds.placement import dnn_partitioning

    return dnn_partitioning.read(document, goal)


_FORMATS = (
    Format("native", "milp_plan instance (JSON)", native.can_read, _native, native.to_json),
    Format(
        "dnn-partitioning",
        "device placement benchmark of Tarnawski et al. 2020 (JSON)",
        is_benchmark,
        _benchmark,
    ),
)


def formats() -> tuple[Format, ...]:
    """Return every known format, in the order they are tried."""
    return _FORMATS


def read(path: str | Path, goal: Goal | None = None) -> PlanningProblem:
    """Read a problem from a file of any known format, compressed or not.

    Parameters
    ----------
    path
        The file.
    goal
        What is asked of it, if not what the file says.

    Raises
    ------
    InputError
        The file cannot be read, is of no known format, or has defects. Every finding names the
        file. A problem without any plan is no defect: solvers prove that there is none.
    """
    document = read_document(path)
    try:
        return read_whole(document, goal or Goal())
    except InputError as error:
        raise error.in_file(document.file) from None


def read_whole(document: Document, goal: Goal) -> PlanningProblem:
    """Read a problem from a document; as :func:`read`, but findings name no file."""
    return _format_of(document).read(document, goal)


def read_many(
    paths: Iterable[str | Path], goal: Goal | None = None
) -> Iterator[tuple[Path, PlanningProblem | InputError]]:
    """Read file after file; a bad one gives its error in place of a problem."""
    for path in paths:
        try:
            yield Path(path), read(path, goal)
        except InputError as error:
            yield Path(path), error


def write(problem: PlanningProblem, path: str | Path, format_name: str = "native") -> None:
    """Write a problem atomically; compressed when the file name ends in ``.gz``.

    Raises
    ------
    ValueError
        No format of that name can be written.
    OSError
        The folder does not exist or cannot be written.
    """
    writers = {entry.name: entry.write for entry in _FORMATS if entry.write is not None}
    if format_name not in writers:
        known = ", ".join(writers)
        raise ValueError(f"cannot write format {format_name!r}; formats that can be: {known}")
    write_document(path, writers[format_name](problem))


def _format_of(document: Document) -> Format:
    for entry in _FORMATS:
        if entry.can_read(document):
            return entry
    titles = "; ".join(entry.title for entry in _FORMATS)
    raise InputError([unknown_format(document, titles)])
