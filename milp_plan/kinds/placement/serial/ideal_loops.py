"""Compiled loops over ideals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled

Bits = NDArray[np.uint64]
Longs = NDArray[np.int64]
Ints = NDArray[np.int32]


@compiled
def enumerate_ideals(before: Bits, blocks: int, found: Bits) -> int:
    """Write all ideals to rows of ``found``; return how many, or -1 if there are more rows."""
    room, words = found.shape
    last = np.full(room, -1, dtype=np.int64)
    for word in range(words):
        found[0, word] = 0
    count, at = 1, 0
    while at < count:
        for block in range(last[at] + 1, blocks):
            closed = True
            for word in range(words):
                if before[block, word] & ~found[at, word]:
                    closed = False
                    break
            if not closed:
                continue
            if count == room:
                return -1
            for word in range(words):
                found[count, word] = found[at, word]
            found[count, block >> 6] |= np.uint64(1) << np.uint64(block & 63)
            last[count] = block
            count += 1
        at += 1
    return count


@compiled
def crossing_nets(ideals: Bits, pins: Bits, start: Longs, found: Ints) -> int:
    """Return the nets with pins on both sides of each ideal, one ideal after the other.

    ``start`` gets the first position of each ideal's nets in ``found``; with too little room
    there, nets are counted only. Returns how many there are.
    """
    count = 0
    for row in range(len(ideals)):
        start[row] = count
        for net in range(len(pins)):
            inside, outside = False, False
            for word in range(ideals.shape[1]):
                if pins[net, word] & ideals[row, word]:
                    inside = True
                if pins[net, word] & ~ideals[row, word]:
                    outside = True
            if inside and outside:
                if count < len(found):
                    found[count] = net
                count += 1
    start[len(ideals)] = count
    return count
