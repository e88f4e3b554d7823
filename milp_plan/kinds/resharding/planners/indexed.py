"""A resharding problem by numbers, and plans from orders of deliveries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ..problem import Delivery, ReshardingPlan, ReshardingProblem

Send = tuple[int, int]
"""A slice and one of its senders, by number."""


@dataclass(frozen=True)
class IndexedResharding:
    """Slices, senders and ports by number: card c sends at port c and receives at port n + c."""

    problem: ReshardingProblem

    @cached_property
    def cards(self) -> dict[str, int]:
        """Numbers of cards."""
        return {card.name: number for number, card in enumerate(self.problem.cards)}

    @cached_property
    def sends(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Senders of each slice, with the ticks of each."""
        problem = self.problem
        return tuple(
            tuple((self.cards[name], problem.ticks(entry, name)) for name in entry.senders)
            for entry in problem.slices
        )

    @cached_property
    def receives(self) -> tuple[tuple[int, ...], ...]:
        """Receiving ports of each slice."""
        count = len(self.cards)
        return tuple(
            tuple(count + self.cards[name] for name in entry.receivers)
            for entry in self.problem.slices
        )

    @cached_property
    def least(self) -> tuple[int, ...]:
        """Ticks of each slice from its fastest sender."""
        return tuple(min(ticks for _, ticks in row) for row in self.sends)

    def ticks(self, send: Send) -> int:
        """Return the ticks of a slice from a sender."""
        return dict(self.sends[send[0]])[send[1]]

    def ports(self, send: Send) -> tuple[int, ...]:
        """Return the ports of a delivery."""
        return (send[1], *self.receives[send[0]])

    def plan(self, order: Iterable[Send], planner: str) -> ReshardingPlan:
        """Return the plan in which each delivery of an order starts as soon as its ports are free.

        Every plan that cannot be improved by starting one delivery earlier is that of its own order
        of starts.
        """
        free = [0] * (2 * len(self.cards))
        deliveries = []
        for send in order:
            ports = self.ports(send)
            start = max(free[port] for port in ports)
            stop = start + self.ticks(send)
            for port in ports:
                free[port] = stop
            name = self.problem.slices[send[0]].name
            deliveries.append(Delivery(name, self.problem.cards[send[1]].name, start, stop))
        value = max((entry.stop for entry in deliveries), default=0)
        return ReshardingPlan(
            self.problem.name, tuple(deliveries), self.problem.fingerprint, value, planner
        )
