"""Shares of choices and prices of rows, by a linear relaxation that grows row by row.

The one place where bounds ask a solver: HiGHS, in this process, for prices that whoever asks
rounds and evaluates in exact integers, so that nothing it says is believed. SciPy's door to the
same solver loads for a quarter of a second.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from highspy import Highs, HighsModelStatus, kHighsInf
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]

_ONE_AT_A_TIME = Lock()


def _silent_solver(**options: bool | int | str) -> Highs:
    """Return a solver on one thread that prints nothing, not even when the first one is made."""
    with _ONE_AT_A_TIME:
        _print_banner_nowhere()
    highs = Highs()
    for name, setting in {"output_flag": False, "threads": 1, "parallel": "off", **options}.items():
        highs.setOptionValue(name, setting)
    return highs


@cache
def _print_banner_nowhere() -> None:
    """Make a first solver while the standard output of the process leads nowhere.

    HiGHS 1.16 prints a banner then, before any option can be set; after it, what is read from
    ``--json`` would be no JSON.
    """
    try:
        output = os.dup(1)
    except OSError:  # there is no standard output
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        Highs()
    finally:
        os.dup2(output, 1)
        os.close(output)
        os.close(nowhere)


class Prices:
    """Linear programme: minimise T, where the shares of each group's choices add up to one.

    Parameters
    ----------
    group : shape (num_choices,)
        Group of each choice; the choices of a group follow each other.
    """

    def __init__(self, group: NDArray[np.intp]) -> None:
        self._highs, self._num_groups = _silent_solver(), 0
        count = len(group)
        self._columns = np.arange(count + 1, dtype=np.int32)
        self._highs.addVars(count + 1, np.zeros(count + 1), np.full(count + 1, kHighsInf))
        self._highs.changeColCost(count, 1.0)
        for own in np.split(self._columns[:-1], np.flatnonzero(np.diff(group)) + 1):
            self._highs.addRow(1.0, 1.0, len(own), own, np.ones(len(own)))
            self._num_groups += 1

    def add(self, own: float, costs: Reals) -> None:
        """Add a row: T is at least a constant plus the costs of the taken choices."""
        entries = np.append(-costs, 1.0)
        nonzero = np.flatnonzero(entries)
        self._highs.addRow(own, kHighsInf, len(nonzero), self._columns[nonzero], entries[nonzero])

    def solve(self) -> tuple[Reals, Reals, float] | None:
        """Return the share of each choice, the price of each added row, and T.

        Begins where the last call ended; ``None`` if the solver has no answer.
        """
        self._highs.run()
        if self._highs.getModelStatus() != HighsModelStatus.kOptimal:
            return None
        solution = self._highs.getSolution()
        shares, prices = np.array(solution.col_value), np.array(solution.row_dual)
        return shares[:-1], np.maximum(0.0, prices[self._num_groups :]), float(shares[-1])


class Covers:
    """Linear programme: minimise T, where patterns of pools cover the needs of groups' choices.

    Each group takes shares of its choices that add up to its count; every row holds as much of
    patterns as choices need of it, and the patterns of a pool together are at most T times its
    devices.

    Parameters
    ----------
    counts : shape (num_groups,)
        Members of each group.
    choices : shape (3, num_choices)
        Group, row and amount of each.
    devices : shape (num_pools,)
        Of each pool.
    num_rows
        Rows; patterns may come later.
    """

    def __init__(
        self, counts: Integers, choices: Integers, devices: Integers, num_rows: int
    ) -> None:
        self._highs, self._num_rows = _silent_solver(presolve="off"), num_rows
        self._choices = choices.shape[1]
        self._pools = num_rows + np.arange(len(devices), dtype=np.int32)
        needed = np.concatenate([np.zeros(num_rows + len(devices)), counts])
        none = (0, np.zeros(len(needed), np.int32), np.zeros(0, np.int32), np.zeros(0))
        self._highs.addRows(len(needed), needed, np.full(len(needed), kHighsInf), *none)
        self._add(1.0, self._pools, devices)
        first = num_rows + len(devices)
        for own, place, count in choices.T:
            self._add(0.0, np.array([place, first + own]), np.array([-count, 1]))

    def _add(self, cost: float, rows: NDArray[Any], entries: NDArray[Any]) -> None:
        place, entry = rows.astype(np.int32), entries.astype(float)
        self._highs.addCol(cost, 0.0, kHighsInf, len(place), place, entry)

    def add(self, pool: int, rows: Sequence[int], amounts: Sequence[int]) -> None:
        """Add a pattern of a pool: an amount of each row."""
        places = np.array([*rows, self._pools[pool]])
        self._add(0.0, places, np.array([*amounts, -1]))

    def solve(self, limit_s: float) -> tuple[Reals, Reals, Reals, float] | None:
        """Return shares of choices, prices of rows and pools, and T; ``None`` without an answer."""
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + limit_s)
        self._highs.run()
        if self._highs.getModelStatus() != HighsModelStatus.kOptimal:
            return None
        solution = self._highs.getSolution()
        shares, prices = np.array(solution.col_value), np.maximum(0.0, np.array(solution.row_dual))
        rows, pools = prices[: self._num_rows], prices[self._pools]
        return shares[1 : 1 + self._choices], rows, pools, float(shares[0])


class SetCover:
    """Linear programme: cover all classes with sets, with a maximum per kind, near given prices.

    The dual of: prices of classes, none further from the centre than its reach, that are together
    as far as possible above the most expensive sets of each kind that are known so far.

    Parameters
    ----------
    count
        Classes.
    kinds
        Maximum number of sets of each kind.
    """

    def __init__(self, count: int, kinds: tuple[int, ...]) -> None:
        self._highs, self._count = _silent_solver(), count
        empty, none = np.array([], dtype=np.int32), np.array([])
        for _ in range(count):
            self._highs.addRow(1.0, 1.0, 0, empty, none)
        for many in kinds:
            self._highs.addRow(-kHighsInf, float(many), 0, empty, none)
        self._over = float(sum(kinds))
        for sign, most in ((1.0, 1.0), (-1.0, self._over)):
            for row in range(count):
                self._highs.addCol(0.0, 0.0, most, 1, np.array([row], np.int32), np.array([sign]))

    def around(self, centre: Reals, reach: Reals) -> None:
        """Restrict prices to a distance from a centre."""
        columns = np.arange(2 * self._count, dtype=np.int32)
        costs = np.concatenate((centre + reach, reach - centre))
        self._highs.changeColsCost(len(columns), columns, costs)

    def add(self, members: NDArray[np.intp], kind: int) -> None:
        """Add a set."""
        rows = np.append(members, self._count + kind).astype(np.int32)
        self._highs.addCol(0.0, 0.0, kHighsInf, len(rows), rows, np.ones(len(rows)))

    def allow(self, number: int, allowed: bool) -> None:
        """Remove the set with a number, or add it again."""
        column = 2 * self._count + number
        self._highs.changeColBounds(column, 0.0, kHighsInf if allowed else 0.0)

    def solve(self) -> tuple[Reals, float] | None:
        """Return prices and their distance from the centre; ``None`` if the solver has no answer.

        Begins where the last call ended.
        """
        self._highs.run()
        if self._highs.getModelStatus() != HighsModelStatus.kOptimal:
            return None
        prices = np.array(self._highs.getSolution().row_dual)[: self._count]
        return prices, float(self._highs.getInfo().objective_function_value)
