"""Exact value of a placement of classes under the serial law, and whether it fits."""

from __future__ import annotations

from collections.abc import Sequence

from milp_plan.core import Passes
from milp_plan.core.amounts import size_text

from .graph import SerialGraph


def pass_loads(graph: SerialGraph, places: Sequence[int]) -> list[list[int]]:
    """Return the forward and the backward load of each device in ticks, payers first."""
    count = len(graph.payers)
    found = [[0, 0] for _ in range(count + len(graph.hosts))]
    for number, place in enumerate(places):
        on_payer = place < count
        ticks = (graph.work if on_payer else graph.host_work)[number]
        assert ticks is not None, "a class on a device that cannot run it"
        later = (graph.backward_work if on_payer else graph.backward_host_work)[number]
        found[place][0] += ticks - later
        found[place][1] += later
    for net in graph.nets:
        held = {places[number] for number in (net.source, *net.readers)}
        for place in held if len(held) > 1 else ():
            if place < count:
                found[place][net.backward] += net.ticks
    return found


def bottleneck(graph: SerialGraph, places: Sequence[int]) -> int:
    """Return what objective bottleneck is under the law's passes, in ticks."""
    loads = pass_loads(graph, places)
    if graph.law.passes is Passes.JOINT:
        return max(sum(load) for load in loads)
    return sum(max(load[i] for load in loads) for i in (0, 1))


def fits(graph: SerialGraph, places: Sequence[int]) -> bool:
    """Whether every class can run where it is and every device holds its bytes."""
    count = len(graph.payers)
    held = [0] * (count + len(graph.hosts))
    for number, place in enumerate(places):
        if (graph.work if place < count else graph.host_work)[number] is None:
            return False
        held[place] += graph.size[number]
    limits = [graph.memory] * count + [graph.host_memory] * len(graph.hosts)
    return all(limit is None or bytes_ <= limit for bytes_, limit in zip(held, limits, strict=True))


def homeless(graph: SerialGraph) -> str | None:
    """Say which class no device can take, or that all together are too much, if so."""
    units = graph.problem.units
    for number, names in enumerate(graph.members):
        homes = [
            limit is None or graph.size[number] <= limit
            for ticks, limit, devices in (
                (graph.work[number], graph.memory, graph.payers),
                (graph.host_work[number], graph.host_memory, graph.hosts),
            )
            if devices and ticks is not None
        ]
        if not any(homes):
            size = size_text(units, graph.size[number])
            return f"no device can take {', '.join(names[:3])}: {size} together"
    limits = [graph.memory] * len(graph.payers) + [graph.host_memory] * len(graph.hosts)
    room = sum(limit or 0 for limit in limits)
    if None not in limits and sum(graph.size) > room:
        need = size_text(units, sum(graph.size))
        return f"all operators need {need}, all devices have {size_text(units, room)}"
    return None
