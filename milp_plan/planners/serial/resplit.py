"""A large neighbourhood: the classes of two devices split anew between them, best of all ways.

Along an order of the classes a net is begun, then done; how its classes lie so far is all that the
loads still depend on. So a dynamic programme over these states and the load of the first device
finds the least load of the second, for every load of the first. On layer graphs states are few;
where they are many a pair is left out. Passes that count apart are not looked at.

The search takes pairs at random and from their frontier the least sum of loads, give or take,
within a limit near the best plan's largest load; so transfers that are not worth it go, and the
room they leave wanders from device to device. After some pairs it goes back to the best plan.
"""

from __future__ import annotations

from random import Random

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import Passes
from milp_plan.core.budget import Budget, OutOfTime, now
from milp_plan.serial import SerialGraph
from milp_plan.serial.sweep import read_sweep

from .resplit_loops import NEVER, Ints, Splits, follow, frontier

DIGITS = 40
"""Binary digits of the sum of all work in the loops."""

CELLS = 1 << 13
"""Loads of the first device that are told apart, at most."""

MOST_STATES = 1 << 13
"""States of a pair, over all its classes, at most."""

MOST_ABREAST = 128
"""States after one class, at most: a move is then a number of one byte."""

CYCLE, MARGIN = 60, 0.003
"""Pairs before the search goes back to the best, and how far above its load it may go at first."""

SPREAD = 0.01
"""Largest noise on the sum of two loads, in parts of the best plan's largest load."""

STRICT, WORST = 0.2, 0.4
"""Share of pairs that have to be better than the best plan, and of pairs with the worst device."""

ROOM = 1.05
"""Load of the first device that is looked at, in parts of what the larger of the two has now."""

Key = tuple[tuple[int, int], ...]
Pair = tuple[int, int]


