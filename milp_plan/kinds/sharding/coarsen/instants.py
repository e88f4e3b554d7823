"""Selects the rows of memory that no other row implies and that could overflow."""

# ruff: noqa: PLR0917 (compiled loops over arrays)

from __future__ import annotations

from dataclasses import replace

import numpy as np

from milp_plan.core.compiled import compiled
from milp_plan.core.sharding import offsets_of

from ..labelling import Flags, Integers, Labelling

REACH = 128
"""Distance in rows within which an implying row is searched."""
_ROUNDS = 4


def with_fewer_rows(labelling: Labelling) -> Labelling:
    """Subtract what every label uses from the capacities, and drop implied rows.

    A row follows from another one, however labels are chosen, if what could be in use there beyond
    what is in use at the other is no more than the difference of their capacities; a row follows
    from nothing if all that could be used fits.
    """
    b = _tidy(labelling)
    for _ in range(_ROUNDS):
        keep = _needed(b)
        if keep.all():
            break
        capacity = b.capacity
        boundary = offsets_of(keep.astype(np.int64))
        b = _tidy(replace(b, parts=boundary[b.parts], capacity=capacity[keep]))
    return b


def _needed(labelling: Labelling) -> Flags:
    b = labelling
    count = len(b.capacity)
    most = np.zeros(count + 1, dtype=np.int64)
    largest = _largest(b.offsets, b.part_offsets, b.use_offsets, b.usage)
    np.add.at(most, b.parts[:, 0], largest)
    np.add.at(most, b.parts[:, 1], -largest)
    keep: Flags = (most.cumsum()[:count] > b.capacity) | (b.capacity < 0)
    starts, changing = _changes(b)
    for ahead in (1, -1):
        _leave_implied(
            b.offsets, b.part_offsets, b.parts, b.use_offsets, b.usage, b.capacity, starts,
            changing, ahead, REACH, keep,
        )  # fmt: skip
    return keep


def _changes(labelling: Labelling) -> tuple[Integers, Integers]:
    """List the operators with a part that starts or stops at each boundary between rows."""
    b = labelling
    owner = np.repeat(np.arange(len(b)), np.diff(b.part_offsets))
    keys = np.unique((b.parts * max(1, len(b)) + owner[:, None]).ravel())
    boundary, operator = np.divmod(keys, max(1, len(b)))
    return offsets_of(np.bincount(boundary, minlength=len(b.capacity) + 1)), operator


@compiled
def _part_at(parts: Integers, row: int) -> int:
    """Return the number of the part that holds a row, -1 for none."""
    low, high = 0, len(parts)
    while low < high:
        middle = (low + high) // 2
        if parts[middle, 1] <= row:
            low = middle + 1
        else:
            high = middle
    return low if low < len(parts) and parts[low, 0] <= row else -1


@compiled
def _most_beyond(usage: Integers, labels: int, width: int, here: int, there: int) -> int:
    """Return the largest difference of a label between two parts (-1: none)."""
    most = -(2**62)
    for x in range(labels):
        used = 0
        if here >= 0:
            used += usage[x * width + here]
        if there >= 0:
            used -= usage[x * width + there]
        most = max(most, used)
    return most


@compiled
def _leave_implied(
    offsets: Integers,
    part_offsets: Integers,
    parts: Integers,
    use_offsets: Integers,
    usage: Integers,
    capacity: Integers,
    starts: Integers,
    changing: Integers,
    ahead: int,
    reach: int,
    keep: Flags,
) -> None:
    """Leave out rows implied by a row that stays, at most ``reach`` rows ahead (1) or back (-1).

    "Implies" is transitive, so a row may go later by which another one went before.
    """
    rows, count = len(capacity), len(offsets) - 1
    seen = np.full(count, -1, dtype=np.int64)
    live = np.full(count, -1, dtype=np.int64)
    now = np.zeros(count, dtype=np.int64)
    beyond = np.zeros(count, dtype=np.int64)
    for step in range(rows):
        r = step if ahead > 0 else rows - 1 - step
        boundary = r if ahead > 0 else r + 1
        for q in range(starts[boundary], starts[boundary + 1]):
            i = changing[q]
            live[i] = _part_at(parts[part_offsets[i] : part_offsets[i + 1]], r)
        if not keep[r]:
            continue
        total, passed, s = 0, 0, r + ahead
        while passed < reach and 0 <= s < rows:
            boundary = s if ahead > 0 else s + 1
            for q in range(starts[boundary], starts[boundary + 1]):
                i = changing[q]
                if seen[i] != r:
                    seen[i], now[i], beyond[i] = r, live[i], 0
                there = _part_at(parts[part_offsets[i] : part_offsets[i + 1]], s)
                if there == now[i]:
                    continue
                total -= beyond[i]
                now[i], beyond[i] = there, 0
                if there != live[i]:
                    width = part_offsets[i + 1] - part_offsets[i]
                    own = usage[use_offsets[i] : use_offsets[i + 1]]
                    labels = offsets[i + 1] - offsets[i]
                    beyond[i] = _most_beyond(own, labels, width, live[i], there)
                total += beyond[i]
            if keep[s]:
                passed += 1
                if total <= capacity[r] - capacity[s]:
                    keep[r] = False
                    break
            s += ahead


