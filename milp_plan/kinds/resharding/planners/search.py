"""A search through all orders of deliveries; when it ends, the best plan is proved optimal."""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.core import ceil_div
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget

from ..problem import ReshardingPlan, ReshardingProblem
from .indexed import IndexedResharding, Send

SEARCH = "orders of deliveries"

NODES = 300_000
"""Largest number of deliveries that are tried; longer searches are left to the model."""

CHECKED = 512
"""Nodes between two readings of the clock."""


class OrderSearch:
    """Depth-first search in the order of starts.

    Proof that nothing better is left out. Some optimal plan has every delivery start at 0 or when
    one of its ports gets free, so it is that of its order of starts
    (:meth:`IndexedResharding.plan`). Left out are only

    - a delivery that starts before the last one, or at the same time with a lower number: other
      orders of the same plan have it in its place;
    - one that starts no earlier than some other waiting delivery could have stopped: as all later
      ones start there or after, that one could be moved to its earliest place without delay to any;
    - of waiting slices with equal senders, receivers and bytes, all but the first;
    - what cannot be better than the best plan: a port is busy until it is free and then with all
      that it has left to receive, or that it alone can send; all senders together send the rest;
    - what has the slices delivered and ports free as a state before, where ports that are free
      before the last start count as free at it: from there on the same plans follow.
    """

    def __init__(self, problem: ReshardingProblem, known: int | None, lower: int) -> None:
        self.indexed = indexed = IndexedResharding(problem)
        self.best = known
        self.lower = lower
        self.seen: set[tuple[int, int, int, tuple[int, ...]]] = set()
        self.nodes = 0
        kinds: dict[object, int] = {}
        self.twin_before = [-1] * len(indexed.sends)
        for number, row in enumerate(indexed.sends):
            key = (row, indexed.receives[number])
            self.twin_before[number] = kinds.get(key, -1)
            kinds[key] = number

    def run(self, budget: Budget) -> Iterator[ReshardingPlan | Bound]:
        """Yield better and better plans, and a bound when nothing is left."""
        count = len(self.indexed.sends)
        everything = (1 << count) - 1
        most = NODES if budget.nodes is None else min(NODES, budget.nodes)
        free = [0] * (2 * len(self.indexed.cards))
        stack: list[tuple[int, list[int], int, tuple[Send, ...]]] = [(everything, free, 0, ())]
        while stack:
            if self.nodes >= most or (self.nodes % CHECKED == 0 and budget.over):
                return
            left, free, now, order = stack.pop()
            self.nodes += 1
            if not left:
                plan = self.indexed.plan(order, SEARCH)
                assert plan.value is not None
                if self.best is None or plan.value < self.best:
                    self.best = plan.value
                    yield plan
                    if plan.value <= self.lower:
                        return
                continue
            if self._hopeless(left, free, now) or self._known(left, free, now, order):
                continue
            for start, send in reversed(self._next(left, free, now, order)):
                after = free.copy()
                for port in self.indexed.ports(send):
                    after[port] = start + self.indexed.ticks(send)
                stack.append((left & ~(1 << send[0]), after, start, (*order, send)))
        if self.best is not None:
            detail = f"no order of deliveries is shorter, {self.nodes} tried"
            yield Bound(SEARCH, self.best, detail)

    def _next(
        self, left: int, free: list[int], now: int, order: tuple[Send, ...]
    ) -> list[tuple[int, Send]]:
        """Return deliveries that may be the next to start, soonest and longest first."""
        candidates = []
        last = order[-1][0] if order else -1
        soonest = None
        for number, row in enumerate(self.indexed.sends):
            if not left >> number & 1:
                continue
            ready = max(now, *(free[port] for port in self.indexed.receives[number]))
            twin = self.twin_before[number]
            first = twin < 0 or not left >> twin & 1
            for card, ticks in row:
                start = max(ready, free[card])
                soonest = start + ticks if soonest is None else min(soonest, start + ticks)
                if first and (start > now or number > last):
                    candidates.append((start, -ticks, (number, card)))
        assert soonest is not None
        candidates.sort()
        return [(start, send) for start, _, send in candidates if start < soonest]

    def _hopeless(self, left: int, free: list[int], now: int) -> bool:
        """Return whether nothing better can follow."""
        if self.best is None:
            return False
        load = [max(time, now) for time in free]
        shared, senders = 0, set[int]()
        for number, row in enumerate(self.indexed.sends):
            if not left >> number & 1:
                continue
            least = self.indexed.least[number]
            for port in self.indexed.receives[number]:
                load[port] += least
            if len(row) == 1:
                load[row[0][0]] += least
            else:
                shared += least
                senders.update(card for card, _ in row)
        mean = 0
        if senders:
            mean = ceil_div(shared + sum(load[card] for card in senders), len(senders))
        return max(mean, *load) >= self.best

    def _known(self, left: int, free: list[int], now: int, order: tuple[Send, ...]) -> bool:
        """Return whether an equal state was seen before; record it otherwise."""
        last = order[-1][0] if order else -1
        key = (left, last, now, tuple(max(time, now) for time in free))
        known = key in self.seen
        self.seen.add(key)
        return known
