"""A large neighbourhood: the classes of two devices are split optimally between them.

Along an order of the classes a net is begun, then done; the loads depend on the past only by the
sides of the classes of open nets. So a dynamic programme over these states and the load of the
first device finds the least load of the second, for every load of the first. Layer graphs have few
states; a pair with many is left out. Passes that count apart are not supported.

The search takes pairs at random and from their frontier about the least sum of loads within a
limit near the best plan's largest load; so needless transfers disappear, and the room that they
leave moves from device to device. After some pairs it restarts from the best plan. Loads are
counted in finer or coarser cells: coarse splits are quick, and different.
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
"""Numbers of cells for loads of the first device; each split draws one of these."""

CYCLE, LONGER, MAX_CYCLE = 60.0, 1.2, 3000.0
"""Pairs before the search restarts from the best plan; factor after a failure, and maximum."""

MARGIN = 0.003
"""Initial limit of the largest load, relative to the best plan's."""

SPREAD = 0.01
"""Largest noise on the sum of two loads, as a share of the best plan's largest load."""

STRICT, WORST = 0.2, 0.4
"""Shares of pairs that must improve on the best plan, and of pairs with the worst device."""

ROOM = 1.05
"""Largest load of the first device, as a multiple of the pair's present larger load."""

Pair = tuple[int, int]


class Resplitting:
    """A search that splits pairs of devices again and again.

    Parameters
    ----------
    graph
        A problem whose passes count together.
    order
        Order of the classes; few nets should be open along it.
    seed
        Equal seeds give equal searches.

    Attributes
    ----------
    best, least
        Best known places, and their largest load.
    improved
        Places better than all that were offered, until a caller takes them.
    stopped
        Event that ends the search soon.
    """

    def __init__(self, graph: SerialGraph, order: tuple[int, ...], seed: int = 0) -> None:
        self.graph, self.rng = graph, Random(seed)
        self.order = np.array(order, dtype=np.int64)
        self.best: Ints | None = None
        self.least, self.stopped, self.length = NEVER, False, CYCLE
        self.improved: Ints | None = None
        self.payers, self.devices = len(graph.payers), len(graph.payers) + len(graph.hosts)
        total = max(1, sum(ticks or 0 for ticks in graph.work))
        self.total = total
        times = graph.work, graph.host_work
        self.own = np.array([[self.units(ticks) for ticks in row] for row in times])
        self.memory = [float("inf") if limit is None else float(limit) for limit in graph.limits]
        self.size = np.array([float(size) for size in graph.size])
        self.pins = list(graph.merged_nets)
        nets_of: list[list[int]] = [[] for _ in range(len(graph))]
        for number, members in enumerate(self.pins):
            for member in members:
                nets_of[member].append(number)
        self.nets = Nets(
            *ragged(nets_of),
            np.array([len(members) for members in self.pins], dtype=np.int64),
            np.array([self.units(ticks) for ticks in graph.merged_nets.values()], dtype=np.int64),
        )

    def units(self, ticks: int | None) -> int:
        """Return ticks in the units of the loops; -1 where a class cannot be."""
        return -1 if ticks is None else (ticks << DIGITS) // self.total

    def loads(self, places: Ints) -> NDArray[np.int64]:
        """Return the load of each device, in units."""
        loads = np.zeros(self.devices, dtype=np.int64)
        for number, place in enumerate(places.tolist()):
            loads[place] += self.own[int(place >= self.payers), number]
        for pins, cost in zip(self.pins, self.nets.cost, strict=True):
            homes = {int(places[pin]) for pin in pins}
            if len(homes) > 1:
                for home in homes:
                    loads[home] += cost if home < self.payers else 0
        return loads

    def offer(self, places: Sequence[int]) -> None:
        """Continue from places if they are better than the best."""
        offered = np.array(places, dtype=np.int64)
        value = int(self.loads(offered).max())
        if value < self.least:
            self.least, self.best = value, offered

    def run(self, until: float, _end: float = float("inf")) -> None:
        """Split pairs until a point in time, or until ``stopped`` is set."""
        while self.best is not None and now() < until and not self.stopped:
            self.cycle(until)

    def cycle(self, end: float = float("inf")) -> None:
        """Split pairs from the best places on; longer after each failure."""
        assert self.best is not None
        better = self.search(self.best, int(self.length), end)
        if better is None:
            self.length = min(MAX_CYCLE, LONGER * self.length)
        else:
            self.improved, self.length = better, CYCLE
            self.offer(better.tolist())

    def search(self, places: Ints, pairs: int, end: float) -> Ints | None:
        """Split pairs until their number or the time is up; return better places, or ``None``."""
        best, improved = places, None
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
                improved = best
        return improved

    def pair(self, loads: Ints) -> Pair:
        """Return two devices, often with the one of the largest load; a host is the second."""
        first, second = self.rng.sample(range(self.devices), 2)
        worst = int(loads.argmax())
        if self.rng.random() < WORST and second != worst:
            first = worst
        return min(first, second), max(first, second)

    def fits(self, places: Ints) -> bool:
        """Return whether every device holds its classes."""
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
        """Split two devices with the least sum of loads within a limit; return False if impossible.

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
        """Return the cell of the frontier with the least sum of loads within a limit, with noise.

        Where none is within the limit, that of the least larger load; -1 where there is none.
        """
        larger = np.maximum(one, two)
        within = np.flatnonzero(larger <= limit)
        if not len(within):
            at = int(larger.argmin())
            return at if larger[at] < NEVER else -1
        noise = np.array([self.rng.random() for _ in range(len(within))]) * spread
        return int(within[int((one[within] + two[within] + noise).argmin())])


def resplitting(graph: SerialGraph, budget: Budget, seed: int = 0) -> Resplitting | None:
    """Return the search for a problem; ``None`` for passes apart or too many states."""
    if graph.law.passes is Passes.SEPARATE:
        return None
    try:
        sweep = read_sweep(graph, budget)
    except OutOfTime:
        return None
    if sweep is None:
        return None
    return Resplitting(graph, tuple(step.number for step in sweep.steps), seed)
