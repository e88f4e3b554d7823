"""Rebuilds a labelling without some labels, or with operators merged and edges summed."""

# ruff: noqa: PLR0917 (compiled loops over arrays)

from __future__ import annotations

from dataclasses import replace

import numpy as np

from milp_plan.core.compiled import compiled
from milp_plan.core.sharding import offsets_of

from ..labelling import BAN, Flags, Integers, Labelling
from .steps import Contracted, Relabelled


def without_labels(labelling: Labelling, alive: Flags) -> tuple[Labelling, Relabelled]:
    """Remove the labels that are not alive."""
    b = labelling
    owner = np.repeat(np.arange(len(b)), b.counts)
    counts = np.bincount(owner[alive], minlength=len(b)).astype(np.int64)
    offsets = offsets_of(counts)
    old_labels = (np.arange(len(alive)) - b.offsets[owner])[alive]
    sizes = counts[b.ends[:, 0]] * counts[b.ends[:, 1]]
    table_offsets = offsets_of(sizes)
    table = np.empty(table_offsets[-1], dtype=np.int64)
    _gather(b.offsets, b.ends, b.table_offsets, b.table, offsets, old_labels, table_offsets, table)
    width = np.diff(b.part_offsets)
    used = alive.repeat(width[owner])
    smaller = replace(
        b,
        offsets=offsets,
        cost=b.cost[alive],
        table_offsets=table_offsets,
        table=table,
        use_offsets=offsets_of(counts * width),
        usage=b.usage[used],
    )
    return smaller, Relabelled(offsets, old_labels)


@compiled
def _gather(
    offsets: Integers,
    ends: Integers,
    table_offsets: Integers,
    table: Integers,
    new_offsets: Integers,
    kept: Integers,
    new_table_offsets: Integers,
    new_table: Integers,
) -> None:
    for e in range(len(ends)):
        a, b = ends[e]
        width = offsets[b + 1] - offsets[b]
        place = new_table_offsets[e]
        for x in range(new_offsets[a], new_offsets[a + 1]):
            row = table_offsets[e] + kept[x] * width
            for y in range(new_offsets[b], new_offsets[b + 1]):
                new_table[place] = table[row + kept[y]]
                place += 1


def regrouped(
    labelling: Labelling, step: Contracted, counts: Integers
) -> tuple[Integers, Integers, Integers, Integers]:
    """Return cost, ends, table offsets and table after a merge; parallel edges become one.

    Parameters
    ----------
    labelling, step
        The problem before, and the merge.
    counts
        Number of labels of each operator after the merge.
    """
    b, count = labelling, len(counts)
    offsets = offsets_of(counts)
    cost = np.zeros(offsets[-1], dtype=np.int64)
    pairs = step.root[b.ends]
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    outer = low != high
    keys, slots = np.unique(low[outer] * count + high[outer], return_inverse=True)
    slot = np.full(len(b.ends), -1, dtype=np.int64)
    slot[outer] = slots
    ends = np.stack([keys // count, keys % count], axis=1).astype(np.int64)
    table_offsets = offsets_of(counts[ends[:, 0]] * counts[ends[:, 1]])
    table = np.zeros(table_offsets[-1], dtype=np.int64)
    _add_costs(b.offsets, b.cost, step.root, step.map_offsets, step.label_map, offsets, cost)
    _add_tables(
        b.offsets,
        b.ends,
        b.table_offsets,
        b.table,
        step.root,
        step.map_offsets,
        step.label_map,
        slot,
        offsets,
        cost,
        table_offsets,
        table,
    )
    return cost, ends, table_offsets, table


def unchanged(labelling: Labelling) -> Contracted:
    """Return the merge that merges nothing."""
    starts = labelling.offsets
    own = np.arange(starts[-1]) - np.repeat(starts[:-1], labelling.counts)
    return Contracted(np.arange(len(labelling)), starts, own)


@compiled
def _add_costs(
    offsets: Integers,
    cost: Integers,
    root: Integers,
    map_offsets: Integers,
    label_map: Integers,
    new_offsets: Integers,
    new_cost: Integers,
) -> None:
    for i in range(len(root)):
        start = new_offsets[root[i]]
        for x in range(map_offsets[i + 1] - map_offsets[i]):
            add = cost[offsets[i] + label_map[map_offsets[i] + x]]
            old = new_cost[start + x]
            new_cost[start + x] = BAN if max(add, old) >= BAN else add + old


@compiled
def _add_tables(
    offsets: Integers,
    ends: Integers,
    table_offsets: Integers,
    table: Integers,
    root: Integers,
    map_offsets: Integers,
    label_map: Integers,
    slot: Integers,
    new_offsets: Integers,
    new_cost: Integers,
    new_table_offsets: Integers,
    new_table: Integers,
) -> None:
    for e in range(len(ends)):
        a, b = ends[e]
        width = offsets[b + 1] - offsets[b]
        first = label_map[map_offsets[a] : map_offsets[a + 1]]
        second = label_map[map_offsets[b] : map_offsets[b + 1]]
        if slot[e] < 0:
            start = new_offsets[root[a]]
            for x in range(len(first)):
                add = table[table_offsets[e] + first[x] * width + second[x]]
                old = new_cost[start + x]
                new_cost[start + x] = BAN if max(add, old) >= BAN else add + old
            continue
        start = new_table_offsets[slot[e]]
        forward = root[a] < root[b]
        for x in range(len(first)):
            row = table_offsets[e] + first[x] * width
            for y in range(len(second)):
                place = start + (x * len(second) + y if forward else y * len(first) + x)
                add, old = table[row + second[y]], new_table[place]
                new_table[place] = BAN if max(add, old) >= BAN else add + old
