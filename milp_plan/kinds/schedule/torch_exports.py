"""Formats that schedules are written in for PyTorch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from milp_plan.core import Plan, PlanningProblem
from milp_plan.io.files import Document
from milp_plan.run.kind import Export


def torch_exports() -> Mapping[str, Export[PlanningProblem, Plan]]:
    """Return files for torch by the name of their format."""
    return {
        "torch-schedule": Export(
            "CSV that torch.distributed.pipelining runs",
            _is_torch_schedule,
            _torch_schedule,
            "torch would not run what was planned",
            _torch_remarks,
        ),
        "torch-checkpoint": Export(
            "blocks that torch computes again",
            lambda document: document.marker == "milp-plan-torch-checkpoint",
            _torch_checkpoint,
            "torch would not run what was planned",
        ),
        "torch-stages": Export(
            "modules that each stage of a pipeline runs, with what they cost",
            lambda document: document.marker == "milp-plan-torch-stages",
            _torch_stages,
            "torch would not run what was planned",
        ),
    }


def _is_torch_schedule(document: Document) -> bool:
    """By its first action, such as ``0F0`` or ``1SEND_F2``; other tables begin with a heading."""
    return re.match(rb"[,\s]*\d+(SEND_|RECV_)?[FBWI]\d+(,|\s|$)", document.data) is not None


def _torch_schedule(problem: PlanningProblem, plan: Plan, _file: Path) -> bytes:
    from milp_plan.kinds.pipeline.torch_schedule import torch_schedule_csv

    return torch_schedule_csv(problem, plan).encode()


def _torch_remarks(problem: PlanningProblem, plan: Plan) -> list[str]:
    from milp_plan.kinds.pipeline.torch_schedule import torch_remarks

    return torch_remarks(problem, plan)


def _torch_checkpoint(problem: PlanningProblem, plan: Plan, _file: Path) -> bytes:
    from milp_plan.capture.checkpoints import checkpoint_text

    return checkpoint_text(problem, plan)


def _torch_stages(problem: PlanningProblem, plan: Plan, _file: Path) -> bytes:
    from milp_plan.capture.stages import stages_text

    return stages_text(problem, plan)
