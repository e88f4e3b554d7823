"""Which operators a round of the search frees, and where they may go.

Every chooser starts at a task on a critical path: a window that leaves one whole cannot help.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from .tape import Tape


class WindowChoice(NamedTuple):
    """Operators to free, sites they may go to (``None``: all), and whether order alone is free."""

    free: tuple[int, ...]
    sites: frozenset[int] | None = None
    order_only: bool = False


Chooser = Callable[[Tape, random.Random, int], WindowChoice]

MOST_SITES = 4
"""Sites beside its own that a free operator may go to, where there are many."""

ORDER_FACTOR = 3
"""Factor on the number of free operators where only their order is free."""


class Around:
    """A plan seen from a critical moment."""

    def __init__(self, tape: Tape, rng: random.Random) -> None:
        self.tape, self.rng, self.view = tape, rng, tape.view
        self.critical = tape.critical
        self.task = rng.choice(self.critical)
        self.moment = int(tape.start[self.task]) * 2 + int(tape.length[self.task])

    def ends(self) -> list[int]:
        """The operator at the moment, or the makers and readers of the transfer there."""
        n = self.view.num_operators
        if self.task < n:
            return [self.task]
        journey = self.tape.journeys[self.task - n]
        return [self.view.producer[journey.key[0]], *self.tape.readers[self.task - n]]

    def nearest(self, operators: Sequence[int], size: int) -> list[int]:
        """The operators nearest to the moment in time."""
        tape, among = self.tape, np.asarray(operators, dtype=np.int64)
        far = np.abs(2 * tape.start[among] + tape.length[among] - self.moment)
        found: list[int] = among[np.argsort(far, kind="stable")[:size]].tolist()
        return found

    def devices(self) -> set[int]:
        """Devices at the moment."""
        return {device for op in self.ends() for device in self.tape.spots[op].devices}

    def sites(self, operators: Iterable[int]) -> frozenset[int] | None:
        """Sites worth a try: of neighbours in the graph, and a few at random."""
        view, spots = self.view, self.tape.spots
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
        """Add the rest of colocation groups, as far as the size allows, so that they can move."""
        found = dict.fromkeys(chosen)
        room = size
        for op in list(found):
            members = self.view.units[self.view.unit[op]]
            new = [other for other in members if other not in found]
            if len(new) <= room:
                found.update(dict.fromkeys(new))
                room -= len(new)
        return tuple(found)


def time_window(tape: Tape, rng: random.Random, size: int) -> WindowChoice:
    """Everything that runs around a critical moment."""
    around = Around(tape, rng)
    chosen = around.nearest(range(tape.view.num_operators), size)
    return WindowChoice(around.with_units(chosen, size), around.sites(chosen))


def order_window(tape: Tape, rng: random.Random, size: int) -> WindowChoice:
    """Everything that runs around a critical moment; only its order is free."""
    around = Around(tape, rng)
    chosen = around.nearest(range(tape.view.num_operators), ORDER_FACTOR * size)
    return WindowChoice(tuple(chosen), None, True)


def device_pair(tape: Tape, rng: random.Random, size: int) -> WindowChoice:
    """What runs on two devices around a critical moment; it may change places."""
    around = Around(tape, rng)
    pair = set(rng.sample(sorted(around.devices()), 1))
    used = sorted({d for spot in tape.spots for d in spot.devices} - pair)
    pair.update(rng.sample(used, min(1, len(used))))
    names = [op for op, spot in enumerate(tape.spots) if pair & set(spot.devices)]
    chosen = around.nearest(names, size)
    return WindowChoice(around.with_units(chosen, size), frozenset(pair))


def region(tape: Tape, rng: random.Random, size: int) -> WindowChoice:
    """What is around a critical task in the graph."""
    around = Around(tape, rng)
    found = dict.fromkeys(around.ends())
    frontier = list(found)
    view = tape.view
    while frontier and len(found) < size:
        near = [n for op in frontier for n in (*view.predecessors[op], *view.successors[op])]
        frontier = [op for op in dict.fromkeys(near) if op not in found]
        rng.shuffle(frontier)
        found.update(dict.fromkeys(frontier[: size - len(found)]))
    chosen = list(found)
    return WindowChoice(around.with_units(chosen, size), around.sites(chosen))


def boundary(tape: Tape, rng: random.Random, size: int) -> WindowChoice:
    """Whole groups at both ends of a cut between two devices, in all micro-batches."""
    around = Around(tape, rng)
    view, spots = tape.view, tape.spots
    crossing = [
        (op, other)
        for op in around.critical
        if op < view.num_operators
        for other in view.successors[op]
        if spots[op].site != spots[other].site
    ]
    if not crossing:
        return region(tape, rng, size)
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


def blocks(tape: Tape, rng: random.Random, size: int) -> WindowChoice:
    """A few neighbouring groups in all micro-batches, free to go to a few sites."""
    around = Around(tape, rng)
    view = tape.view
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
