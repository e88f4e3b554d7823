"""The planning problem: graph, cluster, objective and the settings its format declares."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from .cluster import Cluster
from .errors import InputError
from .graph import ComputationGraph, Operator
from .plan import Placement
from .quantity import Units
from .validation import find_problems


class Objective(StrEnum):
    """What a plan minimises."""

    MAKESPAN = "makespan"
    """Stop of the last operator: latency, or the time of a training step."""
    SPAN = "span"
    """Longest time from the first start to the last stop on one device: the time of a training
    step whose devices do not wait for each other at its end (optimizer without a barrier)."""
    BOTTLENECK = "bottleneck"
    """Busy time of the busiest device or channel: steady-state time per sample."""
    PEAK_MEMORY = "peak_memory"
    """Largest number of bytes any device holds at any instant."""


class MemoryLaw(StrEnum):
    """How memory is counted (law 7: declared by the format's reader)."""

    INSTANT = "instant"
    """At every instant, from the schedule."""
    STATIC = "static"
    """Everything a device ever holds at once: persistent values, copies, largest workspace."""


@dataclass(frozen=True)
class PlanningProblem:
    """Everything a planner may know. Frozen; structure is checked once, on construction.

    Parameters
    ----------
    name
        Unique name of the instance.
    graph, cluster, objective
        What runs, on what, and what counts.
    memory_law
        ``INSTANT`` unless the source counts statically.
    units
        What ticks and bytes stand for.
    provenance
        Where the numbers come from (source, licence, generator, parameters).

    Raises
    ------
    InputError
        With one finding per defect: names, references, cycles, durations, layouts, devices.
    """

    name: str
    graph: ComputationGraph
    cluster: Cluster
    objective: Objective = Objective.MAKESPAN
    memory_law: MemoryLaw = MemoryLaw.INSTANT
    units: Units = field(default_factory=Units)
    provenance: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        findings = find_problems(self.graph, self.cluster)
        if findings:
            raise InputError(findings)

    @property
    def needs_schedule(self) -> bool:
        """Whether a plan must say when everything runs."""
        return self.objective is not Objective.BOTTLENECK or self.memory_law is MemoryLaw.INSTANT

    @cached_property
    def _placements(self) -> dict[str, tuple[Placement, ...]]:
        return {operator.name: self._admissible(operator) for operator in self.graph.operators}

    def _admissible(self, operator: Operator) -> tuple[Placement, ...]:
        found = []
        for option in operator.options:
            for site in self.cluster.sites(option.gang):
                if all(self.cluster.device(d).device_class in option.duration_ns for d in site):
                    found.append(Placement(option.name, site))
        return tuple(found)

    def placements(self, operator: str) -> tuple[Placement, ...]:
        """Admissible (option, devices) pairs of an operator, in option and device order."""
        return self._placements[operator]

    def duration_ns(self, operator: str, placement: Placement) -> int:
        """Ticks an operator takes there: its slowest device counts."""
        durations = self.graph.operator(operator).option(placement.option).duration_ns
        return max(durations[self.cluster.device(d).device_class] for d in placement.devices)

    def with_memory_scale(self, numerator: int, denominator: int) -> PlanningProblem:
        """Return the problem with every limited device memory scaled, rounded down."""
        memory = {
            device.name: device.memory_bytes * numerator // denominator
            for device in self.cluster.devices
            if device.memory_bytes is not None
        }
        return replace(self, cluster=self.cluster.with_memory(dict(memory)))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over everything that changes the problem; names count, provenance does not."""
        content = [self.graph, self.cluster, self.objective, self.memory_law, self.units]
        text = json.dumps(_plain(content), separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def _plain(item: Any) -> Any:
    """Nested lists that spell out an item; mapping order does not count, sequence order does."""
    if is_dataclass(item) and not isinstance(item, type):
        return [_plain(getattr(item, entry.name)) for entry in fields(item)]
    if isinstance(item, Mapping):
        return sorted([_plain(key), _plain(value)] for key, value in item.items())
    if isinstance(item, tuple | list):
        return [_plain(entry) for entry in item]
    return item
