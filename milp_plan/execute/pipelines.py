"""Compares a pipeline of a captured model on several processes with one process."""

from __future__ import annotations

import csv
import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from milp_plan.capture.model_file import Builder
from milp_plan.capture.record import fingerprint
from milp_plan.capture.stages import read_stages
from milp_plan.capture.trace import capture_model
from milp_plan.core import Finding, InputError, PlanningProblem, Units
from milp_plan.core.amounts import size_text
from milp_plan.io.capture_wire import Capture
from milp_plan.io.stage_wire import TorchStage, TorchStages

from .compare import Differences, differences, refuse_random, require_same
from .processes import start
from .step import StepResult, run_micro_batches

CELL = re.compile(r"(\d+)([FIWB])(\d+)")


@dataclass(frozen=True)
class PipelineComparison(Differences):
    """Figures of a pipeline's step.

    Parameters
    ----------
    modules
        Stage -> modules.
    stages_of
        Process -> its stages.
    split
        Process -> whether it has a split backward pass.
    micro_batches
        Number of micro-batches.
    planned_bytes, measured_bytes
        Per process: peak above weights, states and inputs, by the order of the schedule and
        by the allocator.
    """

    modules: Sequence[Sequence[str]]
    stages_of: Sequence[Sequence[int]]
    split: Sequence[bool]
    micro_batches: int
    planned_bytes: Sequence[int]
    measured_bytes: Sequence[int]

    @property
    def ok(self) -> bool:
        """Whether numbers are equal and, without split backward passes, memory is as planned.

        PyTorch splits a backward pass by storing gradients that a captured graph does not have.
        """
        return self.equal and all(
            split or measured <= planned
            for split, measured, planned in zip(
                self.split, self.measured_bytes, self.planned_bytes, strict=True
            )
        )


def compare_pipeline(
    builder: Builder,
    stages_file: Path,
    schedule_file: Path,
    *,
    problem: PlanningProblem,
    count: int | None = None,
    dtype: str | None = None,
    report: Any = lambda _text: None,
) -> PipelineComparison:
    """Run a step of a pipeline on several processes, and one in this process, and compare.

    Parameters
    ----------
    builder
        The user's function; each call returns a micro-batch.
    stages_file, schedule_file
        A torch-stages and a torch-schedule file.
    problem
        Instance that must be of the same model.
    count
        Number of processes, if the caller sets it; by default the rows of the schedule.
    dtype
        Type of numbers to build the model in, as it was captured.
    report
        Called with a sentence at each stage.

    Raises
    ------
    InputError
        Instance, stages, schedule and model do not belong together, or another number of
        processes.
    UnsupportedProblemError
        The model draws random numbers, or a process failed.
    """
    stages = read_stages(stages_file)
    rows = read_schedule(schedule_file, len(stages.stages))
    if count is not None and count != len(rows):
        found, remedy = f"{len(rows)} rows", f"say --processes {len(rows)}"
        raise InputError([Finding("rows", found, str(count), remedy, str(schedule_file))])
    for text in without_room(rows, stages):
        report(text)
    report("capturing the model, to see that the stages belong to it")
    captured = capture_model(builder, dtype=dtype)
    require_same(problem, captured)
    _require_stages_of(stages, captured, str(stages_file))
    refuse_random(captured, builder)
    batches = 1 + max(batch for row in rows for _, _, batch in row)
    report(f"running {batches} micro-batches in one process")
    plain = run_micro_batches(builder, batches, dtype=dtype)
    report(f"running {len(stages.stages)} stages in {len(rows)} processes")
    task = {
        "model": builder.text,
        "dtype": dtype,
        "stages": len(stages.stages),
        "micro_batches": batches,
        "own": [sorted({stage for stage, _, _ in row}) for row in rows],
    }
    results = _run(task, stages_file, schedule_file)
    step = _joined(results, captured, batches)
    return PipelineComparison(
        *differences(plain, step, dtype),
        [stage.modules for stage in stages.stages],
        [sorted({stage for stage, _, _ in row}) for row in rows],
        [any(letter == "W" for _, letter, _ in row) for row in rows],
        batches,
        [planned_peak(row, stages.stages) for row in rows],
        [result["peak"] for result in results],
    )


Row = list[tuple[int, str, int]]
"""Actions of a process: stage, letter, micro-batch."""


