"""A plan of a sharding problem without any compiled loop: greedy with one step of lookahead.

Operators are decided in their order. A strategy counts with its own cost, with those of the pairs
it makes with neighbours that are decided, with the least that each other neighbour may add, and
with its bytes at a price. One that leaves a neighbour nothing is not taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.budget import Budget
from milp_plan.core.sharding import Integers, ShardingProblem

NAME = "greedy, one operator ahead"

ROUNDS = 6
"""Prices that are tried where the cheapest choices do not fit: each a quarter of the last."""

Floats = NDArray[np.float64]


class Neighbour(NamedTuple):
    """An operator that is decided later, and costs by the strategies of this one and of it."""

    operator: int
    table: Floats


def first_choices(problem: ShardingProblem, budget: Budget) -> Iterator[tuple[int, ...]]:
    """Yield choices within the limit, highest price of memory first; several while time is left."""
    tables = _Tables(problem)
    cheapest = tables.decided(0.0)
    if cheapest is None or tables.fits(cheapest):
        yield from () if cheapest is None else (_plan(cheapest),)
        return
    smallest = tables.decided(np.inf)
    if smallest is None or not tables.fits(smallest):
        return
    yield _plan(smallest)
    price = tables.dear
    for _ in range(ROUNDS):
        choice = None if budget.over else tables.decided(price)
        if choice is None or not tables.fits(choice):
            return
        yield _plan(choice)
        price /= 4.0


def _plan(chosen: Integers) -> tuple[int, ...]:
    return tuple(chosen.tolist())


class _Tables:
    """A problem's tables as matrices, infinite where not allowed."""

    def __init__(self, problem: ShardingProblem) -> None:
        s, t = problem.strategies, problem.transitions
        self.problem = problem
        cuts = s.offsets[1:-1]
        self.own = np.split(np.where(s.allowed, s.cost, np.inf), cuts)
        lasting = problem.intervals[:, 0] < problem.intervals[:, 1]
        self.usage = np.split(np.where(np.repeat(lasting, s.counts), s.usage, 0), cuts)
        self.later: list[list[Neighbour]] = [[] for _ in problem.operators]
        pairs = np.where(t.allowed, t.cost, np.inf)
        shapes = s.counts[t.ends].tolist()
        for edge, (first, second) in enumerate(t.ends.tolist()):
            table = pairs[t.offsets[edge] : t.offsets[edge + 1]].reshape(shapes[edge])
            if first < second:
                self.later[first].append(Neighbour(second, table))
            else:
                self.later[second].append(Neighbour(first, table.T))

    @property
    def dear(self) -> float:
        """Return a price at which bytes count as much as costs, or more."""
        spread = sum(float(np.ptp(own[np.isfinite(own)])) for own in self.own if len(own) > 1)
        used = sum(float(np.ptp(used)) for used in self.usage)
        return 64.0 * max(1.0, spread) / max(1.0, used)

    def decided(self, price: float) -> Integers | None:
        """Choose for one operator after the other; ``None`` at a dead end."""
        so_far = [own.copy() for own in self.own]
        chosen = np.zeros(len(so_far), dtype=np.int64)
        for number, known in enumerate(so_far):
            total = known.copy()
            for other, table in self.later[number]:
                total += (table + so_far[other]).min(axis=1)
            if np.isinf(price):
                total = np.where(np.isfinite(total), self.usage[number], np.inf)
            else:
                total += price * self.usage[number]
            pick = int(total.argmin())
            if not np.isfinite(total[pick]):
                return None
            chosen[number] = pick
            for other, table in self.later[number]:
                so_far[other] += table[pick]
        return chosen

    def fits(self, chosen: Integers) -> bool:
        """Return whether the bytes in use stay within the limit."""
        problem = self.problem
        if problem.limit is None:
            return True
        lasting = problem.intervals[:, 0] < problem.intervals[:, 1]
        times, places = np.unique(problem.intervals[lasting], return_inverse=True)
        used = problem.strategies.usage[problem.strategies.offsets[:-1] + chosen][lasting]
        change = np.zeros(len(times) + 1, dtype=np.int64)
        ends = places.reshape(-1, 2)
        np.add.at(change, ends[:, 0], used)
        np.add.at(change, ends[:, 1], -used)
        return int(change.cumsum().max(initial=0)) <= problem.limit
