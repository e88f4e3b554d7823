"""Dispatches deliveries by the ports with most work left: for thousands of slices.

Slices with equal senders and receivers are one class. At every instant at which a port gets free,
of the classes that could leave the one whose busiest port has most left goes first, with its
longest slice; of several senders the one with least left sends. Cards without pauses make a plan
short, and where slices are short compared to the work of cards, the busiest card hardly
pauses (open shops with dense schedules; Bárány and Fiala 1982 for the idea).
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count

from ..problem import ReshardingPlan, ReshardingProblem
from .indexed import IndexedResharding, Send

BUSIEST = "busiest ports first"


def busiest_first(problem: ReshardingProblem, seed: int = 0) -> ReshardingPlan | None:  # noqa: ARG001
    """Return the plan of these rules; ``None`` where no card has a slice."""
    if any(not entry.senders for entry in problem.slices):
        return None
    indexed = IndexedResharding(problem)
    return indexed.plan(_Dispatch(indexed).order(), BUSIEST)


class _Dispatch:
    """Waiting classes, remaining work of ports, and free ports."""

    def __init__(self, indexed: IndexedResharding) -> None:
        self.indexed = indexed
        self.left = [0.0] * (2 * len(indexed.cards))
        self.free = [True] * len(self.left)
        classes: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
        for number, row in enumerate(indexed.sends):
            senders = tuple(sorted(card for card, _ in row))
            classes.setdefault((senders, indexed.receives[number]), []).append(number)
            self.count(number, 1)
        self.kinds = list(classes)
        self.waiting = list(classes.values())
        for rows in self.waiting:
            rows.sort(key=lambda number: (indexed.least[number], -number))  # the longest at the end
        self.at: list[list[int]] = [[] for _ in self.left]
        for kind, (senders, receivers) in enumerate(self.kinds):
            for port in (*senders, *receivers):
                self.at[port].append(kind)

    def count(self, number: int, sign: int) -> None:
        """Add a waiting slice to the remaining work of its ports; senders share it."""
        for port in self.indexed.receives[number]:
            self.left[port] += sign * self.indexed.least[number]
        row = self.indexed.sends[number]
        for card, ticks in row:
            self.left[card] += sign * ticks / len(row)

    def order(self) -> list[Send]:
        """Return deliveries in the order in which they leave."""
        sends: list[Send] = []
        events: list[tuple[int, int, tuple[int, ...]]] = []
        number, now, freed = count(), 0, set(range(len(self.left)))
        while True:
            for send in self.leaving(freed):
                sends.append(send)
                heappush(
                    events, (now + self.indexed.ticks(send), next(number), self.indexed.ports(send))
                )
            if not events:
                return sends
            now, freed = events[0][0], set()
            while events and events[0][0] == now:
                for port in heappop(events)[2]:
                    self.free[port] = True
                    freed.add(port)

    def leaving(self, freed: set[int]) -> list[Send]:
        """Return deliveries that leave now: only classes with a port that got free can be new."""
        touched = {kind for port in freed for kind in self.at[port] if self.waiting[kind]}
        ready = [kind for kind in touched if self.sender(kind) is not None]
        ready.sort(key=lambda kind: (-self.width(kind), -self.urgency(kind), kind))
        sends = []
        for kind in ready:
            card = self.sender(kind)
            if card is None:
                continue
            slice_number = self.waiting[kind].pop()
            self.count(slice_number, -1)
            for port in self.indexed.ports((slice_number, card)):
                self.free[port] = False
            sends.append((slice_number, card))
        return sends

    def sender(self, kind: int) -> int | None:
        """Return the free sender with least left, where receivers are free; ``None`` otherwise."""
        senders, receivers = self.kinds[kind]
        if not all(self.free[port] for port in receivers):
            return None
        ready = [card for card in senders if self.free[card]]
        return min(ready, key=lambda card: (self.left[card], card), default=None)

    def width(self, kind: int) -> int:
        """Return the number of ports that must be free at once: wide classes seldom find them."""
        return len(self.kinds[kind][1])

    def urgency(self, kind: int) -> float:
        """Return the remaining work of the busiest port of a class; other senders can wait."""
        senders, receivers = self.kinds[kind]
        last = min(self.left[card] for card in senders)
        return max(last, *(self.left[port] for port in receivers))
