"""Exact value of a placement of classes under the serial law, and whether it fits."""

from __future__ import annotations

from collections.abc import Sequence

from milp_plan.core import Passes

from .graph import SerialGraph


def bottleneck(graph: SerialGraph, places: Sequence[int]) -> int:
    """Return the value of objective bottleneck in ticks."""
    loads = graph.pass_loads(places)
    if graph.law.passes is Passes.JOINT:
        return max(sum(load) for load in loads)
    return sum(max(load[i] for load in loads) for i in (0, 1))


def fits(graph: SerialGraph, places: Sequence[int]) -> bool:
    """Return whether every class can run on its device and every memory suffices."""
    count = len(graph.payers)
    used = [0] * (count + len(graph.hosts))
    for number, place in enumerate(places):
        if (graph.work if place < count else graph.host_work)[number] is None:
            return False
        used[place] += graph.size[number]
    return all(
        limit is None or size <= limit for size, limit in zip(used, graph.limits, strict=True)
    )
