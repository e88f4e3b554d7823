"""Finds all structural defects of a graph on a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from .cluster import Cluster
from .errors import Finding, below_findings, name_findings
from .exactness import exactness_findings
from .graph import FULL, ComputationGraph, Operator, Option, Value


def find_problems(graph: ComputationGraph, cluster: Cluster) -> list[Finding]:
    """Return all defects; an empty list means that the problem is well formed.

    References are checked first: checks that follow references only run when all of them hold.
    """
    findings = list(_inexact(graph, cluster))
    if findings:
        return findings
    findings = list(
        chain(
            _duplicates("operators", (operator.name for operator in graph.operators)),
            _duplicates("values", (value.name for value in graph.values)),
            _cluster_findings(cluster),
            chain.from_iterable(_value_references(value, graph) for value in graph.values),
        )
    )
    if not graph.operators:
        findings.append(Finding("operators", "none", "at least one", "add an operator"))
    if findings:
        return findings
    findings += chain.from_iterable(_operator_findings(op, cluster) for op in graph.operators)
    try:
        _ = graph.topological_order
    except ValueError as error:
        return [*findings, Finding("values", str(error), "an acyclic graph", "break the cycle")]
    if findings:
        return findings
    findings += chain.from_iterable(_layout_findings(op, graph) for op in graph.operators)
    findings += _gang_of_layouts(graph)
    return findings


class Unplaced(NamedTuple):
    """Operators that no device or group of the cluster can run, and the reason in words."""

    operators: tuple[str, ...]
    reason: str


def find_unplaced(graph: ComputationGraph, cluster: Cluster) -> Unplaced | None:
    """Return operators without a site, or a group without a common one; ``None`` for neither."""
    sites = {}
    for operator in graph.operators:
        sites[operator.name] = {
            site
            for option in operator.options
            for site in cluster.sites_of(option.gang, option.duration_ticks)
        }
        if not sites[operator.name]:
            needs = dict.fromkeys(_needed_site(option) for option in operator.options)
            return Unplaced(
                (operator.name,),
                f"operator {operator.name!r} can run nowhere: it needs {' or '.join(needs)}, and "
                "the cluster has none",
            )
    for group, members in graph.groups.items():
        if not set.intersection(*(sites[name] for name in members)):
            return Unplaced(
                tuple(members),
                f"operators of group {group!r} have no devices in common: {', '.join(members)}",
            )
    return None


def _needed_site(option: Option) -> str:
    """Return a description of the site that an option needs."""
    classes = " or ".join(repr(name) for name in option.duration_ticks)
    return f"{'a device' if option.gang == 1 else f'a group of {option.gang} devices'} of {classes}"


def _inexact(graph: ComputationGraph, cluster: Cluster) -> Iterator[Finding]:
    for kind in cluster.device_classes:
        yield from exactness_findings(f"device class {kind.name!r}", kind)
    for device in cluster.devices:
        yield from exactness_findings(f"device {device.name!r}", device)
    for channel in cluster.channels:
        yield from exactness_findings(f"channel {channel.source}->{channel.target}", channel)
    for operator in graph.operators:
        where = f"operator {operator.name!r}"
        yield from exactness_findings(where, operator)
        for option in operator.options:
            yield from exactness_findings(f"{where} option {option.name!r}", option)
    for value in graph.values:
        yield from exactness_findings(f"value {value.name!r}", value)


def _duplicates(where: str, names: Iterable[str]) -> Iterator[Finding]:
    known = tuple(names)
    yield from name_findings(where, known)
    if not all(known):
        yield Finding(where, "an empty name", "a name", "name it")


def _cluster_findings(cluster: Cluster) -> Iterator[Finding]:
    classes = {entry.name for entry in cluster.device_classes}
    yield from _duplicates("device_classes", (entry.name for entry in cluster.device_classes))
    yield from _duplicates("devices", cluster.device_names)
    if not cluster.devices:
        yield Finding("devices", "none", "at least one", "add a device")
    for device in cluster.devices:
        if device.device_class not in classes:
            yield Finding(
                f"device {device.name!r}",
                f"unknown device class {device.device_class!r}",
                f"one of {sorted(classes)}",
                "add the class to device_classes or correct the name",
            )
        yield from below_findings(
            f"device {device.name!r} memory_bytes", device.memory_bytes or 0, 0
        )
    yield from _channel_findings(cluster)
    yield from _process_group_findings(cluster)


def _channel_findings(cluster: Cluster) -> Iterator[Finding]:
    ends = [f"{channel.source}->{channel.target}" for channel in cluster.channels]
    yield from _duplicates("channels", ends)
    for name, channel in zip(ends, cluster.channels, strict=True):
        for end in (channel.source, channel.target):
            if end not in cluster.device_names:
                yield _unknown(f"channel {name}", "device", end)
        if channel.source == channel.target:
            yield Finding(f"channel {name}", "a loop", "two devices", "remove the channel")
        yield from below_findings(f"channel {name} latency_ns", channel.latency_ticks, 0)
        if channel.bandwidth_bytes_per_s <= 0:
            yield Finding(
                f"channel {name} bandwidth_bytes_per_s",
                str(channel.bandwidth_bytes_per_s),
                "a positive number",
                "correct it, or remove the channel",
            )


def _process_group_findings(cluster: Cluster) -> Iterator[Finding]:
    for position, group in enumerate(cluster.groups):
        where = f"groups[{position}]"
        if len(group) < 2 or len(set(group)) < len(group):
            yield Finding(where, str(list(group)), "two or more different devices", "correct it")
        for name in group:
            if name not in cluster.device_names:
                yield _unknown(where, "device", name)
            elif name in cluster.hosts:
                expected = "devices that run operators"
                yield Finding(where, f"host {name!r}", expected, "remove it from the group")


def _unknown(where: str, what: str, name: str) -> Finding:
    return Finding(
        where, f"unknown {what} {name!r}", f"a known {what}", "add it or correct the name"
    )


def _value_references(value: Value, graph: ComputationGraph) -> Iterator[Finding]:
    where = f"value {value.name!r}"
    for name in (*value.consumers, *([] if value.producer is None else [value.producer])):
        if not graph.has_operator(name):
            yield _unknown(where, "operator", name)
    for name, count in Counter(value.consumers).items():
        if count > 1:
            yield Finding(where, f"consumer {name!r} {count} times", "each once", "list it once")
    if value.producer in value.consumers:
        yield Finding(
            where, f"cycle: {value.producer} -> {value.producer}", "an acyclic graph", "break it"
        )
    if value.persistent and not value.consumers:
        yield Finding(where, "neither producer nor consumer", "at least one", "remove the value")
    yield from _size_findings(value, where)


def _size_findings(value: Value, where: str) -> Iterator[Finding]:
    if not value.bytes:
        yield Finding(f"{where} bytes", "no layout", "bytes per layout", f"give at least {FULL!r}")
    yield from below_findings(f"{where} messages", value.messages, 1)
    for table, label in ((value.bytes, "bytes"), (value.transfer_bytes, "transfer_bytes")):
        for layout, number in table.items():
            yield from below_findings(f"{where} {label}[{layout!r}]", number, 0)
    for layout in value.transfer_bytes:
        if layout not in value.bytes:
            yield _unknown(f"{where} transfer_bytes", "layout", layout)
    for (before, after), ticks in value.reshard_ticks.items():
        for layout in (before, after):
            if layout not in value.bytes:
                yield _unknown(f"{where} reshard_ns", "layout", layout)
        yield from below_findings(f"{where} reshard_ns[{before!r}, {after!r}]", ticks, 0)


def _operator_findings(operator: Operator, cluster: Cluster) -> Iterator[Finding]:
    where = f"operator {operator.name!r}"
    classes = {entry.name for entry in cluster.device_classes}
    hosts = {entry.name for entry in cluster.device_classes if entry.host}
    if not operator.options:
        yield Finding(where, "no options", "at least one", "add an option")
        return
    yield from _duplicates(f"{where} options", (option.name for option in operator.options))
    for option in operator.options:
        place = f"{where} option {option.name!r}"
        if not option.duration_ticks:
            yield Finding(
                f"{place} duration_ns", "no duration", "one per device class", "add durations"
            )
        for name, ticks in option.duration_ticks.items():
            if name not in classes:
                yield Finding(
                    f"{place} duration_ns",
                    f"unknown device class {name!r}",
                    f"one of {sorted(classes)}",
                    "correct the name or add the class",
                )
            elif name in hosts:
                yield Finding(
                    f"{place} duration_ns",
                    f"a duration for {name!r}, a class of hosts",
                    "durations for classes that run operators",
                    "remove it, or set host of the class to false",
                )
            yield from below_findings(f"{place} duration_ns[{name!r}]", ticks, 0)
        yield from below_findings(f"{place} workspace_bytes", option.workspace_bytes, 0)
        yield from below_findings(f"{place} gang", option.gang, 1)


def _layout_findings(operator: Operator, graph: ComputationGraph) -> Iterator[Finding]:
    for option in operator.options:
        place = f"operator {operator.name!r} option {option.name!r}"
        inputs = {value.name: value for value in graph.inputs[operator.name]}
        outputs = {value.name: value for value in graph.outputs[operator.name]}
        for table, known, label in (
            (option.reads, inputs, "reads"),
            (option.writes, outputs, "writes"),
        ):
            for name in table:
                if name not in known:
                    yield _unknown(f"{place} {label}", f"value that it {label}", name)
        asked = [(v, option.layout_read(v.name)) for v in inputs.values()]
        asked += [(v, option.layout_written(v.name)) for v in outputs.values()]
        for value, layout in asked:
            if layout not in value.bytes:
                yield Finding(
                    f"value {value.name!r} bytes",
                    f"no layout {layout!r}, which {place} uses",
                    f"one of the layouts used by its operators; it has {sorted(value.bytes)}",
                    "add the layout to the value or correct the option",
                )


def _gang_of_layouts(graph: ComputationGraph) -> Iterator[Finding]:
    """Report sharded layouts of several gang sizes: there is one shard per device of the site."""
    gangs: dict[tuple[str, str], set[int]] = {}
    for operator in graph.operators:
        for option in operator.options:
            for value in graph.inputs[operator.name]:
                key = (value.name, option.layout_read(value.name))
                gangs.setdefault(key, set()).add(option.gang)
            for value in graph.outputs[operator.name]:
                key = (value.name, option.layout_written(value.name))
                gangs.setdefault(key, set()).add(option.gang)
    for (value_name, layout), sizes in gangs.items():
        if layout != FULL and len(sizes) > 1:
            yield Finding(
                f"value {value_name!r} layout {layout!r}",
                f"options with gangs {sorted(sizes)}",
                "one gang size per sharded layout",
                "name the layouts apart, for example split2 and split4",
            )