class Resplitting:
    """Pairs of devices, split again and again.

    Parameters
    ----------
    graph
        A problem whose passes count together.
    order
        Of the classes; the fewer nets are open along it the better.
    seed
        Equal seeds give equal searches.
    """

    def __init__(self, graph: SerialGraph, order: tuple[int, ...], seed: int = 0) -> None:
        self.graph, self.order, self.rng = graph, order, Random(seed)
        self.payers, self.devices = len(graph.payers), len(graph.payers) + len(graph.hosts)
        total = max(1, sum(ticks or 0 for ticks in graph.work))
        self.total = total
        self.work = [self.units(ticks) for ticks in graph.work]
        self.host = [self.units(ticks) for ticks in graph.host_work]
        merged: dict[tuple[int, ...], int] = {}
        for net in graph.nets:
            pins = tuple(sorted((net.source, *net.readers)))
            merged[pins] = merged.get(pins, 0) + net.ticks
        limits = [graph.memory] * self.payers + [graph.host_memory] * len(graph.hosts)
        self.memory = [float("inf") if limit is None else float(limit) for limit in limits]
        self.size = np.array([float(size) for size in graph.size])
        self.pins = [pins for pins, ticks in merged.items() if ticks]
        self.cost = [self.units(ticks) or 0 for ticks in merged.values() if ticks]
        self.of: list[list[int]] = [[] for _ in range(len(graph))]
        for number, members in enumerate(self.pins):
            for member in members:
                self.of[member].append(number)

    def units(self, ticks: int | None) -> int | None:
        """Ticks in the units of the loops."""
        return None if ticks is None else (ticks << DIGITS) // self.total

    def loads(self, places: Ints) -> NDArray[np.int64]:
        """Load of each device, in units."""
        found = np.zeros(self.devices, dtype=np.int64)
        for number, place in enumerate(places.tolist()):
            found[place] += (self.work if place < self.payers else self.host)[number] or 0
        for pins, cost in zip(self.pins, self.cost, strict=True):
            homes = {int(places[pin]) for pin in pins}
            if len(homes) > 1:
                for home in homes:
                    found[home] += cost if home < self.payers else 0
        return found

    def search(self, places: Ints, pairs: int, end: float) -> Ints | None:
        """Split so many pairs, or until a point in time; the best places if they are better."""
        best, found = places, None
        least = int(self.loads(best).max())
        for turn in range(pairs):
            if now() >= end:
                break
            if turn % CYCLE == 0:
                here, loads = best.copy(), self.loads(best)
            margin = MARGIN * (1 - turn % CYCLE / CYCLE)
            after, changed = here.copy(), loads.copy()
            limit = least - 1
            if self.rng.random() >= STRICT:
                limit = int(least * (1 + margin * self.rng.random()))
            spread = least * SPREAD * self.rng.random() ** 3
            if not self.resplit(after, changed, self.pair(loads), limit, spread):
                continue
            if int(changed.max()) > least * (1 + margin) or not self.fits(after):
                continue
            here, loads = after, changed
            if int(loads.max()) < least:
                least, best = int(loads.max()), here.copy()
                found = best
        return found

    def pair(self, loads: Ints) -> Pair:
        """Two devices, often with the one of the largest load; a host is the second."""
        first, second = self.rng.sample(range(self.devices), 2)
        worst = int(loads.argmax())
        if self.rng.random() < WORST and second != worst:
            first = worst
        return min(first, second), max(first, second)

    def fits(self, places: Ints) -> bool:
        """Whether every device holds its classes."""
        held = np.bincount(places, weights=self.size, minlength=self.devices)
        return bool((held <= np.array(self.memory)).all())

    # -- one pair ----------------------------------------------------------------------------

    def splits(self, places: Ints, pair: Pair) -> tuple[Splits, list[int]] | None:
        """Return the moves of a pair of devices, and its classes; ``None`` if too many."""
        union = [number for number in self.order if int(places[number]) in pair]
        left: dict[int, int] = {}
        for number in union:
            for net in self.of[number]:
                left[net] = left.get(net, 0) + 1
        outer = {net for net, many in left.items() if many < len(self.pins[net])}
        states: dict[Key, int] = {(): 0}
        rows: list[list[int]] = []
        start, counts = [0], list[int]()
        for number in union:
            for net in self.of[number]:
                left[net] -= 1
            done = {net for net in self.of[number] if not left[net]}
            after: dict[Key, int] = {}
            for state, source in states.items():
                for side in (0, 1):
                    own = (self.work if pair[side] < self.payers else self.host)[number]
                    if own is None:
                        continue
                    added, known = self.charged(state, number, side, outer)
                    key = tuple(sorted((net, on) for net, on in known.items() if net not in done))
                    # hosts do not pay
                    added = [int(pair[turn] < self.payers) * added[turn] for turn in (0, 1)]
                    added[side] += own
                    rows.append([source, after.setdefault(key, len(after)), side, *added])
            states = after
            if not states or len(states) > MOST_ABREAST or sum(counts) > MOST_STATES:
                return None
            start.append(len(rows))
            counts.append(len(states))
        table = np.array(rows, dtype=np.int64).reshape(-1, 5)
        origin, target, sides, one, two = (np.ascontiguousarray(table[:, at]) for at in range(5))
        first, widths = np.array(start, dtype=np.int64), np.array(counts, dtype=np.int64)
        return Splits(first, origin, target, sides, one, two, widths), union

    def charged(
        self, state: Key, number: int, side: int, outer: set[int]
    ) -> tuple[list[int], dict[int, int]]:
        """What both devices pay for nets when a class goes to a side, and how its nets lie then.

        A net's state says which sides it is on: 1, 2, or 3 for both. One with classes elsewhere
        is paid by each side it is on, any other by both sides once it is on both.
        """
        known, added = dict(state), [0, 0]
        for net in self.of[number]:
            before = known.get(net, 0)
            known[net] = before | 1 << side
            if known[net] == before:
                continue
            if net in outer:
                added[side] += self.cost[net]
            elif before:
                added = [paid + self.cost[net] for paid in added]
        return added, known

    def resplit(
        self, places: Ints, loads: Ints, pair: Pair, limit: int, spread: float = 0.0
    ) -> bool:
        """Split two devices with the least sum of loads within a limit; False if it cannot be done.

        ``places`` and ``loads`` change; the sum may be off by the spread.
        """
        made = self.splits(places, pair)
        if made is None:
            return False
        splits, union = made
        ceiling = int(loads[list(pair)].max() * ROOM) + 1
        shift = (ceiling // CELLS).bit_length()
        cells = (ceiling >> shift) + 1
        trail = np.zeros((int(splits.states.sum()), cells), dtype=np.uint8)
        one, two = frontier(splits, cells, shift, trail)
        at = self.choose(one, two, limit, spread)
        if at < 0:
            return False
        sides = follow(splits, shift, trail, int(one[at]))
        places[union] = np.array(pair)[sides]
        loads[list(pair)] = one[at], two[at]
        return True

    def choose(self, one: Ints, two: Ints, limit: int, spread: float) -> int:
        """Cell of the frontier with the least sum of loads within a limit, give or take a spread.

        Where none is within the limit, that of the least larger load; -1 where nothing is.
        """
        larger = np.maximum(one, two)
        within = np.flatnonzero(larger <= limit)
        if not len(within):
            at = int(larger.argmin())
            return at if larger[at] < NEVER else -1
        noise = np.array([self.rng.random() for _ in range(len(within))]) * spread
        return int(within[int((one[within] + two[within] + noise).argmin())])


def resplitting(graph: SerialGraph, budget: Budget, seed: int = 0) -> Resplitting | None:
    """Return the search for a problem; ``None`` where passes or too many states are in the way."""
    if graph.law.passes is Passes.SEPARATE:
        return None
    try:
        sweep = read_sweep(graph, budget)
    except OutOfTime:
        return None
    if sweep is None:
        return None
    return Resplitting(graph, tuple(step.number for step in sweep.steps), seed)
