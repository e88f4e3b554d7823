"""Removes labels that no plan can take: no allowed partner, or more memory than a row has left."""

# ruff: noqa: PLR0917 (compiled loops over arrays)

from __future__ import annotations

import numpy as np

from milp_plan.core.compiled import compiled

from ..labelling import BAN, Flags, Integers, Labelling


def possible_labels(labelling: Labelling) -> Flags:
    """Return the labels that may be part of a plan, by arc consistency and by capacities alone.

    An operator without any such label proves that there is no plan.
    """
    b = labelling
    alive = np.asarray(b.cost < BAN)
    while len(b.capacity) and _fit(
        b.offsets, b.part_offsets, b.parts, b.use_offsets, b.usage, b.capacity, alive
    ):
        pass
    while _support(b.offsets, b.ends, b.table_offsets, b.table, alive):
        pass
    return alive


@compiled
def _fit(
    offsets: Integers,
    part_offsets: Integers,
    parts: Integers,
    use_offsets: Integers,
    usage: Integers,
    capacity: Integers,
    alive: Flags,
) -> int:
    """Drop labels that do not fit with the smallest usages of all others; return their number."""
    least = np.zeros(len(parts), dtype=np.int64)
    change = np.zeros(len(capacity) + 1, dtype=np.int64)
    for i in range(len(offsets) - 1):
        width = part_offsets[i + 1] - part_offsets[i]
        for p in range(width):
            smallest = -1
            for x in range(offsets[i + 1] - offsets[i]):
                used = usage[use_offsets[i] + x * width + p]
                if alive[offsets[i] + x] and (smallest < 0 or used < smallest):
                    smallest = used
            q = part_offsets[i] + p
            least[q] = max(0, smallest)
            change[parts[q, 0]] += least[q]
            change[parts[q, 1]] -= least[q]
    room = capacity - change[: len(capacity)].cumsum()
    dropped = 0
    for i in range(len(offsets) - 1):
        width = part_offsets[i + 1] - part_offsets[i]
        for p in range(width):
            q = part_offsets[i] + p
            if parts[q, 0] >= parts[q, 1]:
                continue
            left = least[q] + room[parts[q, 0] : parts[q, 1]].min()
            for x in range(offsets[i + 1] - offsets[i]):
                if alive[offsets[i] + x] and usage[use_offsets[i] + x * width + p] > left:
                    alive[offsets[i] + x] = False
                    dropped += 1
    return dropped


@compiled
def _support(
    offsets: Integers, ends: Integers, table_offsets: Integers, table: Integers, alive: Flags
) -> int:
    """Drop labels without an allowed partner on some edge; return their number."""
    dropped = 0
    for e in range(len(ends)):
        a, b = ends[e]
        rows, width = offsets[a + 1] - offsets[a], offsets[b + 1] - offsets[b]
        supported = np.zeros(width, dtype=np.bool_)
        for x in range(rows):
            if not alive[offsets[a] + x]:
                continue
            found = False
            for y in range(width):
                if alive[offsets[b] + y] and table[table_offsets[e] + x * width + y] < BAN:
                    found = True
                    supported[y] = True
            if not found:
                alive[offsets[a] + x] = False
                dropped += 1
        for y in range(width):
            if alive[offsets[b] + y] and not supported[y]:
                alive[offsets[b] + y] = False
                dropped += 1
    return dropped
