"""Plans of hybrid parallelism: an ordered partition of the layers with degrees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from milp_plan.core.shown import ShownPlan

from .problem import Limits


@dataclass(frozen=True, slots=True)
class Choice:
    """A layer of a stage, and the configuration it runs in."""

    layer: str
    configuration: str


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the pipeline: ``data`` replicas, each of ``tensor`` devices.

    Parameters
    ----------
    choices
        Its layers with their configurations.
    data, tensor
        Its data-parallel and its tensor-parallel degree.
    """

    choices: tuple[Choice, ...]
    data: int
    tensor: int

    @property
    def devices(self) -> int:
        """Number of devices of the stage."""
        return self.data * self.tensor


@dataclass(frozen=True)
class HybridPlan(ShownPlan):
    """A plan of hybrid parallelism.

    Parameters
    ----------
    problem
        Name of the problem.
    stages
        Stages in the order of the forward pass.
    limits
        Limits that it was made for; ``None`` stands for the problem's.
    fingerprint
        Fingerprint of the problem; ``None`` claims nothing.
    value
        Claimed time per sample in ticks of the problem; ``None`` claims nothing.
    planner, notes
        Name of the planner, and remarks.
    """

    problem: str
    stages: tuple[Stage, ...]
    limits: Limits | None = None
    fingerprint: str | None = None
    value: int | None = None
    planner: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)
