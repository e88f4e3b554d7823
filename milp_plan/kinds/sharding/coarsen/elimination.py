"""Eliminates operators without memory that have at most two neighbours."""

# ruff: noqa: PLR0917, C901 (compiled loops over arrays)

from __future__ import annotations

from dataclasses import replace

import numpy as np

from milp_plan.core.compiled import compiled
from milp_plan.core.sharding import offsets_of

from ..labelling import BAN, Flags, Integers, Labelling
from .contraction import adjacency, summed
from .steps import EliminatedOperator

TABLE_CAP = 4096
"""Size of a new table that is always accepted; larger ones must replace as many entries."""


def eliminated(labelling: Labelling) -> tuple[Labelling, EliminatedOperator] | None:
    """Eliminate operators, no two of them neighbours; ``None`` where there are none.

    Bertele and Brioschi, Nonserial Dynamic Programming (1972): with one neighbour the best answers
    become costs of its labels, with two they become a table between them.
    """
    b = labelling
    neighbours, edges, starts = adjacency(b)
    free = np.diff(b.part_offsets) == 0
    gone = _choose(b.offsets, starts, neighbours, free, TABLE_CAP)
    if not gone.any():
        return None
    cost = b.cost.copy()
    first, second, sizes = _new_edges(b.offsets, starts, neighbours, gone)
    new_offsets = offsets_of(sizes)
    new_table = np.empty(new_offsets[-1], dtype=np.int64)
    constant = _fold(
        b.offsets, cost, b.ends, b.table_offsets, b.table, starts, neighbours, edges, gone,
        new_offsets, new_table,
    )  # fmt: skip
    keep = ~gone[b.ends].any(axis=1)
    table_sizes = np.diff(b.table_offsets)
    number = np.cumsum(~gone) - 1
    ends = np.concatenate([b.ends[keep], np.stack([first, second], axis=1)])
    owner_alive = np.repeat(~gone, b.counts)
    counts = b.counts[~gone]
    widths = np.diff(b.part_offsets)[~gone]
    smaller = replace(
        b,
        offsets=offsets_of(counts),
        cost=cost[owner_alive],
        ends=number[ends],
        table_offsets=offsets_of(np.concatenate([table_sizes[keep], sizes])),
        table=np.concatenate([b.table[np.repeat(keep, table_sizes)], new_table]),
        part_offsets=offsets_of(widths),
        use_offsets=offsets_of(widths * counts),
        constant=b.constant + constant,
    )
    return summed(smaller), EliminatedOperator(_around(b, gone), gone)


def _around(labelling: Labelling, gone: Flags) -> Labelling:
    """Return the part that determines best labels: no memory, no edge between others."""
    b = labelling
    touched = gone[b.ends].any(axis=1)
    sizes = np.diff(b.table_offsets)
    nothing = np.zeros(0, dtype=np.int64)
    return replace(
        b,
        ends=b.ends[touched],
        table_offsets=offsets_of(sizes[touched]),
        table=b.table[np.repeat(touched, sizes)],
        part_offsets=np.zeros(len(b) + 1, dtype=np.int64),
        parts=nothing.reshape(0, 2),
        use_offsets=np.zeros(len(b) + 1, dtype=np.int64),
        usage=nothing,
        capacity=nothing,
    )


@compiled
def _choose(
    offsets: Integers, starts: Integers, neighbours: Integers, free: Flags, cap: int
) -> Flags:
    count = len(offsets) - 1
    gone = np.zeros(count, dtype=np.bool_)
    blocked = np.zeros(count, dtype=np.bool_)
    for i in range(count):
        degree = starts[i + 1] - starts[i]
        if not free[i] or blocked[i] or degree > 2:
            continue
        if degree == 2:
            a, b = neighbours[starts[i]], neighbours[starts[i] + 1]
            rows, width = offsets[a + 1] - offsets[a], offsets[b + 1] - offsets[b]
            own = offsets[i + 1] - offsets[i]
            if rows * width > max(cap, own * (rows + width)):
                continue
        gone[i] = True
        for q in range(starts[i], starts[i + 1]):
            blocked[neighbours[q]] = True
    return gone


@compiled
def _new_edges(
    offsets: Integers, starts: Integers, neighbours: Integers, gone: Flags
) -> tuple[Integers, Integers, Integers]:
    count = 0
    for i in range(len(gone)):
        count += gone[i] and starts[i + 1] - starts[i] == 2
    first = np.empty(count, dtype=np.int64)
    second = np.empty(count, dtype=np.int64)
    sizes = np.empty(count, dtype=np.int64)
    place = 0
    for i in range(len(gone)):
        if gone[i] and starts[i + 1] - starts[i] == 2:
            a, b = neighbours[starts[i]], neighbours[starts[i] + 1]
            first[place], second[place] = a, b
            sizes[place] = (offsets[a + 1] - offsets[a]) * (offsets[b + 1] - offsets[b])
            place += 1
    return first, second, sizes


@compiled
def _fold(
    offsets: Integers,
    cost: Integers,
    ends: Integers,
    table_offsets: Integers,
    table: Integers,
    starts: Integers,
    neighbours: Integers,
    edges: Integers,
    gone: Flags,
    new_offsets: Integers,
    new_table: Integers,
) -> int:
    """Write the best answers; return the cost of operators without neighbours."""
    constant, place = 0, 0
    for i in range(len(gone)):
        if not gone[i]:
            continue
        own = offsets[i + 1] - offsets[i]
        degree = starts[i + 1] - starts[i]
        if degree == 0:
            constant += cost[offsets[i] : offsets[i + 1]].min()
            continue
        a, e = neighbours[starts[i]], edges[starts[i]]
        rows = offsets[a + 1] - offsets[a]
        row_a, step_a = (rows, 1) if ends[e, 0] == i else (1, own)
        if degree == 1:
            for x in range(rows):
                best = BAN
                for y in range(own):
                    entry = table[table_offsets[e] + y * row_a + x * step_a]
                    if entry < BAN:
                        best = min(best, entry + cost[offsets[i] + y])
                old = cost[offsets[a] + x]
                cost[offsets[a] + x] = BAN if max(best, old) >= BAN else old + best
            continue
        b, f = neighbours[starts[i] + 1], edges[starts[i] + 1]
        width = offsets[b + 1] - offsets[b]
        row_b, step_b = (width, 1) if ends[f, 0] == i else (1, own)
        out = new_table[new_offsets[place] : new_offsets[place + 1]]
        out[:] = BAN
        for y in range(own):
            for x in range(rows):
                entry = table[table_offsets[e] + y * row_a + x * step_a]
                if entry >= BAN:
                    continue
                entry += cost[offsets[i] + y]
                for z in range(width):
                    other = table[table_offsets[f] + y * row_b + z * step_b]
                    if other < BAN:
                        out[x * width + z] = min(out[x * width + z], entry + other)
        place += 1
    return constant
