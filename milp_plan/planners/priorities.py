"""Orders in which list schedulers take operators, and the ranks behind them."""

from __future__ import annotations

from milp_plan.core import PlanningProblem, Value

from .indexed import Indexed, indexed

_LOOK_BACK = 64
"""How many of the newest ready operators :func:`frugal_order` compares."""


def mean_durations(view: Indexed) -> list[float]:
    """Mean ticks per operator over its sites, best option each; single devices where it can."""
    means = []
    for spots in view.spots:
        best: dict[int, int] = {}
        narrow = min(len(spot.devices) for spot in spots)
        for spot in spots:
            if len(spot.devices) == narrow:
                best[spot.site] = min(spot.duration, best.get(spot.site, spot.duration))
        means.append(sum(best.values()) / len(best))
    return means


def mean_transfers(view: Indexed) -> list[float]:
    """Mean ticks per value over all channels, 0 without channels or for a persistent value."""
    channels = view.problem.cluster.channels
    known: dict[tuple[int, int], float] = {}
    means = []
    for value in view.values:
        if value.persistent or not channels:
            means.append(0.0)
            continue
        key = (_payload(value), value.messages)
        if key not in known:
            ticks = sum(channel.transfer_ns(*key) for channel in channels)
            known[key] = ticks / len(channels)
        means.append(known[key])
    return means


def _payload(value: Value) -> int:
    return min(value.payload(layout) for layout in value.bytes)


def _edges(view: Indexed, communication: bool) -> list[dict[int, float]]:
    """Operator -> reader -> mean ticks of all that travels between the two."""
    ticks = mean_transfers(view) if communication else [0.0] * len(view.values)
    edges: list[dict[int, float]] = [{} for _ in range(view.num_operators)]
    for number, producer in enumerate(view.producer):
        if producer >= 0:
            for reader in view.consumers[number]:
                edges[producer][reader] = edges[producer].get(reader, 0.0) + ticks[number]
    return edges


def bottom_levels(problem: PlanningProblem, *, communication: bool = True) -> dict[str, float]:
    """Longest mean path from each operator to the end, itself included (HEFT's upward rank).

    Equation 8 of Topcuoglu, Hariri, Wu (2002) when communication counts.
    """
    view = indexed(problem)
    work, edges = mean_durations(view), _edges(view, communication)
    levels = [0.0] * view.num_operators
    for operator in reversed(view.topological):
        below = max((ticks + levels[r] for r, ticks in edges[operator].items()), default=0.0)
        levels[operator] = work[operator] + below
    return dict(zip(view.names, levels, strict=True))


def top_levels(problem: PlanningProblem) -> dict[str, float]:
    """Longest mean path from the beginning to each operator, itself left out (downward rank)."""
    view = indexed(problem)
    work, edges = mean_durations(view), _edges(view, True)
    levels = [0.0] * view.num_operators
    for operator in view.topological:
        for reader, ticks in edges[operator].items():
            levels[reader] = max(levels[reader], levels[operator] + work[operator] + ticks)
    return dict(zip(view.names, levels, strict=True))


def descendants(problem: PlanningProblem) -> dict[str, float]:
    """Number of operators that must wait for each operator, directly or not."""
    view = indexed(problem)
    reach = [0] * view.num_operators
    for operator in reversed(view.topological):
        for reader in view.successors[operator]:
            reach[operator] |= reach[reader] | (1 << reader)
    return {name: float(bits.bit_count()) for name, bits in zip(view.names, reach, strict=True)}


def processing_times(problem: PlanningProblem) -> dict[str, float]:
    """Mean ticks of each operator."""
    view = indexed(problem)
    return dict(zip(view.names, mean_durations(view), strict=True))


def depth_first_order(problem: PlanningProblem) -> tuple[str, ...]:
    """Topological order that follows what became ready last."""
    view = indexed(problem)
    missing = [len(before) for before in view.predecessors]
    stack = [op for op in reversed(view.topological) if not missing[op]]
    order = []
    while stack:
        operator = stack.pop()
        order.append(view.names[operator])
        for reader in reversed(view.successors[operator]):
            missing[reader] -= 1
            if not missing[reader]:
                stack.append(reader)
    return tuple(order)


def frugal_order(problem: PlanningProblem) -> tuple[str, ...]:
    """Topological order that keeps few bytes alive, as if on one device.

    Greedy: of the operators that are ready, the one that frees most, net of what it makes; of
    equals the one that became ready last.
    """
    view = indexed(problem)
    missing = [len(before) for before in view.predecessors]
    left = [len(readers) for readers in view.consumers]
    size = [min(value.bytes.values()) for value in view.values]
    reads = [[value for value, _ in spots[0].reads] for spots in view.spots]
    writes = [
        sum(size[v] for v, _, _ in spots[0].writes if view.consumers[v]) for spots in view.spots
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
