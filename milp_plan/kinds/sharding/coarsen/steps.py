"""Steps back: turn a choice of labels for the smaller problem into one for the larger."""

# ruff: noqa: PLR0917 (compiled loops over arrays)

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from milp_plan.core.compiled import compiled

from ..labelling import BAN, Flags, Integers, Labelling


class Undo(Protocol):
    """Undoes one exact step."""

    def lift(self, labels: Integers) -> Integers:
        """Return labels of the problem before the step."""
        ...


@dataclass(frozen=True, eq=False)
class Relabelled:
    """Labels removed: ``kept`` holds the old number of each label that stayed."""

    offsets: Integers
    kept: Integers

    def lift(self, labels: Integers) -> Integers:
        """Return the old numbers."""
        return np.asarray(self.kept[self.offsets[:-1] + labels])


@dataclass(frozen=True, eq=False)
class Contracted:
    """Operators merged: labels of each follow from those of the operator it went into.

    Parameters
    ----------
    root
        New number of the operator that each one joined.
    map_offsets, label_map
        The operator's own label for each label of the joined operator.
    """

    root: Integers
    map_offsets: Integers
    label_map: Integers

    def lift(self, labels: Integers) -> Integers:
        """Return labels of the operators before the merge."""
        return np.asarray(self.label_map[self.map_offsets[:-1] + labels[self.root]])


@dataclass(frozen=True, eq=False)
class EliminatedOperator:
    """Operators without memory eliminated: each takes its best label given its neighbours'.

    Parameters
    ----------
    before
        The problem before the step: its labels, and the edges of eliminated operators.
    gone
        Flags of the eliminated operators; no two of them are neighbours.
    """

    before: Labelling
    gone: Flags

    def lift(self, labels: Integers) -> Integers:
        """Choose best labels; the others do not change."""
        old = np.zeros(len(self.gone), dtype=np.int64)
        old[~self.gone] = labels
        b = self.before
        _best_labels(b.offsets, b.cost, b.ends, b.table_offsets, b.table, self.gone, old)
        return old


@compiled
def _best_labels(
    offsets: Integers,
    cost: Integers,
    ends: Integers,
    table_offsets: Integers,
    table: Integers,
    gone: Flags,
    labels: Integers,
) -> None:
    total = cost.copy()
    for e in range(len(ends)):
        a, b = ends[e]
        width = offsets[b + 1] - offsets[b]
        if gone[a]:
            for x in range(offsets[a + 1] - offsets[a]):
                entry = table[table_offsets[e] + x * width + labels[b]]
                place = offsets[a] + x
                total[place] = BAN if max(entry, total[place]) >= BAN else total[place] + entry
        elif gone[b]:
            for y in range(width):
                entry = table[table_offsets[e] + labels[a] * width + y]
                place = offsets[b] + y
                total[place] = BAN if max(entry, total[place]) >= BAN else total[place] + entry
    for i in range(len(gone)):
        if gone[i]:
            labels[i] = np.argmin(total[offsets[i] : offsets[i + 1]])
