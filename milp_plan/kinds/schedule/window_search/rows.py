"""Columns and rows of a small model, gathered as plain lists and packed once."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

import numpy as np

from milp_plan.lp import CompiledModel

Terms = Mapping[int, float]
"""Column -> coefficient; :data:`ONE` stands for the constant 1."""

ONE = -1

SURE: Terms = {ONE: 1.0}
"""The constant 1 as terms: a condition that is always true."""


Part = tuple[float, Terms]
"""A multiple of terms."""


class Clock(NamedTuple):
    """The unit of time of a model, in ticks, and the tick that is its time 0."""

    origin: int
    unit: float

    def at(self, ticks: int) -> float:
        """Return a moment in units."""
        return (ticks - self.origin) / self.unit


class Rows:
    """A model under construction."""

    def __init__(self) -> None:
        self.low: list[float] = []
        self.high: list[float] = []
        self.integer: list[int] = []
        self.names: list[tuple[str, int]] = []
        self._entries: list[float] = []
        self._columns: list[int] = []
        self._first = [0]
        self._lower: list[float] = []
        self._upper: list[float] = []
        self.families: list[str] = []

    def column(self, family: str, low: float, high: float, *, integer: bool = False) -> int:
        """Add a column and return its number."""
        self.low.append(low)
        self.high.append(high)
        self.integer.append(int(integer))
        self.names.append((family, len(self.names)))
        return len(self.low) - 1

    def bit(self, family: str) -> int:
        """Add a column that is 0 or 1 and return its number."""
        return self.column(family, 0.0, 1.0, integer=True)

    def row(self, family: str, lower: float, upper: float, *parts: Part) -> None:
        """Add ``lower <= sum of parts <= upper``."""
        constant = 0.0
        for factor, terms in parts:
            for column, entry in terms.items():
                if column == ONE:
                    constant += factor * entry
                else:
                    self._columns.append(column)
                    self._entries.append(factor * entry)
        self._first.append(len(self._columns))
        self._lower.append(lower - constant)
        self._upper.append(upper - constant)
        self.families.append(family)

    def at_least(self, family: str, *parts: Part) -> None:
        """Add ``sum of parts >= 0``."""
        self.row(family, 0.0, inf, *parts)

    def model(self, objective: int) -> CompiledModel:
        """Return the packed model, which minimises one column."""
        from scipy.sparse import csr_array

        cost = np.zeros(len(self.low))
        cost[objective] = 1.0
        shape = (len(self._lower), len(self.low))
        columns = np.array(self._columns, dtype=np.int32)
        first = np.array(self._first, dtype=np.int32)
        matrix = csr_array((np.array(self._entries), columns, first), shape=shape)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return CompiledModel(
            cost,
            0.0,
            matrix,
            np.array(self._lower),
            np.array(self._upper),
            np.array(self.low),
            np.array(self.high),
            np.array(self.integer, dtype=np.uint8),
            self.names,
            self.families,
        )


def total(*parts: Part) -> dict[int, float]:
    """Return the sum of multiples of terms."""
    terms_sum: dict[int, float] = {}
    for factor, terms in parts:
        for column, entry in terms.items():
            terms_sum[column] = terms_sum.get(column, 0.0) + factor * entry
    return terms_sum
