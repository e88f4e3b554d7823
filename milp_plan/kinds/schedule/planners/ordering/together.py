"""Groups of operators that come next together, since they hold less than any part of them.

Bytes held after a set of operators that waits for nothing else are submodular in the set: a value
counts from when any that makes it is in it until all its readers are. Let A be such operators to
come after S, with no more held after S and A than after S and any part of A, and an order of A that
fits. Then A may come at once. For take any order that goes on from S, and put A first: where it had
run S, P and a part B of A, now S, P and A have run, and by submodularity that exceeds what was held
by no more than what S and A hold exceeds what S and B do, that is by nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from milp_plan.core.compiled import compiled

from .flow import Integers
from .piece import BLOCKED, FORCED, LIVE, TOP, Piece, SearchArrays

TOGETHER = 12
"""Most operators that are put next together."""


class Ties(NamedTuple):
    """Bits of some operators: which each one waits for; which read, and make, each value."""

    before: Integers
    readers: Integers
    makers: Integers


@compiled
def made_by(piece: Piece, arrays: SearchArrays, o: int) -> int:
    """Return the bytes of what an operator makes first."""
    made = np.int64(0)
    for at in range(piece.made_at[o], piece.made_at[o + 1]):
        if arrays.there[piece.made[at]] == 0:
            made += piece.size[piece.made[at]]
    return int(made)


@compiled
def released_by(piece: Piece, arrays: SearchArrays, o: int) -> int:
    """Return the bytes of what an operator reads last."""
    released = np.int64(0)
    for at in range(piece.read_at[o], piece.read_at[o + 1]):
        if arrays.left[piece.read[at]] == 1:
            released += piece.size[piece.read[at]]
    return int(released)


@compiled
def together(piece: Piece, arrays: SearchArrays, depth: int) -> bool:
    """Put next the operators that release a value, if possible; return whether there are any."""
    some = np.empty(TOGETHER, np.int64)
    for value in range(len(piece.size)):
        count = 0
        for at in range(piece.end_at[value], piece.end_at[value + 1]):
            if not arrays.done[piece.end[at]]:
                if count == TOGETHER:
                    count = 0
                    break
                some[count] = piece.end[at]
                count += 1
        if count > 1 and _put(piece, arrays, depth, some[:count][::-1]):
            return True
    return False


@compiled
def _put(piece: Piece, arrays: SearchArrays, depth: int, some: Integers) -> bool:
    """Put operators next, those that are waited for first, if they may come at once."""
    growth = _growth(piece, arrays, some)
    if growth > 0:
        return False
    ties = _ties(piece, some)
    held = _held(piece, arrays, some, ties)
    if held.min() < arrays.state[LIVE] + growth:
        return False
    last = _last(piece, arrays, some, held, ties)
    mask = len(held) - 1
    if last[mask] < 0:
        return False
    for place in range(depth + len(some) - 1, depth - 1, -1):
        arrays.choices[place, 0] = some[last[mask]]
        mask ^= 1 << last[mask]
    arrays.state[FORCED] = depth + len(some)
    return True


@compiled
def _growth(piece: Piece, arrays: SearchArrays, some: Integers) -> int:
    """By how much more is held after some operators than before them."""
    growth = np.int64(0)
    for o in some:
        growth += made_by(piece, arrays, o) - released_by(piece, arrays, o)
        for at in range(piece.made_at[o], piece.made_at[o + 1]):
            arrays.there[piece.made[at]] += 1
        for at in range(piece.read_at[o], piece.read_at[o + 1]):
            arrays.left[piece.read[at]] -= 1
    for o in some:
        for at in range(piece.made_at[o], piece.made_at[o + 1]):
            arrays.there[piece.made[at]] -= 1
        for at in range(piece.read_at[o], piece.read_at[o + 1]):
            arrays.left[piece.read[at]] += 1
    return int(growth)


@compiled
def _ties(piece: Piece, some: Integers) -> Ties:
    """Return which of some operators wait for each other, and for which values."""
    count = len(some)
    before, readers = np.zeros(count, np.int64), np.zeros(len(piece.size), np.int64)
    makers = np.zeros(len(piece.size), np.int64)
    for i in range(count):
        for at in range(piece.next_at[some[i]], piece.next_at[some[i] + 1]):
            for j in range(i + 1, count):
                if some[j] == piece.next[at]:
                    before[j] |= 1 << i
        for at in range(piece.read_at[some[i]], piece.read_at[some[i] + 1]):
            readers[piece.read[at]] |= 1 << i
        for at in range(piece.made_at[some[i]], piece.made_at[some[i] + 1]):
            makers[piece.made[at]] |= 1 << i
    return Ties(before, readers, makers)


@compiled
def _held(piece: Piece, arrays: SearchArrays, some: Integers, ties: Ties) -> Integers:
    """Bytes held after each part, by its bits; very many where it waits for something else."""
    held = np.full(1 << len(some), 2**62, np.int64)
    held[0] = arrays.state[LIVE]
    high = 0
    for mask in range(1, len(held)):
        if mask >> (high + 1):
            high += 1
        rest = mask ^ (1 << high)
        if held[rest] == 2**62 or ties.before[high] & ~mask:
            continue
        held[mask] = held[rest] + _made_after(piece, arrays, some[high], ties.makers, rest)
        for at in range(piece.read_at[some[high]], piece.read_at[some[high] + 1]):
            value = piece.read[at]
            if arrays.left[value] == _bits(ties.readers[value] & mask):
                held[mask] -= piece.size[value]
    return held


@compiled
def _made_after(piece: Piece, arrays: SearchArrays, o: int, makers: Integers, mask: int) -> int:
    """Return the bytes of what an operator makes first, behind some others."""
    made = np.int64(0)
    for at in range(piece.made_at[o], piece.made_at[o + 1]):
        value = piece.made[at]
        if arrays.there[value] == 0 and makers[value] & mask == 0:
            made += piece.size[value]
    return int(made)


@compiled
def _last(
    piece: Piece, arrays: SearchArrays, some: Integers, held: Integers, ties: Ties
) -> Integers:
    """Return which operator each part can end with; -1 where no order of it fits."""
    last = np.full(len(held), -1, np.int64)
    last[0] = 0
    for mask in range(1, len(held)):
        for i in range(len(some)):
            rest = mask & ~(1 << i)
            if rest == mask or held[mask] == 2**62 or held[rest] == 2**62 or last[rest] < 0:
                continue
            made = _made_after(piece, arrays, some[i], ties.makers, rest)
            needed = held[rest] + made + piece.rest[some[i]]
            if needed <= arrays.state[TOP] or not piece.lasting[some[i]]:
                last[mask] = i
                break
            arrays.state[BLOCKED] = min(arrays.state[BLOCKED], needed)
    return last


@compiled
def _bits(mask: int) -> int:
    """Count the bits of a mask."""
    count = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count
