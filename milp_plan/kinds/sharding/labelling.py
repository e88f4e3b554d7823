"""Sharding problems as reductions and searches see them: labels, tables, rows of memory.

A *labelling* is a pairwise min-sum problem with knapsack rows (graphical models: MAP-MRF with
capacities). It differs from :class:`.sharding.ShardingProblem` in three ways: memory is counted at
*rows* (relevant instants), an operator may use memory in several *parts* (intervals of rows), as
merged operators do, and the least usage of every choice is already subtracted from the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

BAN = 2**62
"""Entry of a table for a pair that is not allowed; larger than any sum of costs."""


@dataclass(frozen=True, eq=False)
class Labelling:
    """Choose a label per operator: least cost, no row above its capacity.

    Parameters
    ----------
    offsets
        Shape (operators + 1,): labels of operator i are ``offsets[i]:offsets[i + 1]``.
    cost
        Shape (labels,).
    ends, table_offsets, table
        Edges: two operators each, the first the smaller, no pair twice; entries of edge e are
        ``table_offsets[e]:table_offsets[e + 1]``, row-major, ``BAN`` where not allowed.
    part_offsets, parts
        Parts of operator i are ``part_offsets[i]:part_offsets[i + 1]``: half-open intervals of
        rows, disjoint, ascending; shape (parts, 2).
    use_offsets, usage
        Usage of operator i from ``use_offsets[i]``: label-major, one entry per part; in bytes, at
        least 0, the smallest of each part 0.
    capacity
        Shape (rows,): bytes left for the usages.
    constant
        Cost of every choice in addition to the tables.
    """

    offsets: Integers
    cost: Integers
    ends: Integers
    table_offsets: Integers
    table: Integers
    part_offsets: Integers
    parts: Integers
    use_offsets: Integers
    usage: Integers
    capacity: Integers
    constant: int = 0

    def __post_init__(self) -> None:
        """Use one memory layout for all arrays: loops are compiled once per layout."""
        for entry in fields(self):
            if entry.name != "constant":
                array = getattr(self, entry.name)
                object.__setattr__(self, entry.name, np.ascontiguousarray(array, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> Integers:
        """Number of labels per operator."""
        return np.diff(self.offsets)

    @property
    def allowed(self) -> tuple[Flags, Flags]:
        """Flags of labels, and of entries of tables, that may be chosen."""
        return self.cost < BAN, self.table < BAN

    def value(self, labels: Integers) -> int | None:
        """Return the exact cost of a choice of labels; ``None`` if a pair of it is not allowed."""
        total = self.constant + int(self.cost[self.offsets[:-1] + labels].sum())
        if not len(self.ends):
            return total
        first, second = self.ends.T
        entry = self.table_offsets[:-1] + labels[first] * self.counts[second] + labels[second]
        pairs = self.table[entry]
        return None if pairs.max() >= BAN else total + int(pairs.sum())

    def load(self, labels: Integers) -> Integers:
        """Return the bytes in use at each row."""
        change = np.zeros(len(self.capacity) + 1, dtype=np.int64)
        owner = np.repeat(np.arange(len(self)), np.diff(self.part_offsets))
        width = np.diff(self.part_offsets)[owner]
        column = np.arange(len(owner)) - self.part_offsets[owner]
        used = self.usage[self.use_offsets[owner] + labels[owner] * width + column]
        np.add.at(change, self.parts[:, 0], used)
        np.add.at(change, self.parts[:, 1], -used)
        return np.asarray(change.cumsum()[:-1])
