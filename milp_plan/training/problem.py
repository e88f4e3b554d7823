"""The problem: a model, a cluster, a batch; and its plan, one parallel configuration."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from milp_plan.core import Finding, InputError, Units
from milp_plan.core.errors import below_findings

from .architecture import Architecture
from .cluster import TrainingCluster
from .configuration import Configuration

MOST_TOKENS = 10**9
"""Tokens of a sample at most; beyond them times and sizes leave the range of floats."""

MOST_SAMPLES = 10**6
"""Samples of a step at most: a replay lists every pass of every micro-batch."""


@dataclass(frozen=True)
class TrainingProblem:
    """Which parallel configuration has the shortest training step.

    Parameters
    ----------
    architecture
        The model.
    cluster
        Where it is trained.
    sequence
        Tokens of a sample.
    global_batch
        Samples of one step.
    reserve_bytes
        Memory of every device that no plan may use.

    Raises
    ------
    InputError
        A sequence or batch below 1 or above what is offered, a reserve that leaves no memory.
    """

    architecture: Architecture
    cluster: TrainingCluster
    sequence: int
    global_batch: int
    reserve_bytes: int = 0

    units = Units()

    def __post_init__(self) -> None:
        findings: list[Finding] = []
        for name, least in (("sequence", 1), ("global_batch", 1), ("reserve_bytes", 0)):
            findings += below_findings(name, getattr(self, name), least)
        for name, most in (("sequence", MOST_TOKENS), ("global_batch", MOST_SAMPLES)):
            number = getattr(self, name)
            if number > most:
                findings.append(Finding(name, f"{number:,}", f"at most {most:,}", "ask for less"))
        if self.reserve_bytes >= self.cluster.memory_bytes:
            expected = f"less than the memory of a device, {self.cluster.memory_bytes} bytes"
            findings.append(
                Finding("reserve", f"{self.reserve_bytes} bytes", expected, "reserve less")
            )
        if findings:
            raise InputError(findings)

    @property
    def name(self) -> str:
        """Model and cluster."""
        return f"{self.architecture.name} on {self.cluster.name}"

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all that changes the problem."""
        return hashlib.sha256(repr(self).encode()).hexdigest()

    @property
    def tokens(self) -> int:
        """Tokens of one step."""
        return self.sequence * self.global_batch

    @cached_property
    def model_flops(self) -> int:
        """Operations of one step, without recomputation; causal halves count."""
        return self.global_batch * self.architecture.model_flops(self.sequence)

    def limit_bytes(self, configuration: Configuration, stage: int) -> int:
        """Memory that a plan may use on the devices of a pipeline stage."""
        first = stage * configuration.stage_devices
        for group in self.cluster.groups:
            if first < group.devices:
                return group.device.memory_bytes - self.reserve_bytes
            first -= group.devices
        return self.cluster.memory_bytes - self.reserve_bytes


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """A configuration as the answer to a problem.

    Parameters
    ----------
    problem, fingerprint
        Name and fingerprint of the problem.
    configuration
        The answer.
    value
        Time of a step in nanoseconds, as its maker claims.
    planner
        Who made it.
    """

    problem: str
    fingerprint: str
    configuration: Configuration
    value: int | None = None
    planner: str = ""
