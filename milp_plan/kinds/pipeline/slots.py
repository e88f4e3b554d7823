r"""Counting rows: how many tasks of each kind have started by each of a few points in time.

Micro-batches of a route are identical, so a plan of a :class:`.Shop` is given
by step functions S[k](t), the number of tasks of kind k that start at or before tick t. Every plan
that ends by a horizon T satisfies, for all integers t, with duration d[k] and count n[k]:

==============  ==================================================================================
``order``       S[k](t) <= S[k](t + 1)
``window``      S[k](t) = 0 before the head of k; S[k](t) = n[k] from T - tail[k] - d[k] on
``precedence``  S[b](t) <= S[a](t - d[a] - lag) for each arc (a, b, lag)
``exclusion``   sum over the kinds of a machine of S[k](t) - S[k](t - d[k]) <= 1
``work``        E(t) = sum over the kinds of a machine of sum_{t - d[k] <= s < t} S[k](s), the ticks
                it has worked before t, grows by at most v - u from u to v
``memory``      sum of alloc[k] S[k](t) - free[k] S[k](t - d[k]) over a device <= its limit
==============  ==================================================================================

A model has columns for S[k] at some *points* only. Elsewhere a value is replaced by the nearest
point's: on the smaller side of a row by that of the last point before, on the larger side by that
of the next point (S grows, so both only loosen the row). So **any choice of points is a valid
relaxation**, for any times; with all integers as points (or all multiples of a number that divides
every duration and lag) nothing is replaced. Points start at the kind's head, so rows along the
longest paths lose nothing however coarse the points are, and ``work`` loses less than a step where
``exclusion`` would lose a part of each task. The conditions are linear in S: it is the
time-indexed formulation of Sousa and Wolsey (1992) for identical jobs, in cumulative form.

**Merging.** Kinds and machines that colour refinement cannot tell apart share their columns
(mirrored directions, equal routes). If S satisfies the rows, so does the mean over each class:
each row of a class of rows takes equally many terms from each class of kinds, and each kind
appears equally often, so the mean of the rows is the row of the means. Hence a merged model
has a fractional solution exactly when the whole one has (Grohe, Kersting, Mladenov, Selman,
"Dimension reduction via colour refinement", 2014).

**Throughput.** A column ``share`` stands for the part of all tasks that is done by T: n[k] becomes
n[k] * share, every other right-hand side stays. A plan is a solution with share 1, so where the
largest share is below 1 no plan ends by T.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd

import numpy as np
from numpy.typing import NDArray

from milp_plan.lp import CompiledModel

from .frames import Frame, colours
from .shop import Shop

Ints = NDArray[np.int64]

_ZERO, _SHARE = -1, 0
"""Index of a value that is always 0, and the column of ``share``."""


@dataclass(frozen=True)
class Curve:
    """S of one class of kinds at its points.

    Parameters
    ----------
    kind
        One kind of the class.
    points
        Ticks with a column each, ascending.
    base
        First column.
    head, last
        As in the frame, and the latest start; ``None`` where there is none.
    """

    kind: int
    points: Ints
    base: int
    head: int | None
    last: int | None

    @cached_property
    def columns(self) -> Ints:
        """Column of each point."""
        return self.base + np.arange(len(self.points))

    @cached_property
    def below(self) -> tuple[Ints, Ints]:
        """Ticks from which a value no greater than S changes, and its columns."""
        if self.last is None:
            return self.points, self.columns
        return np.append(self.points, self.last), np.append(self.columns, _SHARE)

    @cached_property
    def above(self) -> tuple[Ints, Ints]:
        """Ticks from which a value no smaller than S changes, and its columns."""
        first = -(2**62) if self.head is None else self.head
        return np.append(first, self.points + 1), np.append(self.columns, _SHARE)


def at(steps: tuple[Ints, Ints], ticks: Ints) -> Ints:
    """Return the columns of a step function at ticks; -1 where it is 0."""
    edges, columns = steps
    if not len(edges):
        return np.full(len(ticks), _ZERO)
    place = np.searchsorted(edges, ticks, "right") - 1
    return np.where(place < 0, _ZERO, columns[place])


@dataclass
class _Rows:
    """Rows ``terms <= limit`` under construction."""

    parts: list[tuple[Ints, Ints, Ints]] = field(default_factory=list)
    limits: list[Ints] = field(default_factory=list)
    families: list[str] = field(default_factory=list)

    def new(self, family: str, limits: Ints) -> Ints:
        first = len(self.families)
        self.families += [family] * len(limits)
        self.limits.append(limits)
        return first + np.arange(len(limits))

    def add(self, rows: Ints, columns: Ints, factors: Ints, count: int = 1) -> None:
        """Add terms; ``count`` is what a share of 1 stands for."""
        real = (columns != _ZERO) & (factors != 0)
        columns, factors = columns[real], factors[real]
        self.parts.append((rows[real], columns, np.where(columns == _SHARE, count, 1) * factors))


class SlotRows:
    """The rows of a shop at chosen points, for one horizon.

    Parameters
    ----------
    shop, frame
        The shop, and its clock (:mod:`.frames`).
    horizon
        T, ticks.
    step
        Distance of points, ticks.
    merge
        Whether classes of kinds share columns.

    Raises
    ------
    ValueError
        The horizon is shorter than a path of tasks, so there is no plan.
    """

    def __init__(
        self, shop: Shop, frame: Frame, horizon: int, step: int, *, merge: bool = True
    ) -> None:
        self.shop, self.frame, self.horizon, self.step = shop, frame, horizon, step
        self.kind_of, self.machine_of = (
            colours(shop, frame.anchor)
            if merge
            else (list(range(len(shop.kinds))), list(range(len(shop.machines))))
        )
        self.rows = _Rows()
        self.num_columns = 1
        self.boxes = [1]
        self.curves = [
            self._curve(self.kind_of.index(c)) for c in range(max(self.kind_of, default=-1) + 1)
        ]
        self.exact = shop.tick % step == 0
        self._order()
        self._precedence()
        for c in range(max(self.machine_of) + 1):
            self._machine(self.machine_of.index(c))

    def _curve(self, k: int) -> Curve:
        kind, head, tail = self.shop.kinds[k], self.frame.heads[k], self.frame.tails[k]
        last = None if tail is None else self.horizon - tail - kind.duration
        first = head or 0
        if last is not None and head is not None and last < first:
            raise ValueError(f"horizon {self.horizon} is shorter than a path through {kind.name}")
        stop = self.horizon - kind.duration + 1 if last is None else last
        points = np.arange(first, max(first, stop), self.step, dtype=np.int64)
        curve = Curve(k, points, self.num_columns, head, last)
        self.num_columns += len(points)
        self.boxes += [kind.count] * len(points)
        return curve

    def _order(self) -> None:
        for curve in self.curves:
            count, columns = self.shop.kinds[curve.kind].count, curve.columns
            rows = self.rows.new("order", np.zeros(len(columns), np.int64))
            ones = np.ones(len(columns), np.int64)
            self.rows.add(rows, columns, ones)
            self.rows.add(rows, np.append(columns[1:], _SHARE)[: len(rows)], -ones, count)

    def _precedence(self) -> None:
        kinds = self.shop.kinds
        for a, b, delay in _needed(self.shop, self.kind_of):
            before, after = self.curves[a], self.curves[b]
            columns = at(before.above, after.points - delay)
            rows = self.rows.new("precedence", np.zeros(len(columns), np.int64))
            ones = np.ones(len(columns), np.int64)
            self.rows.add(rows, after.columns, ones)
            self.rows.add(rows, columns, -ones, kinds[before.kind].count)

    def _machine(self, machine: int) -> None:
        share: dict[int, int] = {}
        for k in self.shop.on_machine[machine]:
            share[self.kind_of[k]] = share.get(self.kind_of[k], 0) + 1
        busy = {c: times for c, times in share.items() if self._length(c)}
        if busy:
            self._exclusion(busy)
            if not self.exact:
                self._work(busy)
        limit = self.shop.limits[machine]
        if limit is not None:
            self._memory(share, limit)

    def _length(self, c: int) -> int:
        return self.shop.kinds[self.curves[c].kind].duration

    def _exclusion(self, share: dict[int, int]) -> None:
        ticks = np.unique(np.concatenate([self.curves[c].below[0] for c in share]))
        started = {c: at(self.curves[c].below, ticks) for c in share}
        ended = {c: at(self.curves[c].above, ticks - self._length(c)) for c in share}
        binding = np.zeros(len(ticks), bool)
        for c in share:
            binding |= started[c] > ended[c]
            binding |= (started[c] == _SHARE) & (ended[c] != _SHARE)
        rows = self.rows.new("exclusion", np.ones(int(binding.sum()), np.int64))
        for c, times in share.items():
            count = self.shop.kinds[self.curves[c].kind].count
            factors = np.full(len(rows), times)
            self.rows.add(rows, started[c][binding], factors, count)
            self.rows.add(rows, ended[c][binding], -factors, count)

    def _work(self, share: dict[int, int]) -> None:
        """Add columns E at steps of a machine's time, between the two readings of its work."""
        curves = [self.curves[c] for c in share]
        first = min(curve.head or 0 for curve in curves)
        lasts = [
            self.horizon if curve.last is None else curve.last + self._length(c)
            for c, curve in zip(share, curves, strict=True)
        ]
        ticks = np.unique(np.append(np.arange(first, max(lasts), self.step), max(lasts)))
        total = sum(
            self._length(c) * times * self.shop.kinds[self.curves[c].kind].count
            for c, times in share.items()
        )
        columns = self.num_columns + np.arange(len(ticks))
        self.num_columns += len(ticks)
        self.boxes += [total] * len(ticks)
        ones = np.ones(len(ticks), np.int64)
        rows = self.rows.new("work", np.diff(ticks))
        self.rows.add(rows, columns[1:], ones[1:])
        self.rows.add(rows, columns[:-1], -ones[1:])
        low, high = (self.rows.new("work", np.zeros(len(ticks), np.int64)) for _ in range(2))
        self.rows.add(low, columns, -ones)
        self.rows.add(high, columns, ones)
        for c, times in share.items():
            count = self.shop.kinds[self.curves[c].kind].count
            for rows, sign, steps in (
                (low, times, self.curves[c].below),
                (high, -times, self.curves[c].above),
            ):
                for which, terms, ticks_there in _sums(steps, ticks - self._length(c), ticks):
                    self.rows.add(rows[which], terms, sign * ticks_there, count)

    def _memory(self, share: dict[int, int], limit: int) -> None:
        if limit < 0:  # persistent bytes alone exceed the memory, whatever tasks take
            self.rows.new("memory", np.array([-1], np.int64))
        kinds = {c: self.shop.kinds[self.curves[c].kind] for c in share}
        unit = gcd(*(k.alloc for k in kinds.values()), *(k.free for k in kinds.values()))
        if not unit:
            return
        ticks = np.unique(
            np.concatenate([self.curves[c].below[0] for c in share if kinds[c].alloc])
        )
        rows = self.rows.new("memory", np.full(len(ticks), limit // unit))
        for c, times in share.items():
            kind, curve = kinds[c], self.curves[c]
            ones = np.full(len(ticks), times)
            taken, freed = kind.alloc // unit * ones, kind.free // unit * ones
            self.rows.add(rows, at(curve.below, ticks), taken, kind.count)
            self.rows.add(rows, at(curve.above, ticks - kind.duration), -freed, kind.count)

    def model(self) -> CompiledModel:
        """Return the linear program that maximises the share; all numbers are integers."""
        from scipy.sparse import csr_array

        parts = self.rows.parts
        rows, columns, factors = (
            np.concatenate([part[i] for part in parts]) if parts else np.zeros(0, np.int64)
            for i in range(3)
        )
        num_rows = len(self.rows.families)
        matrix = csr_array(
            (factors.astype(float), (rows, columns)), shape=(num_rows, self.num_columns)
        )
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        cost = np.zeros(self.num_columns)
        cost[_SHARE] = -1.0
        upper = np.full(self.num_columns, np.inf)
        upper[_SHARE] = 2.0
        names: list[tuple[str, Hashable]] = [("share", None)]
        for curve in self.curves:
            name = self.shop.kinds[curve.kind].name, self.shop.kinds[curve.kind].route
            names += [("started", (*name, int(tick))) for tick in curve.points]
        names += [("worked", i) for i in range(self.num_columns - len(names))]
        return CompiledModel(
            cost=cost,
            offset=0.0,
            matrix=matrix,
            row_lower=np.full(num_rows, -np.inf),
            row_upper=np.concatenate(self.rows.limits).astype(float),
            column_lower=np.zeros(self.num_columns),
            column_upper=upper,
            integrality=np.zeros(self.num_columns, np.uint8),
            columns=names,
            row_families=self.rows.families,
        )


def _sums(steps: tuple[Ints, Ints], begins: Ints, ends: Ints) -> list[tuple[Ints, Ints, Ints]]:
    """Return the sum of a step function over [begin, end) as (interval, column, ticks) triples."""
    edges, columns = steps
    if not len(edges):
        return []
    first = np.searchsorted(edges, begins, "right") - 1
    sums: list[tuple[Ints, Ints, Ints]] = []
    place = first.copy()
    everything = np.arange(len(begins))
    closing = np.append(edges[1:], 2**62)
    while True:
        open_ = (place < len(edges)) & (
            np.where(place < 0, edges[0], edges[np.clip(place, 0, len(edges) - 1)]) < ends
        )
        if not open_.any():
            return sums
        real = open_ & (place >= 0)
        index = place[real]
        ticks = np.minimum(closing[index], ends[real]) - np.maximum(edges[index], begins[real])
        sums.append((everything[real], columns[index], ticks))
        place = place + 1


def _needed(shop: Shop, kind_of: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return irreducible arcs between classes as (before, after, least time between starts)."""
    delays: dict[tuple[int, int], int] = {}
    for a, b, lag in shop.arcs:
        pair = kind_of[a], kind_of[b]
        delays[pair] = max(delays.get(pair, 0), shop.kinds[a].duration + lag)
    after: dict[int, list[tuple[int, int]]] = {}
    for (a, b), delay in delays.items():
        after.setdefault(a, []).append((b, delay))

    def longest(source: int, target: int) -> int:
        """Return the longest path from source to target over two arcs or more; -1 for none."""
        known: dict[int, int] = {target: 0}

        def rest(c: int) -> int:
            if c not in known:
                ways = [(d, rest(n)) for n, d in after.get(c, ())]
                known[c] = max((d + r for d, r in ways if r >= 0), default=-1)
            return known[c]

        ways = [(d, rest(n)) for n, d in after[source] if n != target]
        return max((d + r for d, r in ways if r >= 0), default=-1)

    return [(a, b, delay) for (a, b), delay in delays.items() if longest(a, b) < delay]
