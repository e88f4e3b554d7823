"""Compares a step on several processes with its placements, and with one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from milp_plan.capture.model_file import Builder
from milp_plan.capture.placements import processes, require_placements_of
from milp_plan.capture.trace import capture_model
from milp_plan.core import Finding, InputError, PlanningProblem
from milp_plan.core.sharding import ShardingProblem
from milp_plan.io.capture_wire import Capture
from milp_plan.io.placement_wire import TorchPlacements

from .compare import Differences, differences, refuse_random, require_same
from .processes import run_placements
from .step import run_step


@dataclass(frozen=True)
class ShardedComparison(Differences):
    """Figures of a step on several processes.

    Parameters
    ----------
    processes
        Number of processes.
    planned, ran
        Collectives by kind, of the plan and of the step.
    """

    processes: int
    planned: Mapping[str, int]
    ran: Mapping[str, int]

    @property
    def ok(self) -> bool:
        """Whether numbers are equal, and exactly the plan's collectives ran."""
        planned = {kind: count for kind, count in self.planned.items() if count}
        return self.equal and planned == dict(self.ran)


def compare_sharded(
    builder: Builder,
    plans: Sequence[TorchPlacements],
    *,
    problem: PlanningProblem | ShardingProblem | None = None,
    count: int | None = None,
    dtype: str | None = None,
    report: Any = lambda _text: None,
) -> list[ShardedComparison]:
    """Run a step by each of some placements, and one in this process, and compare.

    Parameters
    ----------
    builder
        The user's function.
    plans
        Placements of its model, all for equally many processes.
    problem
        Instance that must be of the same model.
    count
        Number of processes, if the caller sets it; by default the mesh's.
    dtype
        Type of numbers to build the model in, as it was captured.
    report
        Called with a sentence at each stage.

    Raises
    ------
    InputError
        Placements, instance and model do not belong together, or another number of processes.
    UnsupportedProblemError
        The model draws random numbers, or a placement must change where the plan has no change.
    """
    meshes = {processes(plan) for plan in plans}
    number = count if count is not None else min(meshes)
    if meshes != {number}:
        found = ", ".join(map(str, sorted(meshes)))
        remedy = f"say --processes {min(meshes)}"
        raise InputError([Finding("mesh", f"{found} processes", str(number), remedy)])
    report("capturing the model, to see that the placements belong to it")
    captured = capture_model(builder, dtype=dtype)
    if problem is not None:
        require_same(problem, captured)
    for plan in plans:
        require_placements_of(plan, captured)
    refuse_random(captured, builder)
    report("running a step in one process")
    plain = run_step(builder, dtype=dtype)
    report(f"running a step in {number} processes")
    steps = run_placements(builder, plans, _aliases(captured), dtype=dtype)
    return [
        ShardedComparison(
            *differences(plain, step, dtype),
            number,
            plan.collectives,  # type: ignore[arg-type]
            step.collectives,
        )
        for plan, step in zip(plans, steps, strict=True)
    ]


def _aliases(capture: Capture) -> dict[str, str]:
    return {alias: storage.name for storage in capture.storages for alias in storage.aliases}
