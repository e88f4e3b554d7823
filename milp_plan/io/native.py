"""The native instance format: JSON, versioned, unknown fields rejected.

Described field by field in ``instances/formats/native.md``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec
from msgspec.structs import asdict

from milp_plan import core
from milp_plan.core import FULL, Finding, InputError, PlanningProblem

from . import native_wire as wire
from .defects import nearest
from .files import Document
from .wire import as_wire, decode, encode


def can_read(document: Document) -> bool:
    """Return whether the document says that it is a native instance."""
    return document.marker == wire.MARKER


def read(document: Document) -> PlanningProblem:
    """Read an instance; see :func:`from_json`."""
    return from_json(document.data, document.file)


def from_json(data: bytes, file: str = "") -> PlanningProblem:
    """Read an instance from its JSON text.

    Parameters
    ----------
    data
        The text, not compressed.
    file
        Name of the file, for findings.

    Raises
    ------
    InputError
        With every defect of syntax and types, or else every defect of structure.
    """
    instance = decode(data, wire.Instance, file, wire.MARKER)
    doubled = list(_doubled_reshards(instance.values))
    if doubled:
        raise InputError(doubled).in_file(file)
    try:
        return _problem(instance)
    except InputError as error:
        places = _places(instance)
        located = [_located(finding, places) for finding in error.findings]
        raise InputError(located).in_file(file) from None


def to_json(problem: PlanningProblem) -> bytes:
    """Return the instance as JSON text; equal problems give equal bytes."""
    return encode(_instance(problem))


def _problem(instance: wire.Instance) -> PlanningProblem:
    return PlanningProblem(
        instance.name,
        core.ComputationGraph(
            tuple(_operator(operator) for operator in instance.operators),
            tuple(_value(value) for value in instance.values),
        ),
        _cluster(instance.cluster),
        instance.objective,
        instance.memory_law,
        core.Units(**asdict(instance.units)),
        instance.provenance,
        None if instance.serial is None else core.SerialLaw(**asdict(instance.serial)),
    )


def _cluster(cluster: wire.Cluster) -> core.Cluster:
    memory = {entry.name: entry.memory_bytes for entry in cluster.device_classes}

    def device(entry: wire.Device) -> core.Device:
        inherited = memory.get(entry.device_class)
        own = entry.memory_bytes
        limit = inherited if isinstance(own, msgspec.UnsetType) else own
        return core.Device(entry.name, entry.device_class, limit)

    return core.Cluster(
        tuple(core.DeviceClass(**asdict(entry)) for entry in cluster.device_classes),
        tuple(device(entry) for entry in cluster.devices),
        tuple(core.Channel(**asdict(entry)) for entry in cluster.channels),
        cluster.groups,
        cluster.communication,
    )


def _operator(operator: wire.Operator) -> core.Operator:
    options = tuple(core.Option(**asdict(option)) for option in operator.options)
    return core.Operator(**asdict(operator) | {"options": options})


def _value(value: wire.Value) -> core.Value:
    return core.Value(
        value.name,
        value.producer,
        value.consumers,
        _by_layout(value.bytes),
        _by_layout(value.transfer_bytes),
        value.messages,
        {(entry.before, entry.after): entry.ns for entry in value.reshard_ticks},
        value.kept,
    )


def _by_layout(sizes: int | dict[str, int]) -> dict[str, int]:
    return {FULL: sizes} if isinstance(sizes, int) else sizes


def _instance(problem: PlanningProblem) -> wire.Instance:
    return wire.Instance(
        format="milp-plan-instance",
        version=1,
        name=problem.name,
        cluster=_wire_cluster(problem.cluster),
        operators=tuple(_wire_operator(operator) for operator in problem.graph.operators),
        values=tuple(_wire_value(value) for value in problem.graph.values),
        objective=problem.objective,
        memory_law=problem.memory_law,
        units=as_wire(problem.units, wire.Units),
        provenance=dict(problem.provenance),
        serial=None if problem.serial is None else as_wire(problem.serial, wire.Serial),
    )


def _wire_cluster(cluster: core.Cluster) -> wire.Cluster:
    memory = {entry.name: entry.memory_bytes for entry in cluster.device_classes}

    def device(entry: core.Device) -> wire.Device:
        inherited = memory[entry.device_class] == entry.memory_bytes
        own = msgspec.UNSET if inherited else entry.memory_bytes
        return wire.Device(entry.name, entry.device_class, own)

    return wire.Cluster(
        tuple(as_wire(entry, wire.DeviceClass) for entry in cluster.device_classes),
        tuple(device(entry) for entry in cluster.devices),
        tuple(as_wire(entry, wire.Channel) for entry in cluster.channels),
        cluster.groups,
        cluster.communication,
    )


def _wire_operator(operator: core.Operator) -> wire.Operator:
    written = as_wire(operator, wire.Operator)
    written.options = tuple(as_wire(option, wire.Option) for option in operator.options)
    return written


def _wire_value(value: core.Value) -> wire.Value:
    return wire.Value(
        name=value.name,
        producer=value.producer,
        consumers=value.consumers,
        bytes=_shorthand(value.bytes),
        transfer_bytes=_shorthand(value.transfer_bytes),
        messages=value.messages,
        reshard_ticks=tuple(
            wire.Reshard(before=before, after=after, ns=ticks)
            for (before, after), ticks in sorted(value.reshard_ticks.items())
        ),
        kept=value.kept,
    )


def _shorthand(sizes: Mapping[str, int]) -> int | dict[str, int]:
    return sizes[FULL] if set(sizes) == {FULL} else dict(sizes)


def _doubled_reshards(values: Sequence[wire.Value]) -> Iterator[Finding]:
    """Report pairs of layouts that are listed twice; a table with pairs as keys would hide them."""
    for position, value in enumerate(values):
        seen: set[tuple[str, str]] = set()
        for index, entry in enumerate(value.reshard_ticks):
            pair = (entry.before, entry.after)
            if pair in seen:
                where = f"values[{position}].reshard_ns[{index}]"
                found = f"{entry.before!r} to {entry.after!r} a second time"
                yield Finding(where, found, "each pair of layouts once", "remove one of them")
            seen.add(pair)


_QUOTED = r"('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_SUBJECT = re.compile(rf"(operators?|values?|devices?|device_classes) {_QUOTED}")
"""Pattern of the subject of a finding of core: its kind and its quoted name."""
_UNKNOWN = re.compile(rf"unknown (operator|device|device class) {_QUOTED}")
"""Pattern of core's findings on unknown references."""

