"""Builds compiled models column by column and row by row, without an object per row."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from math import inf
from typing import Any

import numpy as np

from .compiled import CompiledModel
from .ranges import LARGEST

Name = tuple[str, Hashable]
"""Family and index of a column."""

Term = tuple[Name | None, float]
"""A column, or ``None`` for the constant 1, and its coefficient."""


class Tableau:
    """Columns by name, rows as sums of terms; minimise the columns' costs.

    Attributes
    ----------
    places
        Number of each column, by name.
    """

    def __init__(self) -> None:
        self.places: dict[Name, int] = {}
        self._cost: list[float] = []
        self._upper: list[float] = []
        self._integer: list[bool] = []
        self._entries: list[tuple[int, int, float]] = []
        self._low: list[float] = []
        self._high: list[float] = []
        self._families: list[str] = []

    def __contains__(self, name: Name | None) -> bool:
        return name in self.places

    def column(
        self, name: Name, cost: float = 0.0, *, upper: float = 1.0, integer: bool = True
    ) -> None:
        """Add a column from 0 to ``upper``."""
        self.places[name] = len(self._cost)
        self._cost.append(cost)
        self._upper.append(upper)
        self._integer.append(integer)

    def row(self, family: str, terms: Iterable[Term], low: float = -inf, high: float = inf) -> None:
        """Add a row ``low <= terms <= high``; constant terms move to its sides."""
        number, constant = len(self._low), 0.0
        for name, factor in terms:
            if name is None:
                constant += factor
            else:
                self._entries.append((number, self.places[name], factor))
        self._low.append(low - constant)
        self._high.append(high - constant)
        self._families.append(family)

    def cost_row(self, family: str, most: float) -> None:
        """Add a row: the objective is at most a value.

        Where costs are beyond what tolerances hold, by a power of two: that rounds nothing.
        """
        largest = max([abs(most), *map(abs, self._cost)], default=0.0)
        share = 1.0
        while largest * share > LARGEST:
            share /= 2
        terms = [(name, self._cost[place] * share) for name, place in self.places.items()]
        self.row(family, [term for term in terms if term[1]], -inf, most * share)

    def compiled(self) -> CompiledModel:
        """Return the compiled model."""
        from scipy.sparse import csr_array

        rows, columns, factors = zip(*self._entries, strict=True) if self._entries else ((),) * 3
        shape = (len(self._low), len(self._cost))
        entries = (np.array(factors, float), (np.array(rows, int), np.array(columns, int)))
        matrix: Any = csr_array(entries, shape=shape)
        return CompiledModel(
            cost=np.array(self._cost, float),
            offset=0.0,
            matrix=matrix,
            row_lower=np.array(self._low, float),
            row_upper=np.array(self._high, float),
            column_lower=np.zeros(len(self._cost)),
            column_upper=np.array(self._upper, float),
            integrality=np.array(self._integer, np.uint8),
            columns=list(self.places),
            row_families=self._families,
        )
