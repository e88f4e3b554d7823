"""Rows that state exactly what floats cannot: sets of labels that overflow memory together.

A solver accepts a row of memory within a billionth of its size. Where bytes have no common divisor,
a plan that exceeds it by a few may pass. Then its overflowing labels are a *cover*: not all
of them can be chosen. Covers have small integer entries, which a solver cannot get wrong.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from milp_plan.lp import CompiledModel

from .labelling import Integers, Labelling

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Cover = list[tuple[tuple[int, int], ...]]
"""Labels of each operator, as (operator, label), that use no less than the overflowing one."""


def broken_covers(labelling: Labelling, labels: Integers) -> list[Cover]:
    """Return a minimal cover for each row that a choice overflows; exact."""
    over = np.flatnonzero(labelling.load(labels) > labelling.capacity)
    return [_cover(labelling, labels, int(row)) for row in over]


def _cover(labelling: Labelling, labels: Integers, row: int) -> Cover:
    b = labelling
    used: list[tuple[int, int, Integers]] = []
    owner = np.repeat(np.arange(len(b)), np.diff(b.part_offsets))
    for part in np.flatnonzero((b.parts[:, 0] <= row) & (row < b.parts[:, 1])).tolist():
        operator = int(owner[part])
        width = int(b.part_offsets[operator + 1] - b.part_offsets[operator])
        table = b.usage[b.use_offsets[operator] : b.use_offsets[operator + 1]].reshape(-1, width)
        column = table[:, part - int(b.part_offsets[operator])]
        used.append((int(column[labels[operator]]), operator, column))
    used.sort(key=lambda entry: (-entry[0], entry[1]))
    room, cover = int(b.capacity[row]), []
    for amount, operator, column in used:  # the largest ones overflow with the fewest
        room -= amount
        cover.append(tuple((operator, int(n)) for n in np.flatnonzero(column >= amount)))
        if room < 0:
            break
    return cover


def with_covers(model: CompiledModel, covers: Sequence[Cover]) -> CompiledModel:
    """Add a row per cover: at least one of its operators takes a label that uses less.

    Raises
    ------
    KeyError
        The model has no columns ``x[operator, label]``.
    """
    from scipy.sparse import csr_array, vstack

    number: dict[Hashable, int] = {
        index: place for place, (family, index) in enumerate(model.columns) if family == "x"
    }
    rows: list[csr_array[Any, tuple[int, int]]] = []
    for cover in covers:
        if not any(entry in number for group in cover for entry in group):
            raise KeyError("x")
        columns = [number[entry] for group in cover for entry in group if entry in number]
        zeros = np.zeros(len(columns), dtype=np.int64)
        entries = (np.ones(len(columns)), (zeros, np.array(columns)))
        rows.append(csr_array(entries, shape=(1, model.num_columns)))
    most = np.array([len(cover) - 1.0 for cover in covers])
    return replace(
        model,
        matrix=csr_array(vstack([model.matrix, *rows], format="csr")),
        row_lower=np.concatenate([model.row_lower, np.full(len(covers), -np.inf)]),
        row_upper=np.concatenate([model.row_upper, most]),
        row_families=[*model.row_families, *["cover"] * len(covers)],
    )
