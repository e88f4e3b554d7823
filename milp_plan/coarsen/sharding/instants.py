"""Rows of memory that matter: those no other row implies and that could overflow at all."""

# ruff: noqa: PLR0917 (compiled loops over arrays)

from __future__ import annotations

from dataclasses import replace

import numpy as np

from milp_plan.core.compiled import compiled
from milp_plan.core.labelling import Flags, Integers, Labelling

from .rebuild import offsets_of


def with_fewer_rows(labelling: Labelling) -> Labelling:
    """Take what every label uses off the capacities, and leave out the rows that follow.

    A row follows from its neighbour if everything in use there is in use at the neighbour too and
    the neighbour has no more left; a row follows from nothing if all that could be used fits.
    """
    b = _tidy(labelling)
    while len(b.capacity):
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
    starts = np.bincount(b.parts[:, 0], minlength=count + 1)
    stops = np.bincount(b.parts[:, 1], minlength=count + 1)
    live = np.cumsum(starts - stops)[:count]
    most = np.zeros(count + 1, dtype=np.int64)
    largest = _largest(b.offsets, b.part_offsets, b.use_offsets, b.usage)
    np.add.at(most, b.parts[:, 0], largest)
    np.add.at(most, b.parts[:, 1], -largest)
    keep: Flags = (most.cumsum()[:count] > b.capacity) | (b.capacity < 0)
    c = b.capacity
    with_next = (stops[1:count] == 0) & (c[:-1] >= c[1:])
    with_last = (starts[1:count] == 0) & (c[1:] >= c[:-1])
    # Alike rows imply each other: the later one stays.
    with_last &= ~((stops[1:count] == 0) & (starts[1:count] == 0) & (c[1:] == c[:-1]))
    keep[:-1] &= ~with_next
    keep[1:] &= ~with_last
    keep[(live == 0) & (c >= 0)] = False
    return keep


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
    """Parts without rows or without a difference go; neighbouring parts that agree become one."""
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
        old = usage[use_offsets[i] : use_offsets[i + 1]].copy().reshape(labels, width)
        at, kept = new_part_offsets[i], 0
        columns = np.empty(width, dtype=np.int64)
        for p in range(width):
            lo, hi = parts[part_offsets[i] + p]
            if lo >= hi:
                continue
            least = old[:, p].min()
            base[lo] += least
            base[hi] -= least
            old[:, p] -= least
            if old[:, p].max() == 0:
                continue
            joins = kept > 0 and new_parts[at + kept - 1, 1] == lo
            if joins and (old[:, p] == old[:, columns[kept - 1]]).all():
                new_parts[at + kept - 1, 1] = hi
                continue
            new_parts[at + kept, 0], new_parts[at + kept, 1] = lo, hi
            columns[kept] = p
            kept += 1
        new_part_offsets[i + 1] = at + kept
        place = new_use_offsets[i]
        for x in range(labels):
            for k in range(kept):
                new_usage[place] = old[x, columns[k]]
                place += 1
        new_use_offsets[i + 1] = place
    parts_left = new_parts[: new_part_offsets[count]].copy()
    return new_part_offsets, parts_left, new_use_offsets, new_usage[: new_use_offsets[count]].copy()
