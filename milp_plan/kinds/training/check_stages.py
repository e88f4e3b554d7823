"""The checker of layers on stages: every rule of ``docs/laws.md``, in Python's integers."""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.check.statement import misattributed, overclaimed
from milp_plan.core import Verdict, Violation
from milp_plan.core.verdict import Counts

from .stages_problem import TrainingStagesPlan, TrainingStagesProblem, peaks_of, step_of

OBJECTIVE = "makespan"


def verify_training_stages(problem: TrainingStagesProblem, plan: TrainingStagesPlan) -> Verdict:
    """Check a plan against its problem and recompute its value; never raises.

    Returns
    -------
    Verdict
        Value: ticks of a step; ``None`` if layers are missing, doubled or out of order.
        Components: bytes of each device.
    """
    broken = [*misattributed(problem, plan)]
    wrong = list(_shape(problem, plan)) or [*_assignment(problem, plan), *_order(problem, plan)]
    if wrong:
        return Verdict((*broken, *wrong), OBJECTIVE, None)
    peaks = peaks_of(problem, plan.counts)
    for number, (device, peak) in enumerate(zip(problem.devices, peaks, strict=True)):
        if device.limit is not None and peak > device.limit:
            text = f"a device of stage {number} needs more memory than it has"
            subjects = (f"stage {number}",)
            broken.append(Violation("memory", subjects, text, peak, device.limit, Counts.SIZE))
    value = step_of(problem, plan.counts)
    parts = {f"peak_memory stage {number}": peak for number, peak in enumerate(peaks)}
    broken += overclaimed(problem, plan, value, "a step", Counts.TIME)
    return Verdict(tuple(broken), OBJECTIVE, value, parts)


def _shape(problem: TrainingStagesProblem, plan: TrainingStagesPlan) -> Iterator[Violation]:
    shape = [[len(problem.ways)] * len(problem.runs)] * len(problem.chunks)
    if [[len(row) for row in chunk] for chunk in plan.counts] != shape:
        text = f"the plan has no number for each of {len(problem.chunks)} chunks, "
        text += f"{len(problem.runs)} runs and {len(problem.ways)} ways"
        yield Violation("assignment", (plan.problem,), text)
    elif any(count < 0 for chunk in plan.counts for row in chunk for count in row):
        yield Violation("assignment", (plan.problem,), "a number of layers is below 0")


def _assignment(problem: TrainingStagesProblem, plan: TrainingStagesPlan) -> Iterator[Violation]:
    for number, run in enumerate(problem.runs):
        given = sum(sum(chunk[number]) for chunk in plan.counts)
        if given != run.count:
            text = f"chunks have {given} of the {run.count} layers of run {run.name!r}"
            yield Violation("assignment", (run.name,), text, run.count, given)


def _order(problem: TrainingStagesProblem, plan: TrainingStagesPlan) -> Iterator[Violation]:
    last = 0
    for number, chunk in enumerate(plan.counts):
        present = [run for run, row in enumerate(chunk) if sum(row)]
        if present and present[0] < last:
            early, late = problem.runs[present[0]].name, problem.runs[last].name
            text = f"chunk {number} has layers of run {early!r}, which come before those of "
            text += f"run {late!r} in an earlier chunk"
            yield Violation("order", (f"chunk {number}",), text)
        last = max([last, *present])
