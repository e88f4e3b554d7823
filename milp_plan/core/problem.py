"""The planning problem: graph, cluster, objective and the settings its format declares."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from .cluster import Channel, Cluster, Device, DeviceClass
from .errors import Finding, InputError
from .graph import FORWARD_KIND, ComputationGraph, Operator
from .plan import Placement
from .quantity import Units
from .serial import SerialLaw, serial_findings
from .shown import Shown
from .validation import Unplaced, find_problems, find_unplaced


class Objective(StrEnum):
    """The objective that a plan minimises."""

    MAKESPAN = "makespan"
    """Stop of the last operator: latency, or the time of a training step."""
    SPAN = "span"
    """Longest time from the first start to the last stop on one device: the time of a training
    step whose devices do not wait for each other at its end (optimizer without a barrier)."""
    BOTTLENECK = "bottleneck"
    """Busy time of the busiest device or channel: steady-state time per sample."""
    PEAK_MEMORY = "peak_memory"
    """Largest number of bytes in use on any device at any instant."""
    LATENCY = "latency"
    """Time until the last value of one sample is available, under the serial law with calls."""


PLAIN_OBJECTIVES = tuple(entry for entry in Objective if entry is not Objective.LATENCY)
"""Objectives that need no serial law."""


class MemoryLaw(StrEnum):
    """How memory is counted (law 7: declared by the format's reader)."""

    INSTANT = "instant"
    """At every instant, from the schedule."""
    STATIC = "static"
    """All that a device ever stores, together: persistent values, copies, largest workspace."""


@dataclass(frozen=True)
class PlanningProblem(Shown):
    """A planning problem; its structure is checked on construction.

    Parameters
    ----------
    name
        Unique name of the instance.
    graph, cluster, objective
        The computation graph, the cluster, and the objective.
    memory_law
        ``INSTANT`` unless the source counts statically.
    units
        Units of the source, and their multiples in ticks and bytes.
    provenance
        Where the numbers come from (source, licence, generator, parameters).
    serial
        Set where transfers are work of the devices (law 7); plans then have no transfers and no
        times. Needs objective bottleneck or latency and the static memory law.
    parent
        Fingerprint of the problem that this one is a variant of: the same graph and devices with
        another objective, law or memory. It is not part of the fingerprint.

    Raises
    ------
    InputError
        The problem has defects; one finding for each.
    """

    name: str
    graph: ComputationGraph
    cluster: Cluster
    objective: Objective = Objective.MAKESPAN
    memory_law: MemoryLaw = MemoryLaw.INSTANT
    units: Units = field(default_factory=Units)
    provenance: Mapping[str, str] = field(default_factory=dict)
    serial: SerialLaw | None = None
    parent: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        findings = find_problems(self.graph, self.cluster) or list(self._law_findings())
        if findings:
            raise InputError(findings)

    def _law_findings(self) -> Iterator[Finding]:
        """Report objective, memory law and serial law that do not fit together."""
        if self.allows_memory_saving and self.memory_law is MemoryLaw.STATIC:
            yield Finding(
                "memory_law",
                "static, with operators that may run again or hosts",
                "instant: a copy is made again or brought back at an instant",
                "set memory_law to instant, or remove hosts and recomputable",
            )
        if self.serial is None:
            if self.objective is Objective.LATENCY:
                expected = "makespan, or a serial law with calls"
                yield Finding("objective", "latency", expected, "use makespan, or set serial")
            return
        yield from serial_findings(self.serial, self.graph, self.cluster)
        needs = Objective.BOTTLENECK if self.serial.calls is None else Objective.LATENCY
        if self.objective is not needs:
            why = "with" if self.serial.calls else "without"
            expected = f"{needs} under the serial law {why} calls"
            yield Finding("objective", self.objective.value, expected, "correct it")
        if self.memory_law is not MemoryLaw.STATIC:
            found, expected = self.memory_law.value, "static under the serial law"
            yield Finding("memory_law", found, expected, "correct it")

    @cached_property
    def allows_memory_saving(self) -> bool:
        """Whether operators may run again or values may wait on a host."""
        return bool(self.cluster.hosts) or any(op.recomputable for op in self.graph.operators)

    @cached_property
    def without_memory_saving(self) -> PlanningProblem:
        """The problem without hosts in which each operator runs once; its plans are plans here."""
        if not self.allows_memory_saving:
            return self
        hosts, cluster = self.cluster.hosts, self.cluster
        return replace(
            self,
            graph=replace(
                self.graph,
                operators=tuple(replace(op, recomputable=False) for op in self.graph.operators),
            ),
            cluster=replace(
                cluster,
                device_classes=tuple(c for c in cluster.device_classes if not c.host),
                devices=tuple(d for d in cluster.devices if d.name not in hosts),
                channels=tuple(c for c in cluster.channels if not {c.source, c.target} & hosts),
            ),
            parent=self.parent or self.fingerprint,
        )

    def with_recomputation(self) -> PlanningProblem:
        """Return the problem whose forward operators may run again."""
        operators = tuple(
            replace(op, recomputable=True) if op.kind == FORWARD_KIND else op
            for op in self.graph.operators
        )
        return self.variant(graph=replace(self.graph, operators=operators))

    def with_host(self, memory_bytes: int, bandwidth_bytes_per_s: int) -> PlanningProblem:
        """Return the problem with one host that each device has a channel to and one from."""
        cluster, name = self.cluster, "host"
        ends = [pair for d in cluster.device_names for pair in ((d, name), (name, d))]
        channels = tuple(Channel(a, b, 0, bandwidth_bytes_per_s) for a, b in ends)
        return self.variant(
            cluster=replace(
                cluster,
                device_classes=(*cluster.device_classes, DeviceClass(name, memory_bytes, True)),
                devices=(*cluster.devices, Device(name, name, memory_bytes)),
                channels=(*cluster.channels, *channels),
            )
        )

    @property
    def needs_schedule(self) -> bool:
        """Whether a plan must say when everything runs."""
        if self.serial is not None:
            return False
        return self.objective is not Objective.BOTTLENECK or self.memory_law is MemoryLaw.INSTANT

    @cached_property
    def unplaced(self) -> Unplaced | None:
        """Operators that nothing in the cluster can run: then no plan exists."""
        return find_unplaced(self.graph, self.cluster)

    @cached_property
    def _placements(self) -> dict[str, tuple[Placement, ...]]:
        return _placed(self.graph.operators, self.cluster.sites_of)

    @cached_property
    def _unlike(self) -> dict[str, tuple[Placement, ...]]:
        return _placed(self.graph.operators, self.cluster.kinds_of_sites)

    def placements(self, operator: str) -> tuple[Placement, ...]:
        """Admissible (option, devices) pairs of an operator, in option and device order."""
        return self._placements[operator]

    def unlike_placements(self, operator: str) -> tuple[Placement, ...]:
        """The first of those of each option whose devices differ in class or in least memory.

        No other placement takes another time or finds other memory.
        """
        return self._unlike[operator]

    def duration_ticks(self, operator: str, placement: Placement) -> int:
        """Ticks an operator takes there: its slowest device counts."""
        durations = self.graph.operator(operator).option(placement.option).duration_ticks
        return max(durations[self.cluster.device(d).device_class] for d in placement.devices)

    def with_memory_scale(self, numerator: int, denominator: int) -> PlanningProblem:
        """Return the problem with every limited device memory scaled, rounded down."""
        memory = {
            device.name: device.memory_bytes * numerator // denominator
            for device in self.cluster.devices
            if device.memory_bytes is not None
        }
        return self.variant(cluster=self.cluster.with_memory(dict(memory)))

    def variant(self, **changes: Any) -> PlanningProblem:
        """Return the problem with other memory, objective or law; it knows what it comes from."""
        return replace(self, parent=self.parent or self.fingerprint, **changes)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over everything that changes the problem; names count, provenance does not."""
        content: list[Any] = [self.graph, self.cluster, self.objective, self.memory_law, self.units]
        if self.serial is not None:  # fingerprints of other problems stay what they were
            content.append(self.serial)
        text = json.dumps(_plain(content), separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def _placed(
    operators: Iterable[Operator],
    sites_of: Callable[[int, Iterable[str]], tuple[tuple[str, ...], ...]],
) -> dict[str, tuple[Placement, ...]]:
    """Options on sites, by operator; options that are alike share them."""
    known: dict[tuple[tuple[str, int, frozenset[str]], ...], tuple[Placement, ...]] = {}
    found = {}
    for operator in operators:
        key = tuple((o.name, o.gang, frozenset(o.duration_ticks)) for o in operator.options)
        if key not in known:
            known[key] = tuple(
                Placement(name, site)
                for name, gang, classes in key
                for site in sites_of(gang, classes)
            )
        found[operator.name] = known[key]
    return found


class _Fields(NamedTuple):
    """Names of a dataclass's fields that compare, and (name, default) of those that came later."""

    names: tuple[str, ...]
    added: tuple[tuple[str, Any], ...]


_FIELDS: dict[type, _Fields | None] = {}


def _fields_of(kind: type) -> _Fields | None:
    """Fields of a dataclass; ``None`` for any other type."""
    if kind not in _FIELDS:
        every = [entry for entry in fields(kind) if entry.compare] if is_dataclass(kind) else []
        added = {entry.name: entry.default for entry in every if entry.metadata.get("added")}
        names = tuple(entry.name for entry in every if entry.name not in added)
        _FIELDS[kind] = _Fields(names, tuple(added.items())) if is_dataclass(kind) else None
    return _FIELDS[kind]


def _plain(item: Any) -> Any:
    """Nested lists that spell out an item; mapping order does not count, sequence order does."""
    kind = type(item)
    if kind is str or kind is int or item is None:  # nearly all; the rest is slower to tell
        return item
    known = _fields_of(kind)
    if known is not None:
        plain = [_plain(getattr(item, name)) for name in known.names]
        for name, default in known.added:  # fingerprints without them stay what they were
            value = getattr(item, name)
            if value != default:
                plain.append([name, _plain(value)])
        return plain
    if isinstance(item, Mapping):
        return sorted([_plain(key), _plain(value)] for key, value in item.items())
    if isinstance(item, tuple | list):
        return [_plain(entry) for entry in item]
    return item
