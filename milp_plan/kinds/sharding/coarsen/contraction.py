"""Merges operators over functional tables: a label of one determines the label of the other."""

# ruff: noqa: PLR0917 (compiled loops over arrays)

from __future__ import annotations

from dataclasses import replace

import numpy as np

from milp_plan.core.compiled import compiled
from milp_plan.core.sharding import offsets_of

from ..labelling import BAN, Integers, Labelling
from .rebuild import regrouped, unchanged
from .steps import Contracted

GROWTH = 4
"""Largest factor by which a merge may enlarge the tables of the merged operator."""


def merged(labelling: Labelling) -> tuple[Labelling, Contracted] | None:
    """Merge operators over functional tables; ``None`` where there is nothing to merge.

    An operator goes into a neighbour with more labels (or as many, and a smaller number), whose
    labels each allow exactly one of its own. Its costs, tables and memory go along.
    """
    b = labelling
    if not len(b.ends):
        return None
    neighbours, edges, starts = adjacency(b)
    target, via = _targets(
        b.offsets, b.ends, b.table_offsets, b.table, starts, neighbours, edges, GROWTH
    )
    if (target < 0).all():
        return None
    final = target < 0
    number = np.cumsum(final) - 1
    root = _roots(target)
    counts = b.counts
    map_offsets = offsets_of(counts[root])
    label_map = np.empty(map_offsets[-1], dtype=np.int64)
    _maps(b.offsets, b.ends, b.table_offsets, b.table, target, via, map_offsets, label_map)
    step = Contracted(number[root], map_offsets, label_map)
    return contracted(b, step, counts[final]), step


def summed(labelling: Labelling) -> Labelling:
    """Sum parallel edges and turn every edge so that its first operator is the smaller."""
    return contracted(labelling, unchanged(labelling), labelling.counts)


def contracted(labelling: Labelling, step: Contracted, counts: Integers) -> Labelling:
    """Return the labelling after a merge."""
    b = labelling
    cost, ends, table_offsets, table = regrouped(b, step, counts)
    moved = len(counts) != len(b)
    smaller = replace(
        b,
        offsets=offsets_of(counts),
        cost=cost,
        ends=ends,
        table_offsets=table_offsets,
        table=table,
    )
    if not moved:
        return smaller
    return _joined(smaller, step)


