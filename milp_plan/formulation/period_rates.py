"""The shortest period of a repeating pattern, as one model in the rate 1/P.

Divided by the period P, all rows of :class:`~.period_rows.PeriodRows` are linear in the starts
(in periods), the turns and the rate; the largest rate needs no scan over P, whatever the times.
The turns of a solution determine P exactly, in integers.

Source: Brucker and Kampmeyer 2008 for the form in 1/P; even patterns: this project.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import block_array, csr_array, identity

from milp_plan.pipeline import Shop

from .period_rows import PeriodRows, sparse


def shortest_periods(
    rows: PeriodRows, seconds: float, even: int = 0
) -> list[tuple[int, list[int]]]:
    """Patterns of the shortest period for K: (period, turns) each, the first is the shortest.

    One model in the rate 1/P. With the rate known, two more patterns are looked for: the
    shortest way through for a micro-batch, and one whose last tasks come as late as they can
    (at the end of a schedule they fill gaps). ``even`` looks among even patterns
    (:func:`even_patterns`); of others only one is looked for, because each takes long.
    """
    model = _Rates(rows, even)
    found: list[tuple[int, list[int]]] = []
    for late in (None, 0.0, 0.5) if even else (None,):
        turns = model.solve(found[0][0] if found else 0, late or 0.0, seconds)
        period = None if turns is None else rows.shortest(turns, model.least)
        if turns is not None and period is not None:
            found.append((period, turns))
        if not found:
            break
    return sorted(found, key=lambda entry: entry[0])


def even_patterns(
    rows: PeriodRows, stride: int
) -> tuple[csr_array, NDArray[np.float64], NDArray[np.int64]] | None:
    """Starts and turns = matrix @ columns + constant, in periods, for even patterns.

    Stages in a row (:func:`runs_of`) start in equal steps along the machines, and every
    ``stride``-th machine runs its tasks in the same cycle: start = first + machine / stride *
    (step + whole), with one step for all runs and a whole number of periods for each. Then
    turns are linear in the machine too, and the number of integers does not depend on how many
    there are.
    """
    passes = list(runs_of(rows.shop))
    home = [sorted(rows.shop.kinds[k].machine for k in run) for run in passes]
    if any(machines != home[0] for machines in home) or rows.images:
        return None
    rounds, place = rows.per_period, [kind.machine for kind in rows.shop.kinds]
    group = {
        (k, j): (number * stride + place[k] % stride) * rounds + j
        for number, run in enumerate(passes)
        for k in run
        for j in range(rounds)
    }
    size = len(passes) * stride * rounds
    entries: list[tuple[int, int, float]] = []
    pairs: dict[tuple[int, int], int] = {}
    shift = np.zeros(rows.num_starts + rows.num_turns)
    for x in rows.tasks:
        row, own, at = rows.column[x], group[x], float(place[x[0]] // stride)
        entries += [(row, own, 1.0), (row, size + own, at)]
        entries.append((row, 2 * size + place[x[0]] % stride, at))
    for (x, y), index in rows.turn.items():
        row, at = rows.num_starts + index, float(place[x[0]] // stride)
        ends, sign = (group[x], group[y]), 1.0
        if ends not in pairs and ends[::-1] in pairs:
            sign, shift[row], ends = -1.0, -1.0, ends[::-1]
        column = 2 * size + stride + pairs.setdefault(ends, len(pairs))
        entries += [(row, column, sign)]
        entries += [(row, size + ends[1], sign * at), (row, size + ends[0], -sign * at)]
    numbers, columns, data = zip(*entries, strict=True)
    whole = np.array([0] * size + [1] * size + [0] * stride + [1] * len(pairs))
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

    def __init__(self, pattern: PeriodRows, even: int) -> None:
        self.pattern, self.least = pattern, pattern.least_period()
        n, q = pattern.num_starts, pattern.num_turns
        self.most = most = float(pattern.most_periods())
        self.into, self.shift = csr_array(identity(n + q)), np.zeros(n + q)
        self.whole = np.array([0] * n + [1] * q)
        found = even_patterns(pattern, even) if even else None
        self.possible = not even or found is not None
        if found is not None:
            self.into, self.shift, self.whole = found
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
        low = np.full(len(self.whole), -most - 1) if even else np.array([0.0] * n + [-most - 1] * q)
        self.low, self.high = low, np.full(len(self.whole), most)

    def solve(self, period: int, late: float, seconds: float) -> list[int] | None:
        """Turns of the shortest period; or of the best pattern for a period that is known."""
        if not self.possible:
            return None
        width, rate = len(self.whole), self.least / period if period else 0.0
        cost = np.append(-late * self.last if period else np.zeros(width), [-1.0, float(rate > 0)])
        if not period:
            cost[-1] = 0.0
        answer = milp(
            cost,
            integrality=np.append(self.whole, [0, 0]),
            bounds=Bounds(
                np.append(self.low, [rate or min(1.0, self.least / self.pattern.serial()), 0.0]),
                np.append(self.high, [rate or 1.0, 4 * self.most]),
            ),
            constraints=self.rows,
            options={"time_limit": seconds, "mip_rel_gap": 0.02 if period else 1e-7},
        )
        if answer.x is None or answer.x[width] <= 0:
            return None
        found = np.where(self.whole, np.round(answer.x[:width]), answer.x[:width])
        return [round(v) for v in (self.into @ found + self.shift)[self.pattern.num_starts :]]
