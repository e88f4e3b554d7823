"""Paths and work together, where operators can be fast or cheap but not both.

A path alone takes every operator at its fastest, work alone at its cheapest. On process groups the
fastest way costs more device time, on clusters of two classes the fast devices are few; and all
operators of a colocation group share one site, so that a group that is to be fast on the way out
costs more on the way back.

Proof. A plan chooses one type of sites for each colocation group. For any operators x and y let S
be what lies strictly between them. Along any path to x and any path from y, times add up, and in
between every operator of S takes part of the time of its devices; so for each colour of devices, n
of which there are,

    n T >= n (path to the stop of x + path from the start of y) + work of S on this colour,

and T is at least each whole path. Each operator needs at least the duration of its fastest option
on the chosen type, each edge its least time. So each of these rows is linear in the choice: a
number of its own and one for each group and type. Multiply row k by any m_k >= 0 and add up: the
sum of m_k n_k, times T, is at least the sum of the rows' own numbers plus, for each group, the
least over its types of what the rows say. This is evaluated in exact integers. The rows are those
that a linear relaxation of the choice violates most, and the m_k are its multipliers, rounded.
Transfers and memory only add to a plan, so this holds under every communication model.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import ceil_div
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget

from .frame import Frame
from .view import View

LARGEST = 1000
"""Most operators for which many products of reachability matrices are fast enough."""
_ROUNDS = 24
_ENOUGH = 1e-4
"""Largest relative violation after which there is no further round."""
_PRECISION = 10**6
_MOST_CHOICES = 20_000

Reals = NDArray[np.float64]


class _Row(NamedTuple):
    """``devices`` times T is at least ``ticks``, plus what operators take on the way or as work."""

    devices: int
    ticks: int
    way: tuple[int, ...]
    work: NDArray[np.intp]
    colour: int


class _Choices:
    """Types of sites of each group, and what operators take there."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        unit: list[int] = []
        self.site: list[int] = []
        for number, members in enumerate(frame.units):
            if members:
                for site in sorted({state.site for state in frame.states[members[0]]}):
                    unit.append(number)
                    self.site.append(site)
        self.unit = np.array(unit, dtype=np.intp)
        self.starts = np.flatnonzero(np.diff(self.unit, prepend=-1))
        place = {pair: at for at, pair in enumerate(zip(unit, self.site, strict=True))}
        self.ticks: list[dict[int, int]] = []
        for number, states in enumerate(frame.states):
            result: dict[int, int] = {}
            for state in states:
                at = place[frame.unit[number], state.site]
                result[at] = min(state.duration, result.get(at, state.duration))
            self.ticks.append(result)
        colours = len(frame.terrain.count)
        self.gang = np.zeros((colours, len(unit)), dtype=np.int64)
        for at, site in enumerate(self.site):
            for colour in frame.types[site].colours:
                self.gang[colour, at] += 1

    def __len__(self) -> int:
        return len(self.unit)

    @property
    def differ(self) -> bool:
        """Whether some operator is not equally fast and cheap everywhere."""
        for entry in self.ticks:
            costs = {(ticks, *self.gang[:, at].tolist()) for at, ticks in entry.items()}
            if len(costs) > 1:
                return True
        return False

    def costs(self, row: _Row) -> list[int]:
        """Return what a row says of each choice."""
        result = [0] * len(self)
        for v in row.way:
            for at, ticks in self.ticks[v].items():
                result[at] += row.devices * ticks
        gang = self.gang[row.colour].tolist()
        for v in row.work.tolist():
            for at, ticks in self.ticks[v].items():
                result[at] += gang[at] * ticks
        return result


def choice_bound(frame: Frame, budget: Budget) -> Bound | None:
    """Return the paths and work by choice of sites; ``None`` where there is no such choice.

    Raises
    ------
    OutOfTime
        The budget passed.
    """
    if len(frame.names) > LARGEST:
        return None
    choices = _Choices(frame)
    if len(choices) > _MOST_CHOICES or not choices.differ:
        return None
    value, rows = _Relaxation(frame, choices, budget).solve()
    return Bound("paths and work", value, f"{rows} paths and loads at their best prices")


