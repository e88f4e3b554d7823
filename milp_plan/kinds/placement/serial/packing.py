"""Lists of lists as pointers and entries, for compiled loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .graph import Floats
from .operators import Ints, OperatorTables


def ragged(lists: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Return lists of numbers as pointers and entries."""
    pointers = np.zeros(len(lists) + 1, dtype=np.int64)
    pointers[1:] = np.cumsum([len(entry) for entry in lists])
    entries = np.array([number for entry in lists for number in entry], dtype=np.int64)
    return pointers, entries


def packed(tables: OperatorTables) -> tuple[Floats, Ints, Ints, Ints, Ints, Ints, Ints]:
    """Values: cost, source, number of readers; (pointers, entries) made by and read by each."""
    read: list[list[int]] = [[] for _ in range(len(tables))]
    for number, value in enumerate(tables.values):
        for reader in value.readers:
            read[reader].append(number)
    source = np.array([value.source for value in tables.values], dtype=np.int64)
    count = np.array([len(value.readers) for value in tables.values], dtype=np.int64)
    return (tables.float_costs, source, count, *ragged(tables.made_by), *ragged(read))
