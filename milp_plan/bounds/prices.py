"""Shares of choices and prices of rows, by a linear relaxation that grows row by row.

The one place where bounds ask a solver: HiGHS, in this process, for prices that whoever asks
rounds and evaluates in exact integers, so that nothing it says is believed. SciPy's door to the
same solver loads for a quarter of a second.
"""

from __future__ import annotations

import numpy as np
from highspy import Highs, HighsModelStatus, kHighsInf
from numpy.typing import NDArray

Reals = NDArray[np.float64]


class Prices:
    """Minimise T, where each group takes shares of its choices that add up to one.

    Parameters
    ----------
    group : shape (num_choices,)
        Group of each choice; the choices of a group follow each other.
    """

    def __init__(self, group: NDArray[np.intp]) -> None:
        self._highs, self._num_groups = Highs(), 0
        for name, setting in {"output_flag": False, "threads": 1, "parallel": "off"}.items():
            self._highs.setOptionValue(name, setting)
        count = len(group)
        self._columns = np.arange(count + 1, dtype=np.int32)
        self._highs.addVars(count + 1, np.zeros(count + 1), np.full(count + 1, kHighsInf))
        self._highs.changeColCost(count, 1.0)
        for own in np.split(self._columns[:-1], np.flatnonzero(np.diff(group)) + 1):
            self._highs.addRow(1.0, 1.0, len(own), own, np.ones(len(own)))
            self._num_groups += 1

    def add(self, own: float, costs: Reals) -> None:
        """T is at least a number of the row's own and the costs of the choices that are taken."""
        entries = np.append(-costs, 1.0)
        kept = np.flatnonzero(entries)
        self._highs.addRow(own, kHighsInf, len(kept), self._columns[kept], entries[kept])

    def solve(self) -> tuple[Reals, Reals, float] | None:
        """Share of each choice, price of each row that was added, and T.

        Begins where the last call ended; ``None`` if the solver has no answer.
        """
        self._highs.run()
        if self._highs.getModelStatus() != HighsModelStatus.kOptimal:
            return None
        found = self._highs.getSolution()
        shares, prices = np.array(found.col_value), np.array(found.row_dual)
        return shares[:-1], np.maximum(0.0, prices[self._num_groups :]), float(shares[-1])