def read_schedule(path: Path, stages: int) -> list[Row]:
    """Read a torch-schedule file.

    Raises
    ------
    InputError
        Cells that are no action, or another number of stages.
    """
    findings, rows = [], []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        remedy = "write it by milp-plan export --format torch-schedule"
        raise InputError([Finding("file", str(error), "a schedule", remedy, str(path))]) from None
    for number, cells in enumerate(csv.reader(text.splitlines())):
        row: Row = []
        for cell in cells:
            match = CELL.fullmatch(cell.strip())
            if match is None:
                expected = "stage, F, I, W or B, and micro-batch, as in 2F0"
                findings.append(Finding(f"row {number}", repr(cell), expected, "correct it"))
            else:
                row.append((int(match[1]), match[2], int(match[3])))
        rows.append(row)
    used = {stage for row in rows for stage, _, _ in row}
    if not findings and used != set(range(stages)):
        found, expected = f"{len(used)} stages", f"the {stages} of the stage file"
        remedy = "plan it by milp-plan pipeline --times STAGES.json, one piece for each stage"
        findings.append(Finding("stages", found, expected, remedy))
    if findings:
        raise InputError(findings).in_file(str(path))
    return rows


def without_room(rows: Sequence[Row], stages: TorchStages) -> list[str]:
    """Return the processes that need more memory than a device has, if the stage file gives it.

    Processes are run all the same: PyTorch stores more than a plan counts (what was sent), and the
    processes need not run on such devices.
    """
    if stages.memory is None:
        return []
    texts = []
    for number, row in enumerate(rows):
        own = [stages.stages[stage] for stage in sorted({stage for stage, _, _ in row})]
        needed = planned_peak(row, stages.stages) + sum(s.parameters + s.state for s in own)
        if needed > stages.memory:
            room = f"a device of the stage file has {size_text(Units(), stages.memory)}"
            texts.append(f"process {number} needs {size_text(Units(), needed)}; {room}")
    return texts


def planned_peak(row: Row, stages: Sequence[TorchStage]) -> int:
    """Return the most bytes of a process above weights, states and inputs, in its row's order.

    It follows PyTorch's runtime: a split backward pass releases nothing before the weight gradient
    is done, sent tensors stay to the end of the step, and an activation and a
    gradient may arrive ahead of their passes.
    """
    own = {number for number, _, _ in row}
    away = [
        (stages[n].receives if {n - 1, n} & own != {n - 1, n} else 0) for n in range(len(stages))
    ]
    behind = [*away[1:], 0]
    held = peak = sum(stages[n].gradients + away[n] + behind[n] for n in own)
    for number, letter, _ in row:
        stage = stages[number]
        if letter == "F":
            held += stage.held
        if letter in "IB":
            held += stage.gradient + away[number]
        peak = max(peak, held)
        if letter in "WB":
            held -= stage.held + stage.gradient - behind[number]
    return peak + max(stages[n].workspace for n in own)


def _require_stages_of(stages: TorchStages, captured: Capture, file: str) -> None:
    if stages.graph != fingerprint(captured):
        expected = f"{fingerprint(captured)}, that of the model in PyTorch {captured.torch}"
        remedy = f"capture and plan it again (the file: PyTorch {stages.torch})"
        raise InputError([Finding("graph", stages.graph, expected, remedy, file)])


def _run(
    task: Mapping[str, Any], stages_file: Path, schedule_file: Path
) -> list[Mapping[str, Any]]:
    """Start the processes; return the answer of each."""
    import torch

    count = len(task["own"])
    with tempfile.TemporaryDirectory(prefix="milp-plan-") as name:
        folder = Path(name)
        shutil.copy(stages_file, folder / "stages.json")
        shutil.copy(schedule_file, folder / "schedule.csv")
        (folder / "task.json").write_text(json.dumps(task))
        start(folder, count, "milp_plan.execute.rank")
        return [torch.load(folder / f"{place}.result") for place in range(count)]


def _joined(results: Sequence[Mapping[str, Any]], captured: Capture, batches: int) -> StepResult:
    """Return losses of the last stage and gradients of all, those of tied parameters summed."""
    aliases = {alias: s.name for s in captured.storages for alias in s.aliases}
    gradients: dict[str, Any] = {}
    for result in results:
        for name, gradient in result["gradients"].items():
            one = aliases.get(name, name)
            gradients[one] = gradients[one] + gradient if one in gradients else gradient
    losses = [loss for result in results for loss in result["losses"]]
    return StepResult(sum(losses) / batches, gradients, 0)
