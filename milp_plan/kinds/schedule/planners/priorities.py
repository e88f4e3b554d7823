"""Orders in which list schedulers take operators, and their ranks."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from milp_plan.core import PlanningProblem

from .indexed import Indexed, Spot, indexed

_LOOK_BACK = 64
"""Number of the newest ready operators that :func:`frugal_order` compares."""


def _means(view: Indexed) -> tuple[int, list[int], list[int]]:
    """Return a scale, and mean ticks per operator and per value, times the scale: exact integers.

    Operators count their best option on each site, single devices where they can run on one.
    Values count all channels; persistent ones count 0.
    """
    best = [_best_by_site(spots) for spots in view.spots]
    channels = view.problem.cluster.channels
    scale = lcm(max(1, len(channels)), *{len(ticks) for ticks in best})
    known: dict[tuple[int, int], int] = {}
    travel = []
    for value in view.values:
        if value.persistent or not channels:
            travel.append(0)
            continue
        key = (min(value.payload(layout) for layout in value.bytes), value.messages)
        if key not in known:
            ticks = sum(channel.transfer_ticks(*key) for channel in channels)
            known[key] = ticks * (scale // len(channels))
        travel.append(known[key])
    work = [sum(ticks.values()) * (scale // len(ticks)) for ticks in best]
    return scale, work, travel


def _best_by_site(spots: Sequence[Spot]) -> dict[int, int]:
    narrow = min(len(spot.devices) for spot in spots)
    best: dict[int, int] = {}
    for spot in spots:
        if len(spot.devices) == narrow:
            best[spot.site] = min(spot.duration, best.get(spot.site, spot.duration))
    return best


def _edges(view: Indexed, travel: Sequence[int]) -> list[dict[int, int]]:
    """Return operator -> reader -> mean ticks of all that travels between the two."""
    edges: list[dict[int, int]] = [{} for _ in range(view.num_operators)]
    for value, producer in enumerate(view.producer):
        if producer >= 0:
            for reader in view.consumers[value]:
                edges[producer][reader] = edges[producer].get(reader, 0) + travel[value]
    return edges


def bottom_levels(problem: PlanningProblem, *, communication: bool = True) -> dict[str, float]:
    """Return the longest mean path from each operator to the end, itself included, in ticks.

    With ``communication`` it is the upward rank, equation 8 of Topcuoglu, Hariri, Wu (2002).
    """
    view = indexed(problem)
    scale, work, travel = _means(view)
    edges = _edges(view, travel if communication else [0] * len(view.values))
    levels = [0] * view.num_operators
    for operator in reversed(view.topological):
        below = max((ticks + levels[r] for r, ticks in edges[operator].items()), default=0)
        levels[operator] = work[operator] + below
    return {name: level / scale for name, level in zip(view.names, levels, strict=True)}


def descendants(problem: PlanningProblem) -> dict[str, float]:
    """Return the number of operators that must wait for each operator, directly or not."""
    view = indexed(problem)
    reach = [0] * view.num_operators
    for operator in reversed(view.topological):
        for reader in view.successors[operator]:
            reach[operator] |= reach[reader] | (1 << reader)
    return {name: float(bits.bit_count()) for name, bits in zip(view.names, reach, strict=True)}


def frugal_order(problem: PlanningProblem) -> tuple[str, ...]:
    """Return the topological order that keeps few bytes alive, as if on one device.

    Greedy: of the operators that are ready, the one that frees most, net of what it makes; of
    equals the one that became ready last.
    """
    view = indexed(problem)
    missing = [len(before) for before in view.predecessors]
    left = [len(r) + stays for r, stays in zip(view.consumers, view.stays, strict=True)]
    size = [min(value.bytes.values()) for value in view.values]
    reads = [[value for value, _ in spots[0].reads] for spots in view.spots]
    writes = [
        sum(size[v] for v, _, _ in spots[0].writes if view.consumers[v] or view.stays[v])
        for spots in view.spots
    ]
    ready = [op for op in reversed(view.topological) if not missing[op]]
    order = []
    while ready:
        best, growth = -1, 0
        for i in range(len(ready) - 1, max(-1, len(ready) - 1 - _LOOK_BACK), -1):
            operator = ready[i]
            freed = sum(size[value] for value in reads[operator] if left[value] == 1)
            if best < 0 or writes[operator] - freed < growth:
                best, growth = i, writes[operator] - freed
        operator = ready.pop(best)
        order.append(view.names[operator])
        for value in reads[operator]:
            left[value] -= 1
        for reader in reversed(view.successors[operator]):
            missing[reader] -= 1
            if not missing[reader]:
                ready.append(reader)
    return tuple(order)
