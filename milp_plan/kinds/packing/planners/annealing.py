"""Anneals orders of first fits; buffers above the target height cost as much as they exceed it.

The height alone says little about a step, since most steps do not move the highest buffer;
the sum of all excesses shows which packings are close.
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled, copy_into

from .field import Field, Indices, Integers, aligned

Floats = NDArray[np.float64]

_OUT, _NEAR = 0.6, 0.8
"""Share of steps that move an exceeding buffer to an earlier place, and share of those steps,
in addition, that move a buffer with a common section to any place."""

_GUESSES = 8
"""Number of draws for a buffer with a common section before any other is taken."""

COST, BEST, AIM = 0, 1, 2


class OrderArrays(NamedTuple):
    """State of the annealing.

    ``meet``: whether two buffers have a section in common; ``order``: of the buffers; ``position``:
    where each comes in it; ``offset``: its first fit; ``sorted``: buffers by offset. The same of a
    step that is tried: ``other``, ``trial``, ``below``. ``best``: offsets that stick out least.
    ``state``: how much offsets stick out (``COST``), the best ones (``BEST``), and of what height
    (``AIM``); as floats, since sums of offsets may need more than 64 bits.
    """

    meet: NDArray[np.bool_]
    order: Indices
    position: Indices
    offset: Integers
    sorted: Indices
    other: Indices
    trial: Integers
    below: Indices
    best: Integers
    state: Floats


@compiled
def _place(field: Field, arrays: OrderArrays, first: int, limit: float, cost: float) -> float:
    """Place buffers of the step from the ``first`` on; stop when they cost too much."""
    offset, by_offset, aim = arrays.trial, arrays.below, arrays.state[AIM]
    for done in range(first, len(arrays.other)):
        i = arrays.other[done]
        size, begin = field.size[i], np.int64(0)
        for at in range(done):
            j = by_offset[at]
            if not arrays.meet[i, j]:
                continue
            if offset[j] - begin >= size:
                break
            above = aligned(offset[j] + field.size[j], field.alignment[i])
            begin = max(begin, np.int64(above))
        offset[i] = begin
        cost += max(0.0, begin + size - aim)
        if cost > limit:
            return cost
        at = done
        while at > 0 and offset[by_offset[at - 1]] > begin:
            by_offset[at] = by_offset[at - 1]
            at -= 1
        by_offset[at] = i
    return cost


@compiled
def _chosen(field: Field, arrays: OrderArrays) -> tuple[int, int]:
    """Draw a step: the old and the new place in the order."""
    count, kind = len(arrays.order), np.random.random()
    high, seen = -1, 0
    if kind < _NEAR:
        for i in range(count):
            if arrays.offset[i] + field.size[i] > arrays.state[AIM]:
                seen += 1
                if np.random.randint(seen) == 0:
                    high = i
    if high < 0:
        return np.random.randint(count), np.random.randint(count)
    if kind < _OUT:
        old = arrays.position[high]
        new = np.random.randint(old + 1)
        for _ in range(_GUESSES):
            if arrays.meet[high, arrays.order[new]]:
                break
            new = np.random.randint(old + 1)
        return int(old), new
    near = np.random.randint(count)
    for _ in range(_GUESSES):
        if arrays.meet[high, near]:
            break
        near = np.random.randint(count)
    return int(arrays.position[near]), np.random.randint(count)


@compiled
def anneal(field: Field, arrays: OrderArrays, warmth: float, seed: int, steps: int) -> float:
    """Try some steps; return how much the best offsets exceed the target."""
    np.random.seed(seed)
    order, other, trial, below = arrays.order, arrays.other, arrays.trial, arrays.below
    for _ in range(steps):
        if arrays.state[BEST] == 0:
            break
        old, new = _chosen(field, arrays)
        if new == old:
            continue
        copy_into(order, other)
        if new < old:
            copy_into(order[new:old], other[new + 1 : old + 1])
        else:
            copy_into(order[old + 1 : new + 1], other[old:new])
        other[new] = order[old]
        first, put, cost = min(old, new), 0, 0.0
        for j in arrays.sorted:
            if arrays.position[j] < first:
                below[put], trial[j] = j, arrays.offset[j]
                cost += max(0.0, trial[j] + field.size[j] - arrays.state[AIM])
                put += 1
        limit = arrays.state[COST] - warmth * log(1.0 - np.random.random())
        cost = _place(field, arrays, first, limit, cost)
        if cost > limit:
            continue
        copy_into(other, order)
        copy_into(trial, arrays.offset)
        copy_into(below, arrays.sorted)
        for at in range(first, len(order)):
            arrays.position[order[at]] = at
        arrays.state[COST] = cost
        if cost < arrays.state[BEST]:
            arrays.state[BEST] = cost
            copy_into(trial, arrays.best)
    return float(arrays.state[BEST])


def begin(field: Field, order: Indices, aim: int) -> OrderArrays:
    """Return the state with all buffers placed in an order."""
    meet = field.lower[:, None] < field.upper[None, :]
    meet &= meet.T
    position, by_offset, below = (np.zeros(len(order), np.int32) for _ in range(3))
    offset, trial, best = (np.zeros(len(order), np.int64) for _ in range(3))
    state = np.array([0.0, 0.0, aim])
    arrays = OrderArrays(
        meet, order.copy(), position, offset, by_offset, order.copy(), trial, below, best, state
    )
    position[order] = np.arange(len(order))
    state[COST] = state[BEST] = _place(field, arrays, 0, np.inf, 0.0)
    offset[:], best[:], by_offset[:] = trial, trial, below
    return arrays
