"""The shortest period of a repeating pattern, as one model in the rate 1/P.

Divided by the period P, all rows of :class:`~.period_rows.PeriodRows` are linear in the starts
(in periods), the turns and the rate; the largest rate needs no scan over P, whatever the times.
The turns of a solution determine P exactly, in integers.

Source: Brucker and Kampmeyer 2008 for the form in 1/P; even patterns: this project.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import block_array, csr_array, identity

from milp_plan.kinds.pipeline.shop import Shop

from .rows import PeriodRows, sparse


def shortest_periods(
    rows: PeriodRows, seconds: float, even: int = 0
) -> list[tuple[int, list[int]]]:
    """Patterns of the shortest period for K: (period, turns) each, the first is the shortest.

    One model in the rate 1/P. Of even patterns (:func:`even_patterns`, with ``even`` as stride)
    each way to change places is tried, and with the best rate known two more are looked for: the
    shortest way through for a micro-batch, and one whose last tasks come as late as they can (at
    the end of a schedule they fill gaps).

    Parameters
    ----------
    rows
        Rows of the pattern.
    seconds
        For the search of the shortest period; each of the two others gets a quarter more.
    even
        0 for all patterns, else every how many devices do the same.
    """
    models = [_Rates(rows)]
    if even:
        places = [even_patterns(rows, even, turned) for turned in _changes(rows)]
        models = [_Rates(rows, place) for place in places if place is not None]
    best: tuple[int, list[int], _Rates] | None = None
    for model in models:
        if best is None or best[0] > model.least:
            turns = model.solve(seconds / len(models), most=best[0] if best else None)
            period = None if turns is None else rows.shortest(turns, model.least)
            if turns is not None and period is not None and (best is None or period < best[0]):
                best = period, turns, model
    if best is None:
        return []
    patterns = [(best[0], best[1])]
    for late in (0.0, 0.5) if even else ():
        turns = best[2].solve(seconds / 4, period=best[0], late=late)
        period = None if turns is None else rows.shortest(turns, best[0])
        if turns is not None and period == best[0]:
            patterns.append((period, turns))
    return patterns


def _changes(rows: PeriodRows) -> Iterator[dict[str, int]]:
    """Role -> by how many micro-batches of a period it changes place from device to device."""
    roles = sorted({kind.role for kind in rows.shop.kinds})
    for steps in product(range(rows.per_period), repeat=len(roles)):
        yield dict(zip(roles, steps, strict=True))


Places = tuple[csr_array, NDArray[np.float64], NDArray[np.int64]]
"""Starts and turns = matrix @ columns + constant, in periods; and which columns are integers."""


def even_patterns(rows: PeriodRows, stride: int, turned: Mapping[str, int]) -> Places | None:
    """Starts and turns of even patterns; ``None`` where stages do not lie evenly.

    Every ``stride``-th machine does what the one before it does, a fixed time later: stages in a
    row (:func:`runs_of`) start in equal steps, start = first + machine / stride * (step + whole),
    with one step for all runs and a whole number of periods for each. With several micro-batches
    per period, the j-th of one machine may be the j + ``turned``-th of the next. So turns are
    linear in the machine too, and the number of integers does not depend on how many there are.
    """
    passes = list(runs_of(rows.shop))
    home = [sorted(rows.shop.kinds[k].machine for k in run) for run in passes]
    if any(machines != home[0] for machines in home) or rows.images:
        return None
    rounds, runs = rows.per_period, len(passes) * stride
    group: dict[tuple[int, int], tuple[int, int, int, float]] = {}
    for number, run in enumerate(passes):
        for k in run:
            kind = rows.shop.kinds[k]
            own, at = number * stride + kind.machine % stride, kind.machine // stride
            for j in range(rounds):
                carry, place = divmod(j - turned.get(kind.role, 0) * at, rounds)
                group[k, j] = own * rounds + place, own, carry, float(at)
    size = runs * rounds
    entries: list[tuple[int, int, float]] = []
    pairs: dict[tuple[int, int], int] = {}
    shift = np.zeros(rows.num_starts + rows.num_turns)
    for x in rows.tasks:
        row, (place, own, carry, step) = rows.column[x], group[x]
        entries += [(row, place, 1.0), (row, size + own, step)]
        entries.append((row, size + runs + own % stride, step))
        shift[row] = carry
    for (x, y), index in rows.turn.items():
        row, one, two = rows.num_starts + index, group[x], group[y]
        ends, sign = (one[0], two[0]), 1.0
        shift[row] = two[2] - one[2]
        if ends not in pairs and ends[::-1] in pairs:
            sign, ends = -1.0, ends[::-1]
            shift[row] -= 1
        entries.append((row, size + runs + stride + pairs.setdefault(ends, len(pairs)), sign))
        entries += [(row, size + two[1], one[3]), (row, size + one[1], -one[3])]
    numbers, columns, data = zip(*entries, strict=True)
    whole = np.array([0] * size + [1] * runs + [0] * stride + [1] * len(pairs))
    return csr_array((data, (numbers, columns)), shape=(len(shift), len(whole))), shift, whole


def runs_of(shop: Shop) -> Iterator[list[int]]:
    """Kinds of one role in a row, on machines in equal steps."""
    kinds, heads = shop.kinds, shop.heads
    roles: dict[tuple[int, str], list[int]] = {}
    for k, kind in enumerate(kinds):
        roles.setdefault((kind.route, kind.role), []).append(k)
    for members in roles.values():
        members.sort(key=lambda k: (heads[k], k))
        run = members[:1]
        for k in members[1:]:
            step = kinds[k].machine - kinds[run[-1]].machine
            before = kinds[run[-1]].machine - kinds[run[-2]].machine if len(run) > 1 else step
            if step == before and step:
                run.append(k)
            else:
                yield run
                run = [k]
        yield run


class _Rates:
    """The pattern divided by its period: columns are starts, turns, the rate, the way through."""

    def __init__(self, pattern: PeriodRows, places: Places | None = None) -> None:
        self.pattern, self.least = pattern, pattern.least_period()
        n, q = pattern.num_starts, pattern.num_turns
        self.most = most = float(pattern.most_periods())
        self.into, self.shift = csr_array(identity(n + q)), np.zeros(n + q)
        self.whole = np.array([0] * n + [1] * q)
        if places is not None:
            self.into, self.shift, self.whole = places
        ends = [((pattern.column[x], 1),) for x in pattern.tasks]
        others = list(pattern.between_turns())
        blocks: list[tuple[csr_array, list[float], list[float], float]] = [
            (
                sparse(
                    [(*r.starts, *((n + i, f) for i, f in r.turns)) for r in pattern.rows], n + q
                ),
                [float(row.ticks) for row in pattern.rows],
                [-float(row.periods) for row in pattern.rows],
                0.0,
            ),
            (
                sparse([[(n + i, f) for i, f in terms] for terms, _ in others], n + q),
                [0.0] * len(others),
                [float(limit) for _, limit in others],
                0.0,
            ),
            (sparse(ends, n + q) * -1.0, [0.0] * len(ends), [0.0] * len(ends), 0.0),
            (
                sparse(ends, n + q),
                [float(pattern.duration(x)) for x in pattern.tasks],
                [0.0] * len(ends),
                -1.0,
            ),
        ]
        rows, right = [], []
        self.sinks = [not pattern.shop.after[k] for k, _ in pattern.tasks]
        for body, ticks, limits, through in blocks:
            ways = np.full(len(ticks), through)
            if through and not all(self.sinks):
                ways[self.sinks] = -2.0  # what comes last may come later
            rate = np.array(ticks)[:, None] / self.least
            rows.append([body @ self.into, csr_array(rate), csr_array(ways[:, None])])
            right.append(np.array(limits) - body @ self.shift)
        self.rows = LinearConstraint(csr_array(block_array(rows)), -np.inf, np.concatenate(right))
        last = [
            pattern.column[x] for x, sink in zip(pattern.tasks, self.sinks, strict=True) if sink
        ]
        self.last = (sparse([((c, 1),) for c in last], n + q) @ self.into).sum(axis=0) / len(last)
        low = np.array([0.0] * n + [-most - 1] * q)
        if places is not None:
            low = np.full(len(self.whole), -most - 1)
        self.low, self.high = low, np.full(len(self.whole), most)

    def solve(
        self, seconds: float, *, period: int = 0, late: float = 0.0, most: int | None = None
    ) -> list[int] | None:
        """Turns of the shortest period, or of the best pattern for a period that is known.

        Parameters
        ----------
        seconds
            Time limit.
        period
            Ticks of the known period; 0 looks for the shortest.
        late
            How much it counts that last tasks come late, against the way through.
        most
            Only shorter periods are of interest.
        """
        longest = self.pattern.serial() if most is None else most
        width, rate = len(self.whole), self.least / period if period else 0.0
        cost = np.append(-late * self.last if period else np.zeros(width), [-1.0, float(rate > 0)])
        if not period:
            cost[-1] = 0.0
        answer = milp(
            cost,
            integrality=np.append(self.whole, [0, 0]),
            bounds=Bounds(
                np.append(self.low, [rate or min(1.0, self.least / longest), 0.0]),
                np.append(self.high, [rate or 1.0, 4 * self.most]),
            ),
            constraints=self.rows,
            options={"time_limit": seconds, "mip_rel_gap": 0.02 if period else 1e-7},
        )
        if answer.x is None or answer.x[width] <= 0:
            return None
        found = np.where(self.whole, np.round(answer.x[:width]), answer.x[:width])
        return [round(v) for v in (self.into @ found + self.shift)[self.pattern.num_starts :]]
