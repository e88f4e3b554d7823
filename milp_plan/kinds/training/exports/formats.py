"""The formats that training plans are written in, and those that are read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from milp_plan.core import Finding, InputError, UnsupportedProblemError
from milp_plan.io.defects import nearest
from milp_plan.io.files import read_document

from ..configuration import Configuration
from ..formats import PLANS
from ..problem import TrainingPlan, TrainingProblem
from ..space import no_reason
from . import deepspeed, fsdp, megatron, nanotron, torchtitan
from .job import Job, Launch, Refusals
from .megatron_read import read_script
from .torchtitan_read import read

if TYPE_CHECKING:
    from milp_plan.io.files import Document


@dataclass(frozen=True, slots=True)
class FrameworkFormat:
    """One framework's configuration.

    Parameters
    ----------
    refusals_of
        Why the framework cannot run a configuration.
    write
        Text of the file.
    is_one
        Whether a file is one that was written here.
    """

    refusals_of: Callable[[Job], Refusals]
    write: Callable[[Job], str]
    is_one: Callable[[Document], bool]


def _has(head: str) -> Callable[[Document], bool]:
    return lambda document: head.encode() in document.data[:400]


_DEEPSPEED = {"zero_optimization", "train_micro_batch_size_per_gpu"}

FORMATS: Mapping[str, FrameworkFormat] = {
    "megatron": FrameworkFormat(megatron.refusals_of, megatron.script, _has(megatron.HEAD)),
    "torchtitan": FrameworkFormat(torchtitan.refusals_of, torchtitan.text, _has(torchtitan.HEAD)),
    "nanotron": FrameworkFormat(nanotron.refusals_of, nanotron.text, _has(nanotron.HEAD)),
    "deepspeed": FrameworkFormat(
        deepspeed.refusals_of, deepspeed.text, lambda d: set(d.top_level) >= _DEEPSPEED
    ),
    "fsdp2": FrameworkFormat(fsdp.refusals_of, fsdp.text, _has(fsdp.HEAD)),
}
"""Name -> format."""


def export(problem: TrainingProblem, plan: TrainingPlan | Configuration, format_name: str) -> str:
    """Return a plan as configuration of a framework.

    Parameters
    ----------
    problem
        Model, cluster and batch.
    plan
        A plan, or a configuration, that can run.
    format_name
        One of :data:`FORMATS`.

    Raises
    ------
    UnsupportedProblemError
        It cannot run, memory apart, or not in the framework; says every reason, and what to do.
    InputError
        No format of that name.
    """
    entry = _format(format_name)
    if isinstance(plan, Configuration):
        job = Job(problem, plan)
    else:
        job = Job(problem, plan.configuration, plan.value)
    found = "\n  ".join(problem.reasons(job.configuration))
    if found:
        raise UnsupportedProblemError(f"this plan cannot run:\n  {found}")
    entry.refusals_of(job).done()
    return entry.write(job)


def refusals(problem: TrainingProblem) -> Callable[[Configuration], tuple[str, ...]]:
    """Return a function that says why the problem's framework cannot run a configuration.

    Raises
    ------
    InputError
        No framework of that name.
    """
    if not problem.framework:
        return no_reason
    refusals_of = _format(problem.framework, "framework").refusals_of

    def reasons(configuration: Configuration) -> tuple[str, ...]:
        return tuple(reason for reason, _ in refusals_of(Job(problem, configuration)).reasons)

    return reasons


def _format(name: str, where: str = "format") -> FrameworkFormat:
    if name in FORMATS:
        return FORMATS[name]
    expected = f"one of {', '.join(FORMATS)}"
    raise InputError(
        [Finding(where, repr(name), expected, nearest(name, FORMATS, "correct the name"))]
    )


def is_export(document: Document) -> bool:
    """Whether a file is one that :func:`export` writes."""
    return any(entry.is_one(document) for entry in FORMATS.values())


def read_configuration(
    path: str | Path, problem: TrainingProblem
) -> tuple[TrainingPlan, tuple[str, ...]]:
    """Read a plan, a Megatron-LM script or a torchtitan configuration, as its content says.

    Returns
    -------
    tuple
        The plan, and options of the file that are no part of one.

    Raises
    ------
    InputError
        The file is none of these, or has defects; with every one.
    """
    document = read_document(path, "a plan, a Megatron-LM script or a torchtitan configuration")
    text = document.data.decode("utf-8", "replace")
    if document.marker == PLANS.marker:
        return PLANS.read(path), ()
    launch: Launch
    if "--micro-batch-size" in text or "--tensor-model-parallel-size" in text:
        launch = read_script(text, document.file, problem)
    elif "[parallelism]" in text or "[training]" in text:
        launch = read(text, document.file, problem)
    else:
        found = next((name for name in FORMATS if FORMATS[name].is_one(document)), None)
        what = f"an export to {found}" if found else document.marker or "something else"
        expected = (
            "a plan of train --plan-output, a script with arguments of Megatron-LM, or a TOML file "
            "of torchtitan"
        )
        remedy = "name one of these; milp-plan check checks plans of other kinds"
        raise InputError([Finding("content", what, expected, remedy, document.file)])
    plan = TrainingPlan(problem.name, problem.fingerprint, launch.configuration)
    return plan, launch.unread