_Places = Mapping[tuple[str, str], Sequence[str]]
"""(kind, name) -> JSON paths of the entries of that name."""


def _places(instance: wire.Instance) -> _Places:
    cluster = instance.cluster
    tables = {
        ("operator", "operators", "operators"): [entry.name for entry in instance.operators],
        ("value", "values", "values"): [entry.name for entry in instance.values],
        ("device", "devices", "cluster.devices"): [entry.name for entry in cluster.devices],
        ("device class", "device_classes", "cluster.device_classes"): [
            entry.name for entry in cluster.device_classes
        ],
    }
    places: dict[tuple[str, str], list[str]] = {}
    for (one, many, path), names in tables.items():
        for position, name in enumerate(names):
            for kind in (one, many):
                places.setdefault((kind, name), []).append(f"{path}[{position}]")
    return places


def _located(finding: Finding, places: _Places) -> Finding:
    """Return a finding with the JSON path of its subject, and a similar name for an unknown one."""
    where, remedy = finding.where, finding.remedy
    subject = _SUBJECT.match(where)
    if subject is not None:
        paths = places.get((subject[1], ast.literal_eval(subject[2])), ())
        where = ", ".join([*paths, where])
    unknown = _UNKNOWN.match(finding.found)
    if unknown is not None:
        known = [name for kind, name in places if kind == unknown[1]]
        remedy = nearest(ast.literal_eval(unknown[2]), known, remedy)
    return replace(finding, where=where, remedy=remedy)