def _joined(labelling: Labelling, step: Contracted) -> Labelling:
    """Add up the usages of the operators merged, over disjoint parts."""
    b, span = labelling, len(labelling.capacity) + 1
    count = len(b.offsets) - 1
    group = step.root[np.repeat(np.arange(len(step.root)), np.diff(b.part_offsets))]
    marks, places = np.unique(group[:, None] * span + b.parts, return_inverse=True)
    places = places.reshape(-1, 2)
    change = np.bincount(places[:, 0], minlength=len(marks))
    held = (change - np.bincount(places[:, 1], minlength=len(marks))).cumsum() > 0
    begins = np.flatnonzero(held)  # those of one operator end within it: it uses nothing after
    parts = np.stack([marks[begins] % span, marks[begins + 1] % span], axis=1)
    part_offsets = offsets_of(np.bincount(marks[begins] // span, minlength=count))
    use_offsets = offsets_of(np.diff(b.offsets) * np.diff(part_offsets))
    usage = np.zeros(use_offsets[-1], dtype=np.int64)
    columns = np.where(held, held.cumsum() - 1, -1)[places]
    _add_up(
        step.root, step.map_offsets, step.label_map, b.part_offsets, b.use_offsets, b.usage,
        columns, part_offsets, parts, use_offsets, usage,
    )  # fmt: skip
    return replace(b, part_offsets=part_offsets, parts=parts, use_offsets=use_offsets, usage=usage)


def adjacency(labelling: Labelling) -> tuple[Integers, Integers, Integers]:
    """Return neighbours, their edges, and where those of each operator begin."""
    ends, count = labelling.ends, len(labelling)
    owner = ends.ravel()
    order = np.argsort(owner, kind="stable")
    neighbours = ends[:, ::-1].ravel()[order]
    edges = np.repeat(np.arange(len(ends)), 2)[order]
    return neighbours, edges, offsets_of(np.bincount(owner, minlength=count))


@compiled
def _functional(table: Integers, rows: int, width: int, by_row: bool) -> bool:
    """Return whether each row (column) allows exactly one column (row)."""
    for x in range(rows if by_row else width):
        partners = 0
        for y in range(width if by_row else rows):
            place = x * width + y if by_row else y * width + x
            if table[place] < BAN:
                partners += 1
                if partners > 1:
                    return False
        if partners != 1:
            return False
    return True


@compiled
def _targets(
    offsets: Integers,
    ends: Integers,
    table_offsets: Integers,
    table: Integers,
    starts: Integers,
    neighbours: Integers,
    edges: Integers,
    growth: int,
) -> tuple[Integers, Integers]:
    """Choose the operator that each one joins, and the edge; -1 for those that stay."""
    count = len(offsets) - 1
    target = np.full(count, -1, dtype=np.int64)
    via = np.full(count, -1, dtype=np.int64)
    stays = np.zeros(count, dtype=np.bool_)
    for i in range(count):
        if stays[i]:
            continue
        own = offsets[i + 1] - offsets[i]
        size = 0
        for q in range(starts[i], starts[i + 1]):
            size += offsets[neighbours[q] + 1] - offsets[neighbours[q]]
        for q in range(starts[i], starts[i + 1]):
            j, e = neighbours[q], edges[q]
            other = offsets[j + 1] - offsets[j]
            if other < own or (other == own and j > i):
                continue
            if other > own:
                before, after = size * own, (size - other) * other
                if target[j] >= 0 or (after > growth * before and after > 4096):
                    continue
            part = table[table_offsets[e] : table_offsets[e + 1]]
            first = ends[e, 0] == i
            rows, width = (own, other) if first else (other, own)
            if not _functional(part, rows, width, not first):
                continue
            target[i], via[i] = j, e
            if other > own:
                stays[j] = True
            break
    return target, via


@compiled
def _roots(target: Integers) -> Integers:
    root = np.arange(len(target))
    for i in range(len(target)):
        j = i
        while target[j] >= 0:
            j = target[j]
            if j < i:
                j = root[j]
        root[i] = j
    return root


@compiled
def _maps(
    offsets: Integers,
    ends: Integers,
    table_offsets: Integers,
    table: Integers,
    target: Integers,
    via: Integers,
    map_offsets: Integers,
    label_map: Integers,
) -> None:
    """Write, for each label of the root, the label of each operator that joins it."""
    done = target < 0
    path = np.empty(len(target), dtype=np.int64)
    for i in range(len(target)):
        if done[i] and target[i] < 0:
            for x in range(offsets[i + 1] - offsets[i]):
                label_map[map_offsets[i] + x] = x
    for i in range(len(target)):
        length, j = 0, i
        while not done[j]:
            path[length] = j
            length += 1
            j = target[j]
        while length:
            length -= 1
            j = path[length]
            to, e = target[j], via[j]
            own, other = offsets[j + 1] - offsets[j], offsets[to + 1] - offsets[to]
            for x in range(map_offsets[j + 1] - map_offsets[j]):
                partner = label_map[map_offsets[to] + x]
                for y in range(own):
                    at = y * other + partner if ends[e, 0] == j else partner * own + y
                    if table[table_offsets[e] + at] < BAN:
                        label_map[map_offsets[j] + x] = y
                        break
            done[j] = True


@compiled
def _add_up(
    root: Integers,
    map_offsets: Integers,
    label_map: Integers,
    part_offsets: Integers,
    use_offsets: Integers,
    usage: Integers,
    columns: Integers,
    new_part_offsets: Integers,
    new_parts: Integers,
    new_use_offsets: Integers,
    out: Integers,
) -> None:
    """Write usages as differences at the ends of parts; then accumulate them."""
    for i in range(len(root)):
        g = root[i]
        wide = part_offsets[i + 1] - part_offsets[i]
        width = new_part_offsets[g + 1] - new_part_offsets[g]
        for x in range(map_offsets[i + 1] - map_offsets[i]):
            own = use_offsets[i] + label_map[map_offsets[i] + x] * wide
            to = new_use_offsets[g] + x * width - new_part_offsets[g]
            for p in range(wide):
                begin, end = columns[part_offsets[i] + p]
                if begin >= 0:
                    out[to + begin] += usage[own + p]
                if end >= 0:
                    out[to + end] -= usage[own + p]
    for g in range(len(new_part_offsets) - 1):
        width = new_part_offsets[g + 1] - new_part_offsets[g]
        for k in range(1, width):
            part = new_part_offsets[g] + k
            if new_parts[part, 0] == new_parts[part - 1, 1]:
                for at in range(new_use_offsets[g] + k, new_use_offsets[g + 1], width):
                    out[at] += out[at - 1]
