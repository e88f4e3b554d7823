"""Is there a plan whose stages all take at most a given time? One sweep over the down-sets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from milp_plan.core.compiled import compiled

from .knapsack import FOUND, UNKNOWN, choose
from .tables import Arrays, Family

_Floats = npt.NDArray[np.float64]
_Integers = npt.NDArray[np.int64]

REACHED, EXHAUSTED, CROWDED = 1, 0, 2
"""The empty set has an entry; every set is done; more entries than there is room for."""

SAFE = 1e-9
"""Relative margin of every test that leaves something out for its time."""


class Front(NamedTuple):
    """Pareto front of each down-set: what the stages after it take.

    ``data`` and ``devices`` are the sums over the stages after the set, the entries of set i being
    ``0`` to ``count[i] - 1``; ``origin``, ``slot``, ``tensor`` and ``degree`` say which entry of
    which larger set it comes from, by a stage of which degrees.
    """

    count: _Integers
    data: _Integers
    devices: _Integers
    origin: _Integers
    slot: _Integers
    tensor: _Integers
    degree: _Integers


def new_front(sets: int, room: int) -> Front:
    """Return a front with nothing after the first set (all layers), and room for so many."""
    count = np.zeros(sets, np.int64)
    count[0] = 1
    return Front(count, *(np.zeros((sets, room), np.int64) for _ in range(6)))


@compiled
def gather(
    arrays: Arrays,
    outer: npt.NDArray[np.uint64],
    inner: npt.NDArray[np.uint64],
    j: int,
    start: _Integers,
    source: _Integers,
    base: _Floats,
) -> int:
    """List the options of the layers in ``outer`` but not in ``inner``, at degree number j.

    Receives in ``source`` the configurations, in ``base`` their seconds with a data degree of 1;
    returns the number of layers, or -1 when one of them has no configuration.
    """
    layers, size = 0, 0
    start[0] = 0
    for v in range(len(arrays.first)):
        bit = np.uint64(1) << np.uint64(v & 63)
        if (outer[v >> 6] & ~inner[v >> 6] & bit) == 0:
            continue
        if arrays.count[v, j] == 0:
            return -1
        begin, end = arrays.meets[v], arrays.meets[v + 1]
        for c in range(arrays.first[v, j], arrays.first[v, j] + arrays.count[v, j]):
            source[size] = c
            base[size] = arrays.work[c]
            size += 1
        for i in range(begin, end):
            w = arrays.other[i]
            bit = np.uint64(1) << np.uint64(w & 63)
            if (outer[w >> 6] & ~inner[w >> 6] & bit) == 0:
                for place in range(start[layers], size):
                    base[place] += arrays.crossing[arrays.start[source[place]] + i - begin]
        layers += 1
        start[layers] = size
    return layers


@compiled
def fill(
    arrays: Arrays,
    size: int,
    source: _Integers,
    base: _Floats,
    d: int,
    flight: int,
    cost: _Floats,
    memory: _Floats,
) -> None:
    """Write seconds times d, and memory with so many micro-batches in flight, of each option."""
    for place in range(size):
        c = source[place]
        cost[place] = base[place] + (d - 1) * arrays.exchange[c]
        memory[place] = arrays.slope[c] * flight + arrays.fixed[c]


@compiled
def insert(
    front: Front, at: int, data: int, devices: int, origin: int, slot: int, tensor: int, degree: int
) -> bool:
    """Add an entry and drop those it dominates; whether there was room."""
    kept = 0
    for e in range(front.count[at]):
        if front.data[at, e] >= data and front.devices[at, e] >= devices:
            continue
        if kept != e:
            front.data[at, kept] = front.data[at, e]
            front.devices[at, kept] = front.devices[at, e]
            front.origin[at, kept] = front.origin[at, e]
            front.slot[at, kept] = front.slot[at, e]
            front.tensor[at, kept] = front.tensor[at, e]
            front.degree[at, kept] = front.degree[at, e]
        kept += 1
    if kept == front.data.shape[1]:
        return False
    front.data[at, kept] = data
    front.devices[at, kept] = devices
    front.origin[at, kept] = origin
    front.slot[at, kept] = slot
    front.tensor[at, kept] = tensor
    front.degree[at, kept] = degree
    front.count[at] = kept + 1
    return True


@compiled
def dominated(front: Front, at: int, data: int, devices: int) -> bool:
    """Whether an entry is no better than one that is there."""
    for e in range(front.count[at]):
        if front.data[at, e] <= data and front.devices[at, e] <= devices:
            return True
    return False


@compiled
def sweep(
    arrays: Arrays,
    sets: Family,
    front: Front,
    begin: int,
    end: int,
    most: float,
    optimistic: bool,
    unsure: _Integers,
) -> int:
    """Extend the entries of the sets ``begin`` to ``end - 1`` by one stage in every way.

    Parameters
    ----------
    most
        Seconds that a stage may take.
    optimistic
        Whether a stage whose exact choice was given up counts as possible.
    unsure
        Receives in ``unsure[0]`` how often that happened.

    Notes
    -----
    An entry (sum of data degrees, devices) is worse than another when both are larger: earlier
    stages then hold at least as many micro-batches. So of the data degrees of a stage only the
    smallest that is possible matters.
    """
    layers = len(arrays.first)
    options = len(arrays.work)
    start = np.zeros(layers + 1, np.int64)
    source, base = np.zeros(options, np.int64), np.zeros(options)
    cost, memory = np.zeros(options), np.zeros(options)
    picked = np.zeros(layers, np.int64)
    total = len(sets.sizes)
    for i in range(begin, end):
        if front.count[i] == 0:
            continue
        fewest = front.devices[i, 0]
        for e in range(front.count[i]):
            fewest = min(fewest, front.devices[i, e])
        for k in range(i + 1, total):
            if sets.sizes[k] == sets.sizes[i]:
                continue
            if fewest + sets.effort[i] / most * (1.0 - SAFE) > arrays.devices:
                break
            inside = True
            for w in range(sets.words.shape[1]):
                if sets.words[k, w] & ~sets.words[i, w]:
                    inside = False
                    break
            if not inside:
                continue
            rest = sets.effort[k] / most * (1.0 - SAFE)
            for j in range(len(arrays.degrees)):
                t = arrays.degrees[j]
                if sets.lacking[i, j] > sets.lacking[k, j]:
                    continue
                needed = (sets.least[i, j] - sets.least[k, j]) / most * (1.0 - SAFE)
                if fewest + t * max(1.0, needed) + rest > arrays.devices:
                    continue
                items = gather(arrays, sets.words[i], sets.words[k], j, start, source, base)
                for e in range(front.count[i]):
                    for d in arrays.data_degrees:
                        if d < needed:
                            continue
                        data = front.data[i, e] + d
                        devices = front.devices[i, e] + d * t
                        if devices + rest > arrays.devices or data > arrays.micro_batches:
                            break
                        if dominated(front, k, data, devices):
                            break
                        fill(arrays, start[items], source, base, d, -(-data // d), cost, memory)
                        status, _ = choose(
                            start[: items + 1],
                            cost,
                            memory,
                            arrays.capacity,
                            most * d,
                            True,
                            picked[:items],
                        )
                        if status == UNKNOWN:
                            unsure[0] += 1
                        if status == FOUND or (status == UNKNOWN and optimistic):
                            if not insert(front, k, data, devices, i, e, j, d):
                                return CROWDED
                            break
        if front.count[total - 1] > 0:
            return REACHED
    return REACHED if front.count[total - 1] > 0 else EXHAUSTED