class _Relaxation:
    """The linear relaxation of the choice, by rows that it violates."""

    def __init__(self, frame: Frame, choices: _Choices, budget: Budget) -> None:
        from scipy.sparse import csr_array

        self.frame, self.choices, self.budget = frame, choices, budget
        self.view = View(frame, False, tick=1)
        self.links = [
            [(b, self.view.least_link(edge)) for b, edge in self.view.after[a]]
            for a in range(self.view.size)
        ]
        rows, columns, entries = [], [], []
        for v, entry in enumerate(choices.ticks):
            for at, ticks in entry.items():
                rows.append(v)
                columns.append(at)
                entries.append(float(ticks))
        shape = (self.view.size, len(choices))
        self.matrix = csr_array((entries, (rows, columns)), shape=shape)
        self.scale = max(1.0, float(sum(frame.least_duration)))
        self.strict = _reach(self.links)
        self.rows: list[_Row] = []
        self.costs: list[list[int]] = []
        from milp_plan.lp.prices import Prices  # loads the solver

        self.prices = Prices(choices.unit)

    def solve(self) -> tuple[int, int]:
        """Return the best value found, and how many rows it takes."""
        share = 1.0 / np.bincount(self.choices.unit)[self.choices.unit]
        best, count, value = 0, 0, 0.0
        for _ in range(_ROUNDS):
            self.budget.check()
            if not self._add(share, value):
                break
            result = self.prices.solve()
            if result is None:
                break
            share, prices, value = result[0], result[1], result[2] * self.scale
            exact = self._exact(prices)
            if exact > best:
                best, count = exact, int((prices > 0).sum())
        return best, count

    def _add(self, share: Reals, value: float) -> bool:
        """Add the rows that shares of choices violate most."""
        ticks = np.asarray(self.matrix @ share)
        head, before = self._longest(ticks, backward=False)
        tail, after = self._longest(ticks, backward=True)
        least = value + _ENOUGH * max(value, 1.0)
        result = [(float((head + tail - ticks).max()), int((head + tail - ticks).argmax()), -1, -1)]
        terrain = self.frame.terrain
        for colour, devices in enumerate(terrain.count):
            work = np.asarray(self.matrix @ (share * self.choices.gang[colour]))
            load = np.zeros((self.view.size + 1, self.view.size + 1))
            load[:-1, :-1] = (self.strict * work) @ self.strict
            load[:-1, -1] = self.strict @ work
            load[-1, :-1] = work @ self.strict
            load[-1, -1] = work.sum()
            total = load / devices + np.append(head, 0)[:, None] + np.append(tail, 0)
            total[load <= 0] = 0
            for _ in range(4):
                start, end = divmod(int(total.argmax()), len(total))
                result.append((float(total[start, end]), start, end, colour))
                total[start, :] = total[:, end] = 0
        news = 0
        for worth, x, y, colour in result:
            if worth > least:
                row = self._row(x, y, colour, before, after)
                costs = self.choices.costs(row)
                self.rows.append(row)
                self.costs.append(costs)
                unit = row.devices * self.scale
                self.prices.add(row.ticks / unit, np.array(costs, dtype=float) / unit)
                news += 1
        return news > 0

    def _longest(self, ticks: Reals, backward: bool) -> tuple[Reals, list[int]]:
        """Return longest paths to the stop (from the start) of each operator, and their steps."""
        size = self.view.size
        found, step = np.zeros(size), [-1] * size
        for v in range(size - 1, -1, -1) if backward else range(size):
            if backward:
                for b, link in self.links[v]:
                    if found[b] + link > found[v]:
                        found[v], step[v] = found[b] + link, b
                found[v] += ticks[v]
            else:
                found[v] += ticks[v]
                for b, link in self.links[v]:
                    if found[v] + link > found[b]:
                        found[b], step[b] = found[v] + link, v
        return found, step

    def _row(self, x: int, y: int, colour: int, before: list[int], after: list[int]) -> _Row:
        """Build the row of two operators (or of the ends of the plan), or of a whole path."""
        size = self.view.size
        way: list[int] = []
        if x < size:
            way = _walk(before, x)[::-1]
        if colour < 0:
            way += _walk(after, x)[1:]
            return _Row(1, self._ticks_of(way), tuple(way), np.array([], dtype=np.intp), 0)
        ahead = _walk(after, y) if y < size else []
        inside = np.ones(size, dtype=bool)
        if x < size:
            inside &= self.strict[x] > 0
        if y < size:
            inside &= self.strict[:, y] > 0
        devices = self.frame.terrain.count[colour]
        ticks = devices * (self._ticks_of(way) + self._ticks_of(ahead))
        return _Row(devices, ticks, (*way, *ahead), np.flatnonzero(inside), colour)

    def _ticks_of(self, way: list[int]) -> int:
        """Return the least times of the edges of a path."""
        return sum(dict(self.links[a])[b] for a, b in pairwise(way))

    def _exact(self, prices: Reals) -> int:
        """Evaluate what rounded prices prove."""
        total, weight = [0] * len(self.choices), 0
        own = 0
        for row, costs, price in zip(self.rows, self.costs, prices.tolist(), strict=True):
            number = round(price * _PRECISION / row.devices)
            if number:
                weight += number * row.devices
                own += number * row.ticks
                total = [old + number * new for old, new in zip(total, costs, strict=True)]
        if weight == 0:
            return 0
        ends = [*self.choices.starts[1:].tolist(), len(total)]
        for start, end in zip(self.choices.starts.tolist(), ends, strict=True):
            own += min(total[start:end])
        return ceil_div(own, weight)


def _walk(step: list[int], v: int) -> list[int]:
    way = [v]
    while step[way[-1]] >= 0:
        way.append(step[way[-1]])
    return way


def _reach(links: list[list[tuple[int, int]]]) -> Reals:
    """Who comes strictly after whom."""
    size = len(links)
    result = np.zeros((size, size))
    for a in range(size - 1, -1, -1):
        for b, _ in links[a]:
            np.maximum(result[a], result[b], out=result[a])
            result[a, b] = 1
    return result
