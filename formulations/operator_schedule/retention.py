"""What may lie on a device and who holds it there: the memory law as sets.

Variables of a model are named by references, so that this module knows no variables:
``("place", operator, placement)``, ``("flow", producer, consumer, made, read)`` and
``("use", transfer task, made, source)`` for shared transfer tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from milp_plan.api import FULL, Leg, ScheduleSets, TransferTask, Value

Reference = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Holder:
    """A task that keeps something on the device until it stops.

    ``references`` are the variables whose sum says whether it does; each comes with the length the
    task has in that case (what lasts no time holds nothing).
    """

    task: str
    references: tuple[tuple[Reference, int], ...]


@dataclass(frozen=True, slots=True)
class Holding:
    """Bytes that appear on a device when ``maker`` starts and stay until the last holder stops.

    The first holder is the maker. What ``stays`` is held to the end, whatever holds it.
    """

    maker: str
    label: str
    bytes: int
    holders: tuple[Holder, ...]
    stays: bool = False


@dataclass(frozen=True, slots=True)
class Persistent:
    """Bytes that lie on a device for the whole horizon if any of the consumers runs there."""

    label: str
    bytes: int
    consumers: tuple[tuple[Reference, ...], ...]


def leg_reference(task: TransferTask, leg: Leg) -> Reference:
    """Variable that says whether a transfer runs that way."""
    if task.shared:
        return ("use", task.name, leg.combination[0], leg.route.source)
    return ("flow", task.producer, leg.consumer, *leg.combination)


def persistent(sets: ScheduleSets, device: str) -> list[Persistent]:
    """Persistent values that may lie on a device, one entry per layout."""
    found = []
    for value in sets.graph.values:
        if not value.persistent:
            continue
        for layout, size in value.bytes.items():
            readers = []
            for consumer in value.consumers:
                operator = sets.graph.operator(consumer)
                columns = tuple(
                    ("place", consumer, p)
                    for p in sets.placements[consumer]
                    if device in p.devices
                    and operator.option(p.option).layout_read(value.name) == layout
                )
                if columns:
                    readers.append(columns)
            if readers and size:
                found.append(Persistent(f"{value.name}/{layout}", size, tuple(readers)))
    return found


def holdings(sets: ScheduleSets, device: str) -> list[Holding]:
    """Workspaces, native copies and transferred copies that may lie on a device."""
    return [*workspaces(sets, device), *copies(sets, device)]


def copies(sets: ScheduleSets, device: str) -> Iterator[Holding]:
    """Yield native copies and transferred copies that may lie on a device."""
    for value in sets.graph.values:
        if value.producer is not None:
            yield from _native(sets, device, value, value.producer)
    for task in sets.transfers:
        yield from _received(sets, device, task)


def workspaces(sets: ScheduleSets, device: str) -> Iterator[Holding]:
    """Yield workspaces of the operators that may run on a device."""
    for name in sets.operators:
        by_size: dict[int, list[tuple[Reference, int]]] = {}
        for placement in sets.placements[name]:
            size = sets.graph.operator(name).option(placement.option).workspace_bytes
            if device in placement.devices and size:
                column = (("place", name, placement), sets.duration[name, placement])
                by_size.setdefault(size, []).append(column)
        for size, columns in by_size.items():
            yield Holding(name, f"workspace {name}", size, (Holder(name, tuple(columns)),))


def _native(sets: ScheduleSets, device: str, value: Value, producer: str) -> Iterator[Holding]:
    operator = sets.graph.operator(producer)
    for layout, size in value.bytes.items():
        own = [
            p
            for p in sets.placements[producer]
            if device in p.devices
            and operator.option(p.option).layout_written(value.name) == layout
        ]
        if not own or not size:
            continue
        made = tuple((("place", producer, p), sets.duration[producer, p]) for p in own)
        holders = [Holder(producer, made)]
        if value.is_kept:
            yield Holding(producer, f"{value.name}/{layout}", size, tuple(holders), stays=True)
            continue
        for consumer in value.consumers:
            columns = tuple(_native_reads(sets, device, value, (producer, consumer), set(own)))
            if columns:
                holders.append(Holder(consumer, columns))
        for task in sets.transfers:
            if task.value == value.name:
                legs = {
                    leg_reference(task, leg): leg.route.duration_ticks
                    for leg in task.legs
                    if device in leg.route.source and leg.combination[0] in own
                }
                if legs:
                    holders.append(Holder(task.name, tuple(legs.items())))
        yield Holding(producer, f"{value.name}/{layout}", size, tuple(holders))


def _native_reads(
    sets: ScheduleSets, device: str, value: Value, pair: tuple[str, str], own: set[Any]
) -> Iterator[tuple[Reference, int]]:
    _, consumer = pair
    if pair in sets.local_pairs:  # both are always at one site, and its copies are alike
        sites = {made.devices for made in own}
        for read in sets.placements[consumer]:
            if read.devices in sites:
                yield ("place", consumer, read), sets.duration[consumer, read]
        return
    for (made, read), needed in sets.combinations[pair].items():
        if made in own and device in read.devices:
            ways = needed[value.name]
            if not ways or (ways[0].layout == FULL and len(ways[0].target) < len(read.devices)):
                yield ("flow", *pair, made, read), sets.duration[consumer, read]


def _received(sets: ScheduleSets, device: str, task: TransferTask) -> Iterator[Holding]:
    value = sets.graph.value(task.value)
    for layout in dict.fromkeys(leg.route.layout for leg in task.legs):
        size = value.bytes[layout]
        legs = [
            leg for leg in task.legs if leg.route.layout == layout and device in leg.route.target
        ]
        if not legs or not size:
            continue
        own = {leg_reference(task, leg): leg.route.duration_ticks for leg in legs}
        keys = {leg.route.key for leg in legs}
        holders = [Holder(task.name, tuple(own.items()))]
        for consumer in task.consumers:
            pair = (task.producer, consumer)
            columns = tuple(
                (("flow", *pair, made, read), sets.duration[consumer, read])
                for (made, read), needed in sets.combinations[pair].items()
                if any(route.key in keys for route in needed[task.value])
            )
            if columns:
                holders.append(Holder(consumer, columns))
        yield Holding(task.name, f"{task.name}/{layout} on {device}", size, tuple(holders))


def devices_at_risk(sets: ScheduleSets) -> list[str]:
    """Devices whose memory limit would break if everything that may lie there did at once."""
    found = []
    for device in sets.problem.cluster.devices:
        if device.memory_bytes is not None:
            most = sum(item.bytes for item in holdings(sets, device.name))
            most += sum(item.bytes for item in persistent(sets, device.name))
            if most > device.memory_bytes:
                found.append(device.name)
    return found
