"""A large neighbourhood: the classes of two devices split anew between them, best of all ways.

Along an order of the classes a net is begun, then done; how its classes lie so far is all that the
loads still depend on. So a dynamic programme over these states and the load of the first device
finds the least load of the second, for every load of the first. On layer graphs states are few;
where they are many a pair is left out. Passes that count apart are not looked at.

The search takes pairs at random and from their frontier the least sum of loads, give or take,
within a limit near the best plan's largest load; so transfers that are not worth it go, and the
room they leave wanders from device to device. After some pairs it goes back to the best plan. Loads
are distinguished more finely or less: coarse splits are quick, and different.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import Passes
from milp_plan.core.budget import Budget, OutOfTime, now

from ..serial.graph import SerialGraph, ragged
from ..serial.sweep import read_sweep
from .resplit_loops import NEVER, Ints, Nets, Splits, follow, frontier, splits_of

DIGITS = 40
"""Binary digits of the sum of all work in the loops."""

CELLS = (1 << 8, 1 << 9, 1 << 10, 1 << 11)
"""Most loads of the first device that a split distinguishes; each split draws one of these."""

CYCLE, LONGER, MOST_CYCLE = 60.0, 1.2, 3000.0
"""Pairs before the search goes back to the best; how many more after a failure, and at most."""

MARGIN = 0.003
"""How far above the best plan's largest load the search may go at first."""

SPREAD = 0.01
"""Largest noise on the sum of two loads, in parts of the best plan's largest load."""

STRICT, WORST = 0.2, 0.4
"""Share of pairs that have to be better than the best plan, and of pairs with the worst device."""

ROOM = 1.05
"""Load of the first device that is looked at, in parts of what the larger of the two has now."""

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

    Attributes
    ----------
    best, least
        Places that are split, and their largest load.
    found
        What is better than all that was offered, until somebody takes it.
    stopped
        Ends the search soon.
    """

    def __init__(self, graph: SerialGraph, order: tuple[int, ...], seed: int = 0) -> None:
        self.graph, self.rng = graph, Random(seed)
        self.order = np.array(order, dtype=np.int64)
        self.best: Ints | None = None
        self.least, self.stopped, self.length = NEVER, False, CYCLE
        self.found: Ints | None = None
        self.payers, self.devices = len(graph.payers), len(graph.payers) + len(graph.hosts)
        total = max(1, sum(ticks or 0 for ticks in graph.work))
        self.total = total
        times = graph.work, graph.host_work
        self.own = np.array([[self.units(ticks) for ticks in row] for row in times])
        self.memory = [float("inf") if limit is None else float(limit) for limit in graph.limits]
        self.size = np.array([float(size) for size in graph.size])
        self.pins = list(graph.merged_nets)
        of: list[list[int]] = [[] for _ in range(len(graph))]
        for number, members in enumerate(self.pins):
            for member in members:
                of[member].append(number)
        self.nets = Nets(
            *ragged(of),
            np.array([len(members) for members in self.pins], dtype=np.int64),
            np.array([self.units(ticks) for ticks in graph.merged_nets.values()], dtype=np.int64),
        )

    def units(self, ticks: int | None) -> int:
        """Ticks in the units of the loops; -1 where a class cannot be."""
        return -1 if ticks is None else (ticks << DIGITS) // self.total

    def loads(self, places: Ints) -> NDArray[np.int64]:
        """Load of each device, in units."""
        found = np.zeros(self.devices, dtype=np.int64)
        for number, place in enumerate(places.tolist()):
            found[place] += self.own[int(place >= self.payers), number]
        for pins, cost in zip(self.pins, self.nets.cost, strict=True):
            homes = {int(places[pin]) for pin in pins}
            if len(homes) > 1:
                for home in homes:
                    found[home] += cost if home < self.payers else 0
        return found

    def offer(self, places: Sequence[int]) -> None:
        """Go on from places if they are better than the best."""
        offered = np.array(places, dtype=np.int64)
        value = int(self.loads(offered).max())
        if value < self.least:
            self.least, self.best = value, offered

    def run(self, until: float, _end: float = float("inf")) -> None:
        """Split pairs until a point in time, or until ``stopped`` is set."""
        while self.best is not None and now() < until and not self.stopped:
            self.cycle(until)

    def cycle(self, end: float = float("inf")) -> None:
        """Split pairs from the best places on; longer and longer without success."""
        assert self.best is not None
        better = self.search(self.best, int(self.length), end)
        if better is None:
            self.length = min(MOST_CYCLE, LONGER * self.length)
        else:
            self.found, self.length = better, CYCLE
            self.offer(better.tolist())

    def search(self, places: Ints, pairs: int, end: float) -> Ints | None:
        """Split pairs until their number or the time is up; return better places, or ``None``."""
        best, found = places, None
        here, loads = best.copy(), self.loads(best)
        least = int(self.loads(best).max())
        for turn in range(pairs):
            if now() >= end or self.stopped:
                break
            margin = MARGIN * (1 - turn / pairs)
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

    def splits(self, places: Ints, pair: Pair) -> tuple[Splits, Ints] | None:
        """Return the moves of a pair of devices, and its classes; ``None`` if too many."""
        union = self.order[(places[self.order] == pair[0]) | (places[self.order] == pair[1])]
        own = np.stack([self.own[int(device >= self.payers)] for device in pair])
        pays = np.array([int(device < self.payers) for device in pair])
        able, splits = splits_of(self.nets, union, own, pays)
        return (splits, union) if able and len(union) else None

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
        shift = (ceiling // self.rng.choice(CELLS)).bit_length()
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
