"""Moves tables that are a sum of a row part and a column part into operator costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from milp_plan.core.compiled import compiled
from milp_plan.core.sharding import offsets_of

from ..labelling import BAN, Flags, Integers, Labelling


def without_separable(labelling: Labelling) -> Labelling:
    """Move every separable table into the costs of its operators; labels do not change."""
    b = labelling
    cost = b.cost.copy()
    keep = _absorb(b.offsets, b.ends, b.table_offsets, b.table, cost)
    if keep.all():
        return b
    sizes = np.diff(b.table_offsets)
    return replace(
        b,
        cost=cost,
        ends=b.ends[keep],
        table_offsets=offsets_of(sizes[keep]),
        table=b.table[np.repeat(keep, sizes)],
    )


@compiled
def _absorb(
    offsets: Integers, ends: Integers, table_offsets: Integers, table: Integers, cost: Integers
) -> Flags:
    keep = np.zeros(len(ends), dtype=np.bool_)
    for e in range(len(ends)):
        a, b = ends[e]
        rows, width = offsets[a + 1] - offsets[a], offsets[b + 1] - offsets[b]
        start = table_offsets[e]
        corner = table[start]
        if corner >= BAN:
            keep[e] = True
            continue
        for x in range(rows):
            shift = table[start + x * width] - corner
            for y in range(width):
                entry = table[start + x * width + y]
                if entry >= BAN or entry - table[start + y] != shift:
                    keep[e] = True
                    break
            if keep[e]:
                break
        if not keep[e]:
            for x in range(rows):
                cost[offsets[a] + x] += table[start + x * width]
            for y in range(width):
                cost[offsets[b] + y] += table[start + y] - corner
    return keep
