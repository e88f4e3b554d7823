"""Checks proofs of infeasibility without floats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .compiled import CompiledModel

_SCALE = 2**40


def refutes(
    model: CompiledModel,
    multipliers: NDArray[np.float64],
    lower: Sequence[int],
    upper: Sequence[int],
) -> bool:
    """Return whether multipliers prove that no point of a box satisfies the rows.

    Rows ``A x <= b`` with multipliers y >= 0 add up to ``(y A) x <= y b``. Where the smallest value
    of the left side over the box lies above the right side, no x of the box satisfies them all
    (Farkas). Multipliers are rounded to multiples of 2^-40, negative ones to 0, and everything
    after that is exact: the argument holds for any y >= 0.

    Parameters
    ----------
    model
        Rows with upper sides only; entries and sides must be integers.
    multipliers : shape (num_rows,)
        From a solver, in any scale.
    lower, upper
        The box, one integer per column.

    Raises
    ------
    ValueError
        A row has a lower side, or a number is not an integer.
    """
    matrix = model.matrix
    if np.isfinite(model.row_lower).any():
        raise ValueError("found rows with a lower side, expected none")
    if (matrix.data != np.round(matrix.data)).any() or not _integers(model.row_upper):
        raise ValueError("found numbers that are not integers in the matrix or its sides")
    largest = float(np.max(multipliers, initial=0.0))
    if not np.isfinite(multipliers).all() or largest <= 0:
        return False
    weights = np.round(multipliers.clip(min=0.0) / largest * _SCALE).astype(np.int64)
    used = np.repeat(weights, np.diff(matrix.indptr)).astype(object)
    entries = matrix.data.astype(np.int64).astype(object)
    sums = np.zeros(model.num_columns, dtype=object)
    np.add.at(sums, matrix.indices, used * entries)
    right = sum((weights.astype(object) * model.row_upper.astype(np.int64).astype(object)).tolist())
    left = sum(
        total * (low if total > 0 else high)
        for total, low, high in zip(sums.tolist(), lower, upper, strict=True)
    )
    return bool(left > right)


def _integers(numbers: NDArray[np.float64]) -> bool:
    return bool(np.isfinite(numbers).all() and (numbers == np.round(numbers)).all())
