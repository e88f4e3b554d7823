"""Neighbourhoods: which operators a round of the search frees, and where they may go.

Every chooser starts at a task on a critical path: a window without one cannot improve the plan.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from .timeline import Timeline


class WindowChoice(NamedTuple):
    """Operators to free, sites they may go to (``None``: all), and whether order alone is free."""

    free: tuple[int, ...]
    sites: frozenset[int] | None = None
    order_only: bool = False


Chooser = Callable[[Timeline, random.Random, int], WindowChoice]

MOST_SITES = 4
"""Most sites other than its own that a free operator may go to."""

ORDER_FACTOR = 3
"""Factor on the number of free operators where only their order is free."""


class CriticalMoment:
    """A random critical task of a plan, its time, and what is near it.

    Parameters
    ----------
    timeline
        The plan.
    rng
        Random choices.
    """

    def __init__(self, timeline: Timeline, rng: random.Random) -> None:
        self.timeline, self.rng, self.view = timeline, rng, timeline.view
        self.critical = timeline.critical
        self.task = rng.choice(self.critical)
        self.moment = int(timeline.start[self.task]) * 2 + int(timeline.length[self.task])

    def ends(self) -> list[int]:
        """Return the critical operator, or the maker and readers of the critical transfer."""
        n = self.view.num_operators
        if self.task < n:
            return [self.task]
        journey = self.timeline.journeys[self.task - n]
        return [self.view.producer[journey.key[0]], *self.timeline.readers[self.task - n]]

    def nearest(self, operators: Sequence[int], size: int) -> list[int]:
        """Return the operators nearest to the moment in time."""
        timeline, among = self.timeline, np.asarray(operators, dtype=np.int64)
        distance = np.abs(2 * timeline.start[among] + timeline.length[among] - self.moment)
        nearest: list[int] = among[np.argsort(distance, kind="stable")[:size]].tolist()
        return nearest

    def devices(self) -> set[int]:
        """Return the devices of the operators at the moment."""
        return {device for op in self.ends() for device in self.timeline.spots[op].devices}

    def sites(self, operators: Iterable[int]) -> frozenset[int] | None:
        """Return a few sites: those of neighbours in the graph, then random ones."""
        view, spots = self.view, self.timeline.spots
        if len(view.sites) <= MOST_SITES + 1:
            return None
        near = {
            spots[other].site
            for op in operators
            for other in (*view.predecessors[op], *view.successors[op])
        }
        known = sorted(near)
        self.rng.shuffle(known)
        others = self.rng.sample(range(len(view.sites)), MOST_SITES)
        return frozenset([*known, *others][:MOST_SITES])

    def with_units(self, chosen: Iterable[int], size: int) -> tuple[int, ...]:
        """Complete colocation groups by at most ``size`` operators, so that they can move."""
        operators = dict.fromkeys(chosen)
        room = size
        for op in list(operators):
            members = self.view.units[self.view.unit[op]]
            new = [other for other in members if other not in operators]
            if len(new) <= room:
                operators.update(dict.fromkeys(new))
                room -= len(new)
        return tuple(operators)


def time_window(timeline: Timeline, rng: random.Random, size: int) -> WindowChoice:
    """Free the operators that run around a critical moment."""
    around = CriticalMoment(timeline, rng)
    chosen = around.nearest(range(timeline.view.num_operators), size)
    return WindowChoice(around.with_units(chosen, size), around.sites(chosen))


def order_window(timeline: Timeline, rng: random.Random, size: int) -> WindowChoice:
    """Free the order, but not the places, of operators that run around a critical moment."""
    around = CriticalMoment(timeline, rng)
    chosen = around.nearest(range(timeline.view.num_operators), ORDER_FACTOR * size)
    return WindowChoice(tuple(chosen), None, True)


def device_pair(timeline: Timeline, rng: random.Random, size: int) -> WindowChoice:
    """Free operators on two devices around a critical moment; they may go to either device."""
    around = CriticalMoment(timeline, rng)
    pair = set(rng.sample(sorted(around.devices()), 1))
    used = sorted({d for spot in timeline.spots for d in spot.devices} - pair)
    pair.update(rng.sample(used, min(1, len(used))))
    names = [op for op, spot in enumerate(timeline.spots) if pair & set(spot.devices)]
    chosen = around.nearest(names, size)
    return WindowChoice(around.with_units(chosen, size), frozenset(pair))


def region(timeline: Timeline, rng: random.Random, size: int) -> WindowChoice:
    """Free the operators around a critical task in the graph."""
    around = CriticalMoment(timeline, rng)
    operators = dict.fromkeys(around.ends())
    frontier = list(operators)
    view = timeline.view
    while frontier and len(operators) < size:
        near = [n for op in frontier for n in (*view.predecessors[op], *view.successors[op])]
        frontier = [op for op in dict.fromkeys(near) if op not in operators]
        rng.shuffle(frontier)
        operators.update(dict.fromkeys(frontier[: size - len(operators)]))
    chosen = list(operators)
    return WindowChoice(around.with_units(chosen, size), around.sites(chosen))


def boundary(timeline: Timeline, rng: random.Random, size: int) -> WindowChoice:
    """Free whole groups at both ends of a cut between two devices, in all micro-batches."""
    around = CriticalMoment(timeline, rng)
    view, spots = timeline.view, timeline.spots
    crossing = [
        (op, other)
        for op in around.critical
        if op < view.num_operators
        for other in view.successors[op]
        if spots[op].site != spots[other].site
    ]
    if not crossing:
        return region(timeline, rng, size)
    ends = rng.choice(crossing)
    sites = frozenset(spots[op].site for op in ends)
    units = dict.fromkeys(view.unit[op] for op in ends)
    frontier = list(units)
    count = 0
    chosen: list[int] = []
    while frontier and count < size:
        unit = frontier.pop(0)
        members = view.units[unit]
        if count and count + len(members) > 2 * size:
            continue
        chosen += members
        count += len(members)
        for op in members:
            for other in (*view.predecessors[op], *view.successors[op]):
                if view.unit[other] not in units and spots[other].site in sites:
                    units[view.unit[other]] = None
                    frontier.append(view.unit[other])
    return WindowChoice(tuple(chosen), sites)


def blocks(timeline: Timeline, rng: random.Random, size: int) -> WindowChoice:
    """Free a few neighbouring groups in all micro-batches; they may go to a few sites."""
    around = CriticalMoment(timeline, rng)
    view = timeline.view
    units = dict.fromkeys(view.unit[op] for op in around.ends())
    frontier = list(units)
    chosen: list[int] = []
    while frontier and len(chosen) < size:
        unit = frontier.pop(rng.randrange(len(frontier)))
        members = view.units[unit]
        if chosen and len(chosen) + len(members) > size:
            continue
        chosen += members
        for op in members:
            for other in (*view.predecessors[op], *view.successors[op]):
                if view.unit[other] not in units:
                    units[view.unit[other]] = None
                    frontier.append(view.unit[other])
    return WindowChoice(tuple(chosen), around.sites(chosen))


CHOOSERS: dict[str, Chooser] = {
    "time window": time_window,
    "order": order_window,
    "device pair": device_pair,
    "region": region,
    "boundary": boundary,
    "blocks": blocks,
}
