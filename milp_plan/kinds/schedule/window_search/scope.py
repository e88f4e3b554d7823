"""A window of a plan: placements of free operators, the values they touch, and time limits.

Fixed operators keep their placement and their order among each other on every resource, and so do
transfers between them. This and a horizon give every task a head and a tail, and the free
operators that come before or after it in every plan of the window.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from ..planners.indexed import Leg, Spot
from .loops import Integers, ancestry, backward, forward
from .timeline import Timeline

Pair = tuple[Spot, Spot]
"""Placements of the maker and of a reader of a value."""

Packed = tuple[Integers, Integers, Integers]
"""(first of each task, task before it, ticks between)."""

FIXED, FREE, GONE = 0, 1, 2
"""States of a task. The plan's transfers of values that free operators make or read are gone."""


@dataclass(slots=True, eq=False)
class Edge:
    """A reader of a touched value, and the transfers that each pair of placements needs."""

    value: int
    maker: int
    reader: int
    legs: dict[Pair, tuple[Leg, ...]]

    def ticks(self, pair: Pair) -> int:
        """Return the duration of the longest transfer for a pair of placements."""
        legs = self.legs[pair]
        if not legs:
            return 0
        return legs[0].duration if len(legs) == 1 else max(leg.duration for leg in legs)


class Scope:
    """A window of a plan, whose free operators may be placed and ordered anew.

    Parameters
    ----------
    timeline
        The plan.
    free
        Operators that may move. Those of a colocation group keep its site unless the whole group
        is free.
    horizon
        Latest stop of the last operator, in units of the view.
    sites
        Sites to which operators may move; ``None`` for all.

    Attributes
    ----------
    open
        Whether heads and tails leave room for a plan of the window by the horizon.
    spots
        Free operator -> its possible placements.
    edges
        Readers of the values that free operators make or read.
    head, tail
        Per task, least time before its start and after its stop.
    state
        Per task, whether it is fixed, free or gone.
    """

    def __init__(
        self,
        timeline: Timeline,
        free: Iterable[int],
        horizon: int,
        *,
        sites: Collection[int] | None = None,
    ) -> None:
        self.timeline, self.view, self.horizon = timeline, timeline.view, horizon
        self.sites = sites
        self.free = sorted(free, key=lambda operator: int(timeline.place[operator]))
        chosen = set(self.free)
        self.movable = {
            unit
            for unit in {self.view.unit[operator] for operator in self.free}
            if chosen.issuperset(self.view.units[unit])
        }
        self.spots = {operator: self._candidates(operator) for operator in self.free}
        view = self.view
        values = [v for op in self.free for v, _ in view.spots[op][0].reads]
        values += [v for op in self.free for v, _, _ in view.spots[op][0].writes]
        self.values = [v for v in dict.fromkeys(values) if view.producer[v] >= 0]
        self.touched = np.zeros(len(view.values), np.bool_)
        self.touched[self.values] = True
        self.state = np.zeros(timeline.num_tasks, np.int64)
        self.state[self.free] = FREE
        for value in self.values:
            self.state[timeline.touching[value]] = GONE
        self.edges: list[Edge] = []
        self._measure()
        if self.open:  # otherwise it is closed even without transfer times
            self.edges = [edge for value in self.values for edge in self._edges(value)]
            self._measure()
        if self.open and self._prune():
            self._measure()

    def _candidates(self, operator: int) -> list[Spot]:
        """Return the placements an operator may take, its own first."""
        here, unit = self.timeline.spots[operator], self.view.unit[operator]
        allowed = {here.site}
        if unit in self.movable:
            allowed.update(
                s for s in self.view.unit_sites[unit] if self.sites is None or s in self.sites
            )
        others = [s for s in self.view.spots[operator] if s.site in allowed and s is not here]
        return [here, *others]

    def of(self, operator: int) -> list[Spot]:
        """Return the possible placements of an operator; a fixed one has its own."""
        return self.spots.get(operator) or [self.timeline.spots[operator]]

    def _edges(self, value: int) -> Iterable[Edge]:
        view = self.view
        maker = view.producer[value]
        for reader in view.consumers[value]:
            together = view.unit[maker] == view.unit[reader]
            legs = {}
            for made in self.of(maker):
                for read in self.of(reader):
                    if not together or made.site == read.site:
                        route = view.legs_between(value, made, read)
                        if route is not None:
                            legs[made, read] = route
            yield Edge(value, maker, reader, legs)

    # -- times -------------------------------------------------------------------------------------

    def _measure(self) -> None:
        timeline = self.timeline
        self.length = timeline.length.copy()
        for operator, spots in self.spots.items():
            self.length[operator] = min(spot.duration for spot in spots)
        self.extra = self._extra()
        self.head, self.tail = np.zeros_like(self.length), np.zeros_like(self.length)
        for loop, result in ((forward, self.head), (backward, self.tail)):
            last = np.zeros(self.view.num_resources, np.int64)
            loop(
                timeline.order,
                self.state,
                self.length,
                timeline.arcs,
                self.touched,
                self.extra,
                timeline.held,
                last,
                result,
            )
        there = self.state != GONE
        self.least = int((self.head + self.length + self.tail)[there].max(initial=0))
        self.open = self.least <= self.horizon and all(edge.legs for edge in self.edges)

    def _extra(self) -> Packed:
        """Return arcs from makers to readers of touched values, with the least transfer time.

        It is 0 while the edges are not known.
        """
        into: dict[int, list[tuple[int, int]]] = {}
        for edge in self.edges:
            ticks = min((edge.ticks(pair) for pair in edge.legs), default=0)
            into.setdefault(edge.reader, []).append((edge.maker, ticks))
        for value in () if self.edges else self.values:
            for reader in self.view.consumers[value]:
                into.setdefault(reader, []).append((self.view.producer[value], 0))
        readers = sorted(into)
        counts = np.zeros(self.timeline.num_tasks + 1, np.int64)
        counts[[reader + 1 for reader in readers]] = [len(into[reader]) for reader in readers]
        flat = [row for reader in readers for row in into[reader]]
        rows = np.array(flat, dtype=np.int64).reshape(-1, 2)
        return np.cumsum(counts), rows[:, 0].copy(), rows[:, 1].copy()

    def _prune(self) -> bool:
        """Remove placements that no plan by the horizon has; return whether there were any."""
        head, tail, length = self.head, self.tail, self.length
        early: dict[Spot, int] = {}
        late: dict[Spot, int] = {}
        for edge in self.edges:
            soon: dict[Spot, int] = {}
            rest: dict[Spot, int] = {}
            begun, stop = int(head[edge.maker]), int(length[edge.reader] + tail[edge.reader])
            for made, read in edge.legs:
                ticks = edge.ticks((made, read))
                ready, after = begun + made.duration + ticks, stop + ticks
                soon[read] = min(ready, soon.get(read, ready))
                rest[made] = min(after, rest.get(made, after))
            never = self.horizon + 1
            for read in self.of(edge.reader):
                early[read] = max(early.get(read, 0), soon.get(read, never))
            for made in self.of(edge.maker):
                late[made] = max(late.get(made, 0), rest.get(made, never))
        gone: set[Spot] = set()
        for operator, spots in self.spots.items():
            bad = [
                spot
                for spot in spots
                if max(int(head[operator]), early.get(spot, 0))
                + spot.duration
                + max(int(tail[operator]), late.get(spot, 0))
                > self.horizon
            ]
            gone.update(bad)
        self._same_sites(gone)
        if not gone:
            return False
        for operator, spots in self.spots.items():
            self.spots[operator] = [spot for spot in spots if spot not in gone]
        if not all(self.spots.values()):
            self.least = self.horizon + 1
            self.open = False
            return False
        for edge in self.edges:
            edge.legs = {pair: legs for pair, legs in edge.legs.items() if gone.isdisjoint(pair)}
        return True

    def _same_sites(self, gone: set[Spot]) -> None:
        """Add placements of units at sites where not all members of the unit can be."""
        for unit in self.movable:
            members = self.view.units[unit]
            common = set.intersection(
                *({s.site for s in self.spots[op] if s not in gone} for op in members)
            )
            gone.update(s for op in members for s in self.spots[op] if s.site not in common)

    def masks(self) -> tuple[list[int], list[int]]:
        """Return, per task, the free operators before and after it in every plan, as bits.

        Bit k is the k-th free operator; an operator's own bit is in both of its masks.
        """
        timeline = self.timeline
        words = (len(self.free) + 63) // 64
        before = np.zeros((timeline.num_tasks, words), np.uint64)
        for number, operator in enumerate(self.free):
            before[operator, number // 64] |= np.uint64(1 << (number % 64))
        after = before.copy()
        last = np.zeros((self.view.num_resources, words), np.uint64)
        ancestry(
            timeline.order,
            self.state,
            timeline.arcs,
            self.touched,
            self.extra,
            timeline.held,
            last,
            before,
            after,
        )
        return _whole(before), _whole(after)


def _whole(words: np.ndarray) -> list[int]:
    """Return one integer per row of words."""
    columns = [words[:, k].tolist() for k in range(words.shape[1])]
    masks: list[int] = columns[0]
    for k, column in enumerate(columns[1:], 1):
        masks = [mask | word << (64 * k) for mask, word in zip(masks, column, strict=True)]
    return masks
