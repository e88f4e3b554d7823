"""Removes labels that another label of the same operator dominates for all neighbours."""

# ruff: noqa: PLR0917 (compiled loops over arrays)

from __future__ import annotations

import numpy as np

from milp_plan.core.compiled import compiled

from ..labelling import BAN, Flags, Integers, Labelling
from .contraction import adjacency


def undominated(labelling: Labelling) -> Flags:
    """Return the labels that stay.

    Goldstein's criterion of dead-end elimination (Biophysical Journal 66, 1994) with memory: a
    label goes if another costs at most as much for every choice of the neighbours and uses at most
    as much of every row. Of identical labels the first stays.
    """
    b = labelling
    neighbours, edges, starts = adjacency(b)
    alive = np.ones(len(b.cost), dtype=bool)
    _sweep(
        b.offsets,
        b.cost,
        b.ends,
        b.table_offsets,
        b.table,
        starts,
        neighbours,
        edges,
        np.diff(b.part_offsets),
        b.use_offsets,
        b.usage,
        alive,
    )
    return alive


@compiled
def _sweep(
    offsets: Integers,
    cost: Integers,
    ends: Integers,
    table_offsets: Integers,
    table: Integers,
    starts: Integers,
    neighbours: Integers,
    edges: Integers,
    widths: Integers,
    use_offsets: Integers,
    usage: Integers,
    alive: Flags,
) -> None:
    for i in range(len(offsets) - 1):
        labels = offsets[i + 1] - offsets[i]
        width = widths[i]
        for a in range(labels):
            for b in range(labels):
                if a == b or not alive[offsets[i] + b]:
                    continue
                fits = True
                for p in range(width):
                    used = usage[use_offsets[i] + a * width + p]
                    if usage[use_offsets[i] + b * width + p] > used:
                        fits = False
                        break
                if not fits:
                    continue
                if _beats(
                    offsets, cost, ends, table_offsets, table, starts, neighbours, edges, alive,
                    i, a, b,
                ):  # fmt: skip
                    alive[offsets[i] + a] = False
                    break


@compiled
def _beats(
    offsets: Integers,
    cost: Integers,
    ends: Integers,
    table_offsets: Integers,
    table: Integers,
    starts: Integers,
    neighbours: Integers,
    edges: Integers,
    alive: Flags,
    i: int,
    a: int,
    b: int,
) -> bool:
    """Return whether label b never costs more than label a."""
    saved = cost[offsets[i] + a] - cost[offsets[i] + b]
    labels = offsets[i + 1] - offsets[i]
    for q in range(starts[i], starts[i + 1]):
        j, e = neighbours[q], edges[q]
        width = offsets[j + 1] - offsets[j]
        if ends[e, 0] == i:
            base_a, base_b, step = a * width, b * width, 1
        else:
            base_a, base_b, step = a, b, labels
        least = BAN
        for y in range(width):
            if not alive[offsets[j] + y]:
                continue
            with_a = table[table_offsets[e] + base_a + y * step]
            if with_a >= BAN:
                continue
            with_b = table[table_offsets[e] + base_b + y * step]
            if with_b >= BAN:
                return False
            least = min(least, with_a - with_b)
        if least >= BAN:
            return True  # label a has no allowed partner here
        saved += least
    return bool(saved >= 0)
