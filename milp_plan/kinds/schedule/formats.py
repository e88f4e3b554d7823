"""Files of schedule problems, recognised by content rather than by name."""

from __future__ import annotations

from pathlib import Path

from milp_plan.core import InputError, PlanningProblem
from milp_plan.io import native
from milp_plan.io.files import Document, read_document, write_document
from milp_plan.io.goal import Goal, pursue
from milp_plan.run.kinds import unknown_format


def is_benchmark(document: Document) -> bool:
    """Return whether a document has the members of an input of the placement benchmark."""
    return {"maxFPGAs", "maxCPUs", "nodes"} <= set(document.top_level)


NATIVE = "milp_plan instance (JSON)"
DNN_PARTITIONING = "device placement benchmark of Tarnawski et al. 2020 (JSON)"


def read(path: str | Path, goal: Goal | None = None) -> PlanningProblem:
    """Read a problem from a file of either format, compressed or not.

    Parameters
    ----------
    path
        The file.
    goal
        Objective and serial law, if not those of the file.

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
    if native.can_read(document):
        return pursue(native.read(document), goal)
    if is_benchmark(document):
        from milp_plan.kinds.placement import dnn_partitioning

        return dnn_partitioning.read(document, goal)
    raise InputError([unknown_format(document, f"{NATIVE}; {DNN_PARTITIONING}")])


def write(problem: PlanningProblem, path: str | Path) -> None:
    """Write a problem atomically; compressed when the file name ends in ``.gz``.

    Raises
    ------
    OSError
        The folder does not exist or cannot be written.
    """
    write_document(path, native.to_json(problem))
