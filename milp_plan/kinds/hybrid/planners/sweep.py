"""Decides whether a plan exists whose stages all take at most a given time, by one sweep."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from milp_plan.core.compiled import compiled

from .knapsack import FOUND, UNKNOWN, Menu, choose
from .tables import Arrays, Family

_Floats = npt.NDArray[np.float64]
_Integers = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.uint64]

EXHAUSTED, REACHED, CROWDED = 0, 1, 2
"""Status: every set is done; the empty set has an entry; the capacity for entries is used up."""

SAFE = 1.0 - 1e-9
"""Factor on every amount for which a choice is left out."""

_DATA, _DEVICES, _FIELDS = 0, 1, 6


class Front(NamedTuple):
    """Pareto front of each down-set: requirements of the stages after it.

    ``entries[i, e]`` for e below ``size[i]``: sum of data degrees, devices; the set and the entry
    it comes from; number of the tensor degree and data degree of the stage in between. ``unsure``
    counts the stages whose exact choice was given up.
    """

    size: _Integers
    entries: npt.NDArray[np.int64]
    unsure: _Integers


class Draft(NamedTuple):
    """Layers of a stage: configurations of the options, their seconds at data degree 1."""

    source: _Integers
    base: _Floats
    menu: Menu
    pick: _Integers


class Rule(NamedTuple):
    """Time limit of a stage.

    ``most`` is in seconds; with ``early`` any choice of configurations within it suffices;
    with ``optimistic`` a stage whose exact choice was given up counts as possible.
    """

    most: float
    early: bool
    optimistic: bool


class Extension(NamedTuple):
    """A drafted stage: sets at its end and its beginning, number of layers, number of the degree.

    ``least`` is its data degree, by its work; ``rest`` the least devices of all before it.
    """

    outer: int
    inner: int
    items: int
    tensor: int
    least: float
    rest: float


def new_front(sets: int, room: int) -> Front:
    """Return a front with an entry for the first set (all layers), and the given capacity."""
    size = np.zeros(sets, np.int64)
    size[0] = 1
    return Front(size, np.zeros((sets, room, _FIELDS), np.int64), np.zeros(1, np.int64))


def new_draft(arrays: Arrays) -> Draft:
    """Return buffers for a stage."""
    layers, options = len(arrays.first), len(arrays.work)
    menu = Menu(np.zeros(layers + 1, np.int64), np.zeros(options), np.zeros(options))
    return Draft(np.zeros(options, np.int64), np.zeros(options), menu, np.zeros(layers, np.int64))


@compiled
def gather(arrays: Arrays, outer: _Mask, inner: _Mask, j: int, draft: Draft) -> int:
    """Draft the stage of the layers in ``outer`` and not in ``inner`` at degree number j.

    Returns the number of layers; every one must have a configuration at the degree.
    """
    items, size = 0, 0
    start = draft.menu.start
    for v in range(len(arrays.first)):
        if not (outer[v >> 6] & ~inner[v >> 6]) >> np.uint64(v & 63) & np.uint64(1):
            continue
        begin = arrays.meets[v]
        for c in range(arrays.first[v, j], arrays.first[v, j] + arrays.choices[v, j]):
            draft.source[size] = c
            draft.base[size] = arrays.work[c]
            size += 1
        for i in range(begin, arrays.meets[v + 1]):
            w = arrays.other[i]
            if not (outer[w >> 6] & ~inner[w >> 6]) >> np.uint64(w & 63) & np.uint64(1):
                for place in range(start[items], size):
                    at = arrays.start[draft.source[place]] + i - begin
                    draft.base[place] += arrays.crossing[at]
        items += 1
        start[items] = size
    return items


@compiled
def settle(
    arrays: Arrays, draft: Draft, items: int, degrees: tuple[int, int], rule: Rule
) -> tuple[int, float]:
    """Choose the configurations of a drafted stage.

    Parameters
    ----------
    items
        Number of layers of the stage.
    degrees
        Its data degree, and the sum of it and those of later stages.

    Returns
    -------
    tuple
        Status of :func:`choose`, and the cost in seconds.
    """
    d, data = degrees
    flight = -(-data // d)  # micro-batches
    for place in range(draft.menu.start[items]):
        c = draft.source[place]
        draft.menu.cost[place] = draft.base[place] + (d - 1) * arrays.exchange[c]
        draft.menu.memory[place] = arrays.slope[c] * flight + arrays.fixed[c]
    target = rule.most * d
    status, cost = choose(draft.menu, arrays.capacity, target, rule.early, draft.pick[:items])
    return status, cost / d


@compiled
def insert(front: Front, at: int, entry: tuple[int, int, int, int, int, int]) -> bool:
    """Add an entry and drop those it dominates; return whether there was room."""
    kept = 0
    for e in range(front.size[at]):
        own = front.entries[at, e]
        if own[_DATA] < entry[_DATA] or own[_DEVICES] < entry[_DEVICES]:
            for field in range(_FIELDS):
                front.entries[at, kept, field] = own[field]
            kept += 1
    if kept == front.entries.shape[1]:
        return False
    for field in range(_FIELDS):
        front.entries[at, kept, field] = entry[field]
    front.size[at] = kept + 1
    return True


@compiled
def extend(arrays: Arrays, front: Front, draft: Draft, way: Extension, rule: Rule) -> bool:
    """Put a drafted stage before all entries of a set; return whether there was room."""
    for e in range(front.size[way.outer]):
        for d in arrays.data_degrees:
            data = front.entries[way.outer, e, _DATA] + d
            devices = front.entries[way.outer, e, _DEVICES] + d * arrays.degrees[way.tensor]
            if devices + way.rest > arrays.devices or data > arrays.micro_batches:
                break
            beaten = False
            for f in range(front.size[way.inner]):
                other = front.entries[way.inner, f]
                beaten = beaten or (other[_DATA] <= data and other[_DEVICES] <= devices)
            if beaten:
                break
            if d < way.least:
                continue
            status, _ = settle(arrays, draft, way.items, (d, data), rule)
            if status == UNKNOWN:
                front.unsure[0] += 1
            if status == FOUND or (status == UNKNOWN and rule.optimistic):
                if not insert(front, way.inner, (data, devices, way.outer, e, way.tensor, d)):
                    return False
                break
    return True


@compiled
def sweep(sets: Family, front: Front, draft: Draft, span: tuple[int, int], rule: Rule) -> int:
    """Extend the entries of some sets, from the first to before the second, by any one stage.

    Returns ``EXHAUSTED``, ``REACHED`` or ``CROWDED``.

    Notes
    -----
    An entry (sum of data degrees, devices) is worse than another when both are larger: earlier
    stages then hold at least as many micro-batches. So of the data degrees of a stage only the
    smallest that is possible matters.
    """
    arrays = sets.arrays
    total, words = sets.words.shape
    for i in range(span[0], span[1]):
        if front.size[i] == 0:
            continue
        fewest = arrays.devices
        for e in range(front.size[i]):
            fewest = min(fewest, front.entries[i, e, _DEVICES])
        if fewest + sets.effort[i] / rule.most * SAFE > arrays.devices:
            continue
        for k in range(i + 1, total):
            inside = sets.sizes[k] < sets.sizes[i]
            for w in range(words):
                inside = inside and (sets.words[k, w] & ~sets.words[i, w]) == 0
            if not inside:
                continue
            rest = sets.effort[k] / rule.most * SAFE
            for j in range(len(arrays.degrees)):
                least = (sets.least[i, j] - sets.least[k, j]) / rule.most * SAFE
                if (
                    sets.lacking[i, j] > sets.lacking[k, j]
                    or fewest + arrays.degrees[j] * max(1.0, least) + rest > arrays.devices
                ):
                    continue
                items = gather(arrays, sets.words[i], sets.words[k], j, draft)
                if not extend(arrays, front, draft, Extension(i, k, items, j, least, rest), rule):
                    return CROWDED
        if front.size[total - 1] > 0:
            return REACHED
    return EXHAUSTED
