"""The matrix form of a model, which is the input of backends."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Values = dict[str, dict[Any, float]]
"""Variable family -> index -> value: solutions as formulations encode and decode them."""


@dataclass(frozen=True)
class CompiledModel:
    """Minimise ``cost @ x + offset`` subject to row and column bounds.

    Parameters
    ----------
    cost, column_lower, column_upper : shape (num_columns,), float64
        Infinite where unbounded.
    integrality : shape (num_columns,), uint8
        1 where the column must be an integer.
    matrix : CSR, shape (num_rows, num_columns), float64
        Rows.
    row_lower, row_upper : shape (num_rows,), float64
        Infinite where unbounded.
    columns
        (family, index) of each column.
    row_families
        Family of each row.
    idle
        Variables that no row and no cost mentions, with a value that each may take: they are no
        columns, but whoever decodes is given them like the others.
    """

    cost: NDArray[np.float64]
    offset: float
    matrix: csr_array[Any, tuple[int, int]]
    row_lower: NDArray[np.float64]
    row_upper: NDArray[np.float64]
    column_lower: NDArray[np.float64]
    column_upper: NDArray[np.float64]
    integrality: NDArray[np.uint8]
    columns: Sequence[tuple[str, Hashable]]
    row_families: Sequence[str]
    idle: Sequence[tuple[str, Hashable, float]] = ()

    @property
    def num_columns(self) -> int:
        """Number of variables."""
        return int(self.cost.shape[0])

    @property
    def num_rows(self) -> int:
        """Number of constraints."""
        return int(self.row_lower.shape[0])

    @property
    def content_hash(self) -> str:
        """SHA-256 of all numbers of the model, in order; names do not count."""
        digest = hashlib.sha256()
        arrays: list[NDArray[Any]] = [
            self.cost,
            np.array([self.offset]),
            self.matrix.indptr.astype(np.int64),
            self.matrix.indices.astype(np.int64),
            self.matrix.data,
            self.row_lower,
            self.row_upper,
            self.column_lower,
            self.column_upper,
            self.integrality,
        ]
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    @property
    def falling(self) -> list[int]:
        """Columns whose bounds do not keep the objective from falling without end."""
        best = np.where(self.cost > 0, self.column_lower, self.column_upper)
        return np.flatnonzero((self.cost != 0) & ~np.isfinite(best)).tolist()

    def column_text(self, place: int) -> str:
        """Return the text of a column."""
        family, index = self.columns[place]
        return f"column {family}[{index}]"

    def relaxed(self) -> CompiledModel:
        """Return the linear relaxation."""
        return replace(self, integrality=np.zeros_like(self.integrality))

    def families(self) -> dict[str, int]:
        """Row family -> number of rows, in order of first appearance."""
        counts: dict[str, int] = {}
        for family in self.row_families:
            counts[family] = counts.get(family, 0) + 1
        return counts

    def name_values(self, vector: NDArray[np.float64]) -> Values:
        """Return a solution vector, shape (num_columns,), by families, with idle variables."""
        named: Values = {}
        for family, index, number in self.idle:
            named.setdefault(family, {})[index] = number
        for (family, index), number in zip(self.columns, vector.tolist(), strict=True):
            named.setdefault(family, {})[index] = number
        return named

    def vector(self, values: Values) -> NDArray[np.float64]:
        """Return the solution vector of named values; the inverse of :meth:`name_values`.

        Raises
        ------
        KeyError
            A column has no value: only complete starts are passed on.
        """
        return np.array([values[family][index] for family, index in self.columns], dtype=float)

    def violation(self, vector: NDArray[np.float64]) -> tuple[float, str]:
        """Return the largest violation of a row, column bound or integrality, and its place."""
        activity = self.matrix @ vector
        rows = np.maximum(self.row_lower - activity, activity - self.row_upper)
        bounds = np.maximum(self.column_lower - vector, vector - self.column_upper)
        fractions = np.where(self.integrality == 1, np.abs(vector - np.round(vector)), 0.0)
        columns = np.maximum(bounds, fractions)
        worst_row = float(rows.max(initial=0.0))
        worst_column = float(columns.max(initial=0.0))
        if worst_row >= worst_column and rows.size:
            return worst_row, f"row of family {self.row_families[int(rows.argmax())]}"
        if columns.size:
            family, index = self.columns[int(columns.argmax())]
            return worst_column, f"column {family}[{index}]"
        return 0.0, "nothing"
