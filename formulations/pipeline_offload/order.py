"""The order of journeys on offload lanes, as rows.

Each lane carries one journey at a time. Where two values are interchangeable, their journeys stand
in the order of their producers (out) or of their first readers (back); elsewhere a column says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import pyomo.environ as pyo

from milp_plan.kinds.pipeline.holds import Held, OffloadShop
from milp_plan.kinds.pipeline.precedence import Precedence

from .lanes import Trips, interchangeable

LETTERS = ("out", "back")
"""Of the two ways."""

Bits = Mapping[str, set[Any]]
"""Family of columns -> indices of those that are 1."""


class LaneOrder:
    """Rows and columns of the order on lanes, added to a model of steps and journeys.

    Parameters
    ----------
    model
        Builder with ``m`` (columns ``out``, ``back``), ``shop``, ``moving``, windows (``ready``,
        ``last_start``), ``first(x, y)``, ``leave(value)`` and ``after_if``.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.m, self.shop = model, model.m, model.shop
        self.moving: Mapping[str, Held] = model.moving
        self.m.lane_order = pyo.Var(pyo.Any, domain=pyo.Binary, dense=False)
        self.m.turn = pyo.ConstraintList()

    def write(self) -> None:
        """Journeys on one lane in turn; interchangeable ones in canonical order."""
        for j, k, way in _meetings(self.moving):
            ahead = self.ahead(j, k, way)
            self.turn(j, k, way, ahead)
            self.turn(k, j, way, 1 - ahead)

    def ahead(self, j: str, k: str, way: int) -> Any:
        """1 where j is ahead of k on a lane, if both travel."""
        pair = _in_turn(self.shop, self.moving[j], self.moving[k], way)
        if pair is None:
            return self.m.lane_order[self.moving[j].lanes[way], j, k]
        return self.model.first(*pair)

    def turn(self, j: str, k: str, way: int, ahead: Any) -> None:
        """Where j is ahead of k and both travel, k leaves when j has arrived."""
        if isinstance(ahead, int) and ahead == 0:
            return
        column = (self.m.out, self.m.back)[way]
        ticks = _ticks(self.moving[j], way)
        slack = 3 - ahead - self.model.leave(j) - self.model.leave(k)
        stop = column[j] + ticks / self.model.unit, self.model.last_start[j] + ticks
        self.model.after_if(self.m.turn, stop, (column[k], self.model.ready[k]), slack)

    def encode(self, trips: Trips) -> None:
        """Set the columns as journeys say."""
        for lane, j, k in self.m.lane_order:
            way = self.moving[j].lanes.index(lane)
            ahead = j in trips and k in trips and trips[j][way] < trips[k][way]
            self.m.lane_order[lane, j, k].set_value(int(ahead))

    @staticmethod
    def arcs(
        shop: OffloadShop,
        order: Precedence,
        moving: Mapping[str, Held],
        bits: Bits,
    ) -> Iterator[tuple[tuple[str, str], tuple[str, str], int]]:
        """Who follows whom on a lane, as decided: (way and value, way and value, ticks)."""
        for j, k, way in _meetings(moving):
            a, b = (j, k) if _was_ahead(shop, order, (moving[j], moving[k]), way, bits) else (k, j)
            yield (LETTERS[way], a), (LETTERS[way], b), _ticks(moving[a], way)


def _meetings(moving: Mapping[str, Held]) -> Iterator[tuple[str, str, int]]:
    """Pairs of values whose journeys of one way use the same lane."""
    for j, k in combinations(moving, 2):
        for way in range(len(LETTERS)):
            if moving[j].lanes[way] == moving[k].lanes[way]:
                yield j, k, way


def _ticks(held: Held, way: int) -> int:
    return (held.out_ns, held.back_ns)[way]


def _in_turn(shop: OffloadShop, one: Held, two: Held, way: int) -> tuple[str, str] | None:
    """Steps whose order is that of two journeys on a lane; ``None`` where it is free."""
    if not interchangeable(shop, one, two):
        return None
    if way == 0:
        return one.producer, two.producer
    first, other = shop.first_reader(one), shop.first_reader(two)
    return None if first is None or other is None or first == other else (first, other)


def _was_ahead(
    shop: OffloadShop,
    order: Precedence,
    pair: tuple[Held, Held],
    way: int,
    bits: Bits,
) -> bool:
    """As :meth:`LaneOrder.ahead`, from decided bits."""
    one, two = pair
    steps = _in_turn(shop, one, two, way)
    if steps is None:
        return (one.lanes[way], one.value, two.value) in bits["lane_order"]
    if order.surely(*steps) or order.surely(*steps[::-1]):
        return order.surely(*steps)
    forward = order.names.index(steps[0]) < order.names.index(steps[1])
    return (steps in bits["before"]) if forward else (steps[::-1] not in bits["before"])