@compiled
def _largest(
    offsets: Integers, part_offsets: Integers, use_offsets: Integers, usage: Integers
) -> Integers:
    most = np.zeros(part_offsets[-1], dtype=np.int64)
    for i in range(len(offsets) - 1):
        width = part_offsets[i + 1] - part_offsets[i]
        for x in range(offsets[i + 1] - offsets[i]):
            for p in range(width):
                used = usage[use_offsets[i] + x * width + p]
                most[part_offsets[i] + p] = max(most[part_offsets[i] + p], used)
    return most


def _tidy(labelling: Labelling) -> Labelling:
    """Drop parts without rows or differences, and join equal neighbouring parts."""
    b = labelling
    base = np.zeros(len(b.capacity) + 1, dtype=np.int64)
    part_offsets, parts, use_offsets, usage = _tidied(
        b.offsets, b.part_offsets, b.parts, b.use_offsets, b.usage, base
    )
    return replace(
        b,
        part_offsets=part_offsets,
        parts=parts,
        use_offsets=use_offsets,
        usage=usage,
        capacity=b.capacity - base.cumsum()[:-1],
    )


@compiled
def _tidied(
    offsets: Integers,
    part_offsets: Integers,
    parts: Integers,
    use_offsets: Integers,
    usage: Integers,
    base: Integers,
) -> tuple[Integers, Integers, Integers, Integers]:
    count = len(offsets) - 1
    new_part_offsets = np.zeros(count + 1, dtype=np.int64)
    new_use_offsets = np.zeros(count + 1, dtype=np.int64)
    new_parts = np.empty_like(parts)
    new_usage = np.empty_like(usage)
    for i in range(count):
        labels = offsets[i + 1] - offsets[i]
        width = part_offsets[i + 1] - part_offsets[i]
        own, at, kept = use_offsets[i], new_part_offsets[i], 0
        columns = np.empty(width, dtype=np.int64)
        low = np.empty(width, dtype=np.int64)
        for p in range(width):
            lo, hi = parts[part_offsets[i] + p]
            if lo >= hi:
                continue
            least = most = usage[own + p]
            for x in range(1, labels):
                least = min(least, usage[own + x * width + p])
                most = max(most, usage[own + x * width + p])
            base[lo] += least
            base[hi] -= least
            if most == least:
                continue
            joins = kept > 0 and new_parts[at + kept - 1, 1] == lo
            for x in range(labels if joins else 0):
                row, last = own + x * width, columns[kept - 1]
                joins &= usage[row + p] - least == usage[row + last] - low[kept - 1]
            if joins:
                new_parts[at + kept - 1, 1] = hi
                continue
            new_parts[at + kept, 0], new_parts[at + kept, 1] = lo, hi
            columns[kept], low[kept] = p, least
            kept += 1
        new_part_offsets[i + 1] = at + kept
        place = new_use_offsets[i]
        for x in range(labels):
            for k in range(kept):
                new_usage[place] = usage[own + x * width + columns[k]] - low[k]
                place += 1
        new_use_offsets[i + 1] = place
    parts_left = new_parts[: new_part_offsets[count]].copy()
    return new_part_offsets, parts_left, new_use_offsets, new_usage[: new_use_offsets[count]].copy()
