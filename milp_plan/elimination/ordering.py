"""Orders of elimination and their cost."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from .factors import FactorGraph


@dataclass(frozen=True)
class Ordering:
    """An elimination order.

    Parameters
    ----------
    order
        Variables, first to go first.
    largest, entries
        Entries of the largest table (over a variable and what it is connected to then), and of all
        tables together. Floating point: they may be astronomical.
    stored
        Entries of all messages together.
    width
        Largest number of variables that one is connected to when it goes.
    """

    order: tuple[int, ...]
    largest: float
    entries: float
    stored: float
    width: int


def weigh(graph: FactorGraph, keep: Collection[int] = ()) -> Ordering:
    """Return an order of all variables except some: smallest table, then fewest neighbours, first.

    PaSE's ordering takes the fewest neighbours (greedy minimum degree); the size of the table is
    what time and memory grow with.
    """
    around = neighbourhoods(graph)
    logs = [math.log(size) for size in graph.sizes]
    retained = set(keep)

    def key(variable: int) -> tuple[float, int, int]:
        near = around[variable]
        return logs[variable] + sum(logs[other] for other in near), len(near), variable

    weights = {v: key(v) for v in range(len(around)) if v not in retained}
    heap = list(weights.values())
    heapq.heapify(heap)
    order: list[int] = []
    bags: list[tuple[float, float, int]] = []
    while heap:
        entry = heapq.heappop(heap)
        variable = entry[2]
        if weights.get(variable) != entry:
            continue
        del weights[variable]
        order.append(variable)
        near = around[variable]
        bags.append((entry[0], entry[0] - logs[variable], len(near)))
        for other in near:
            mine = around[other]
            mine |= near
            mine.discard(other)
            mine.discard(variable)
        for other in near:
            if other in weights:
                weights[other] = key(other)
                heapq.heappush(heap, weights[other])
    return _summary(order, bags)


def _summary(order: Sequence[int], bags: Sequence[tuple[float, float, int]]) -> Ordering:
    return Ordering(
        tuple(order),
        math.exp(max((bag for bag, _, _ in bags), default=0.0)),
        sum(math.exp(bag) for bag, _, _ in bags),
        sum(math.exp(message) for _, message, _ in bags),
        max((width for _, _, width in bags), default=0),
    )


def neighbourhoods(graph: FactorGraph) -> list[set[int]]:
    """Return the variables that share a cost function with each variable."""
    around: list[set[int]] = [set() for _ in graph.sizes]
    for factor in graph.factors:
        for variable in factor.scope:
            around[variable].update(factor.scope)
    for variable, near in enumerate(around):
        near.discard(variable)
    return around
