"""Exact times for words: as early as possible, or with the least span."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import Objective

from .shop import Shop
from .timing import Starts, Words, times, value_of

_NEVER = -(10**17)
"""Distance where there is no path; far below any real one, far above overflow."""


def best_times(shop: Shop, words: Words) -> Starts:
    """Return start times of least objective value when machines follow the words.

    For the makespan these are the earliest starts. A span can be shorter when a device starts
    later than it could: then the first tasks are delayed.

    Raises
    ------
    Deadlock
        As :func:`milp_plan.kinds.pipeline.times`.
    """
    early = times(shop, words)
    if shop.objective is not Objective.SPAN:
        return early
    return _least_span(shop, words, early)


def _least_span(shop: Shop, words: Words, early: Starts) -> Starts:
    """Return starts with the first task of each device shifted for the least longest span.

    Let F_d be the start of device d's first task. With P[d, e] the longest path to e's first task
    and L[d, e] to the end of its last, a span S is possible if and only if the differences
    F_e >= F_d + P[d, e] and F_e >= F_d + L[d, e] - S have a solution (no positive cycle).
    """
    lanes = [machine for machine in range(shop.num_devices) if words[machine]]
    lane = {machine: number for number, machine in enumerate(lanes)}
    reach: list[list[NDArray[np.int64]]] = [[] for _ in shop.kinds]
    begins = np.full((len(lanes), len(lanes)), _NEVER, dtype=np.int64)
    ends = np.full_like(begins, _NEVER)
    last: dict[int, NDArray[np.int64]] = {}
    for kind, number in _linear(shop, words):
        entry = shop.kinds[kind]
        machine = entry.machine
        arrival = np.full(len(lanes), _NEVER, dtype=np.int64)
        for a, lag in shop.before[kind]:
            arrival = np.maximum(arrival, reach[a][number] + (shop.kinds[a].duration + lag))
        if machine in last:
            arrival = np.maximum(arrival, last[machine])
        elif machine in lane:
            begins[:, lane[machine]] = arrival
            arrival[lane[machine]] = 0
        reach[kind].append(arrival)
        last[machine] = arrival + entry.duration
    for machine, number in lane.items():
        ends[:, number] = last[machine]
    low = int(ends.diagonal().max())
    high = value_of(shop, early)
    while low < high:
        middle = (low + high) // 2
        if _firsts(begins, ends, middle) is None:
            low = middle + 1
        else:
            high = middle
    delays = _firsts(begins, ends, high)
    assert delays is not None, "the earliest starts keep this span"
    return [
        [max(0, int((reach[kind][number] + delays).max())) for number in range(entry.count)]
        for kind, entry in enumerate(shop.kinds)
    ]


def _linear(shop: Shop, words: Words) -> list[tuple[int, int]]:
    """Return tasks (kind, number), each after all it waits for."""
    cursor = [0] * len(words)
    seen = [0] * len(shop.kinds)
    done: list[tuple[int, int]] = []
    while len(done) < shop.num_tasks:
        for machine, word in enumerate(words):
            while cursor[machine] < len(word):
                kind = word[cursor[machine]]
                if any(seen[a] <= seen[kind] for a, _ in shop.before[kind]):
                    break
                done.append((kind, seen[kind]))
                seen[kind] += 1
                cursor[machine] += 1
    return done


def _firsts(
    begins: NDArray[np.int64], ends: NDArray[np.int64], span: int
) -> NDArray[np.int64] | None:
    """Return the least start of each device's first task under a span; ``None`` if impossible."""
    wait = np.maximum(begins, np.where(ends > _NEVER // 2, ends - span, _NEVER))
    firsts = np.zeros(len(wait), dtype=np.int64)
    for _ in range(len(wait) + 1):
        later = np.maximum(firsts, (firsts[:, None] + wait).max(axis=0))
        if (later == firsts).all():
            return firsts
        firsts = later
    return None
