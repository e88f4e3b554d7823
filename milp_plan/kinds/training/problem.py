"""The problem: a model, a cluster, a batch; and its plan, one parallel configuration."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar

from milp_plan.core import Finding, Units
from milp_plan.core.checked import CheckedProblem
from milp_plan.core.errors import below_findings
from milp_plan.core.shown import ShownPlan

from .architecture import Architecture
from .cluster import TrainingCluster
from .configuration import Configuration
from .efficiency import Efficiency, shipped

MOST_TOKENS = 10**9
"""Tokens of a sample at most; beyond them times and sizes leave the range of floats."""

MOST_SAMPLES = 10**6
"""Samples of a step at most: a replay lists every pass of every micro-batch."""


MODEL_NOTES = "model notes"
"""Entry of a problem's provenance: what was assumed, or not read, of the model's file."""


@dataclass(frozen=True)
class ModelOnCluster(CheckedProblem):
    """A model on a cluster, what a plan may not choose, and rates; with an exact content hash.

    Training and serving derive from it.

    Parameters
    ----------
    architecture
        The model.
    cluster
        Where it runs.
    reserve_bytes
        Memory of every device that no plan may use.
    fixed
        Field of a plan's decision -> the one value that a plan may have.
    efficiency
        Rates that devices and framework reach.
    provenance
        Where the problem comes from; does not change it.

    Attributes
    ----------
    decision
        Dataclass of what a plan decides; its fields may be fixed.
    """

    decision: ClassVar[type[Any]]

    architecture: Architecture
    cluster: TrainingCluster
    reserve_bytes: int = field(default=0, kw_only=True)
    fixed: Mapping[str, Any] = field(default_factory=dict, hash=False, kw_only=True)
    efficiency: Efficiency = field(default_factory=shipped, hash=False, kw_only=True)
    provenance: Mapping[str, str] = field(
        default_factory=dict, hash=False, compare=False, kw_only=True
    )

    units = Units(size="GB", size_scale=10**9)

    def _parts(self) -> Iterator[tuple[str, Any]]:
        yield "problem", self
        yield "link between groups", self.cluster.between
        for group in self.cluster.groups:
            yield from (("group", group), (f"device {group.device.name}", group.device))
            if group.device.host is not None:
                yield f"host of {group.device.name}", group.device.host
            for level in group.levels:
                yield from ((f"level {level.name}", level), (f"link {level.name}", level.link))
        yield from (("software", self.efficiency.software), ("band", self.efficiency.band))
        known = {name: value for name, value in self.fixed.items() if name in self.decided()}
        yield "fixed", self.decision(**known)

    def _findings(self) -> Iterator[Finding]:
        yield from below_findings("reserve_bytes", self.reserve_bytes, 0)
        for name in self.fixed:
            if name not in self.decided():
                expected = f"one of {', '.join(self.decided())}"
                yield Finding("fixed", repr(name), expected, "correct it")
        if self.reserve_bytes >= self.cluster.memory_bytes:
            expected = f"less than the memory of a device, {self.cluster.memory_bytes} bytes"
            yield Finding("reserve_bytes", f"{self.reserve_bytes} bytes", expected, "reserve less")

    def _content(self) -> object:
        limits = (self.cluster.memories, self.reserve_bytes, sorted(self.fixed.items()))
        return (self._shared(), limits, *self._limits())

    def _shared(self) -> object:
        known = {name: self.efficiency.rates(name) for name in self.cluster.device_names}
        rates = (sorted(known.items()), self.efficiency.software)
        asked = (self.architecture, self.cluster.with_memory(0), *self._size())
        return asked, rates

    @abstractmethod
    def reasons(self, decision: Any) -> Iterator[str]:
        """List every reason why a decision cannot be, memory apart, one sentence each."""

    def why_not(self, decision: Any) -> str | None:
        """Say in one sentence why a decision cannot be, memory apart; ``None`` if it can."""
        return next(self.reasons(decision), None)

    @abstractmethod
    def _size(self) -> tuple[Any, ...]:
        """Return the rest of what variants share."""

    @abstractmethod
    def _limits(self) -> tuple[Any, ...]:
        """Return limits beside memory and fixed fields."""

    @classmethod
    def decided(cls) -> tuple[str, ...]:
        """Return the fields that a plan decides."""
        return tuple(entry.name for entry in fields(cls.decision))

    @property
    def fixed_texts(self) -> tuple[str, ...]:
        """Fixed fields with their values."""
        return tuple(f"{name} {value}" for name, value in self.fixed.items())

    @property
    def costs_origin(self) -> str:
        """Where the rates of each device class come from."""
        return self.efficiency.origin(self.cluster.device_names, self.architecture.has_experts)

    def group_of(self, decision: Any, stage: int) -> int:
        """Number of the group on whose devices a pipeline stage lies."""
        return self.cluster.group_of(stage * decision.stage_devices)

    def limit_bytes(self, decision: Any, stage: int) -> int:
        """Memory that a plan may use on the devices of a pipeline stage."""
        group = self.cluster.groups[self.group_of(decision, stage)]
        return group.device.memory_bytes - self.reserve_bytes

    def host_limit(self, decision: Any, stage: int) -> int:
        """Memory of the host for each device of a pipeline stage."""
        host = self.cluster.groups[self.group_of(decision, stage)].device.host
        return 0 if host is None else host.memory_bytes


@dataclass(frozen=True)
class TrainingProblem(ModelOnCluster):
    """Which parallel configuration has the shortest training step.

    Fields beside those of :class:`ModelOnCluster`:

    Parameters
    ----------
    sequence
        Tokens of a sample.
    global_batch
        Samples of one step.
    framework
        What must be able to run a plan, a name of :data:`.exports.FORMATS`; empty for anything.
    host
        Whether activations and the optimizer's state may be in the memory of the hosts.

    Raises
    ------
    InputError
        A sequence or batch below 1 or above what is offered, a reserve that leaves no memory.
    """

    decision = Configuration

    sequence: int
    global_batch: int
    framework: str = ""
    host: bool = False

    def _findings(self) -> Iterator[Finding]:
        for name in ("sequence", "global_batch"):
            yield from below_findings(name, getattr(self, name), 1)
        for name, most in (("sequence", MOST_TOKENS), ("global_batch", MOST_SAMPLES)):
            yield from above_findings(name, getattr(self, name), most)
        yield from super()._findings()

    def _size(self) -> tuple[Any, ...]:
        return self.sequence, self.global_batch

    def _limits(self) -> tuple[Any, ...]:
        return (self.framework, *(("host",) if self.host else ()))

    def reasons(self, decision: Configuration) -> Iterator[str]:
        """List every reason why a configuration cannot run, memory apart, one sentence each."""
        return decision.reasons(self.architecture, self.cluster, self.global_batch)

    @property
    def name(self) -> str:
        """Model and cluster."""
        return f"{self.architecture.name} on {self.cluster.name}"

    @property
    def tokens(self) -> int:
        """Tokens of one step."""
        return self.sequence * self.global_batch

    @cached_property
    def model_flops(self) -> int:
        """Operations of one step, without recomputation; causal halves count."""
        return self.global_batch * self.architecture.model_flops(self.sequence)


def above_findings(where: str, number: int, most: int) -> Iterator[Finding]:
    """List a number that is above the most there can be."""
    if number > most:
        yield Finding(where, f"{number:,}", f"at most {most:,}", "ask for less")


@dataclass(frozen=True)
class TrainingPlan(ShownPlan):
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
    parent
        What variants of the problem have in common.
    """

    problem: str
    fingerprint: str | None
    configuration: Configuration
    value: int | None = None
    planner: str = ""
    parent: str | None = None
