"""Simulated annealing over the places of classes, for bottleneck problems without contiguity.

Moves: one class, a connected set of classes on one device, two classes changing places, and
stretches of a random clustering along expensive nets, so that whole layers of a network move at
once. The energy is a power norm of the loads, soft while it is hot and nearly the largest load
in the end. Starts are orders of the classes cut at the best places (linearised dynamic programme,
Tarnawski et al. 2020), and the best plan so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from milp_plan.core import Passes
from milp_plan.core.budget import now

from ..serial.graph import Ints, SerialGraph, ragged
from .moves import ClassArrays, Cooling, PlacedClasses, anneal, best_cuts, fill

FIRST_STEPS, MAX_STEPS = 100_000, 4_000_000
"""Number of steps of the first and of the longest annealing run."""

FEWEST_STEPS = 50_000
"""Fewest steps of a run that is worth starting."""

ORDERS = 24
"""Number of orders that are cut before the annealing begins."""

LONGEST_SPAN = 3
"""Longest stretch that moves at once, as a multiple of a device's even share."""

COLD = 0.00002
"""Last temperature, as a multiple of an even share of the work."""

POWERS = (3.0, 80.0)
"""First and last power of the energy."""

HEATS = ((0.0, 1.0), (0.03, 0.0), (0.0, 0.4), (0.0, 1.0), (0.003, 0.0), (0.0, 0.4))
"""First temperatures of successive rounds: multiples of an even share, plus of a mean net."""

NOISE = 0.7
"""Standard deviation of the logarithm of net costs in random clusterings."""


def tables_of(graph: SerialGraph) -> ClassArrays:
    """Return a problem as arrays; nets of the same classes and pass are merged."""
    count, payers = len(graph), len(graph.payers)
    apart = graph.law.passes is Passes.SEPARATE
    unit = graph.problem.units.time_scale
    work = np.zeros((2, 2, count))
    for side, (whole, later) in enumerate(
        ((graph.float_work, graph.backward_work), (graph.float_host_work, graph.backward_host_work))
    ):
        work[0, side] = whole
        if apart:
            part = np.array([ticks / unit for ticks in later])
            work[1, side] = part
            work[0, side] -= part
    merged: dict[tuple[int, tuple[int, ...]], float] = {}
    for net, cost in zip(graph.nets, graph.float_costs.tolist(), strict=True):
        key = (int(apart and net.backward), tuple(sorted((net.source, *net.readers))))
        if cost > 0.0:
            merged[key] = merged.get(key, 0.0) + cost
    of_class: list[list[int]] = [[] for _ in range(count)]
    for number, (_, members) in enumerate(merged):
        for member in members:
            of_class[member].append(number)
    net_start, nets = ragged(of_class)
    pin_start, pins = ragged([members for _, members in merged])
    return ClassArrays(
        work,
        np.array([float(size) for size in graph.size]),
        np.array([np.inf if limit is None else float(limit) for limit in graph.limits]),
        net_start,
        nets,
        pin_start,
        pins,
        np.array(list(merged.values()), dtype=np.float64),
        np.array([turn for turn, _ in merged], dtype=np.int64),
        payers,
    )


class SerialAnnealing:
    """A search that records the best places it has seen.

    Parameters
    ----------
    graph
        The problem.
    seed
        Equal seeds and steps give equal searches.

    Attributes
    ----------
    best
        Device of each class; ``None`` while no plan is known.
    value
        Its largest load, in floating-point units of ``SerialGraph.scale``.
    rounds, best_round
        Number of rounds, and of those up to the best plan.
    pace_s
        Seconds of a step in the last round of :meth:`run`; 0 before.
    """

    def __init__(self, graph: SerialGraph, seed: int = 0) -> None:
        self.graph, self.tables, self.rng = graph, tables_of(graph), Random(seed)
        self.best: Ints | None = None
        self.value = float("inf")
        devices = len(graph.payers) + len(graph.hosts)
        self.state = PlacedClasses(
            np.zeros(len(graph), dtype=np.int64),
            np.zeros((len(self.tables.cost), devices), dtype=np.int64),
            np.zeros((2, devices)),
            np.zeros(devices),
        )
        rates = 0.0
        for side, many in ((0, len(graph.payers)), (1, len(graph.hosts))):
            total = float(self.tables.work[:, side].sum())
            rates += many / total if 0.0 < total < np.inf else 0.0
        self.level = 1.0 / rates if rates else 1.0
        costs = self.tables.cost
        self.mean = float(costs.mean()) if len(costs) else 0.01 * self.level
        self.steps, self.stopped = min(FIRST_STEPS, 300 * len(graph)), False
        self.rounds = self.best_round = 0
        self.pace_s = 0.0

    # -- starts ------------------------------------------------------------------------------

    def load(self, places: Sequence[int]) -> float:
        """Return the largest load (sum of the two passes' largest), infinite if it does not fit."""
        self.state.places[:] = places
        fill(self.tables, self.state)
        if (self.state.held > self.tables.memory).any():
            return float("inf")
        return float(self.state.loads.max(axis=1).sum())

    def offer(self, places: Sequence[int]) -> bool:
        """Accept places if they are better than the best; return whether they are."""
        value = self.load(places)
        if value < self.value:
            self.value, self.best = value, np.array(places, dtype=np.int64)
            self.best_round = self.rounds
            return True
        return False

    def cut_orders(self, count: int = ORDERS) -> None:
        """Cut random depth-first topological orders, and clusterings, at the best places."""
        places = np.zeros(len(self.graph), dtype=np.int64)
        for turn in range(count):
            order = self.depth_first() if turn % 2 == 0 else self.clustering()[0]
            if best_cuts(self.tables, order, len(self.graph.hosts), places) < float("inf"):
                self.offer(places.tolist())
        spread = self.spread()
        if spread is not None:
            self.offer(spread.tolist())

    def spread(self) -> Ints | None:
        """Place largest classes first, each where most room is left; ``None`` if one has no room.

        A device without limit counts as having room for everything, after those with room.
        """
        tables = self.tables
        room = tables.memory.copy()
        places = np.zeros(len(self.graph), dtype=np.int64)
        busy = np.zeros(len(room))
        kinds = (np.arange(len(room)) >= tables.payers).astype(np.int64)
        work = tables.work.sum(axis=0)
        keys = list(zip((-tables.size).tolist(), (-work[0]).tolist(), strict=True))
        for number in sorted(range(len(keys)), key=keys.__getitem__):
            after = busy + work[kinds, number]
            after[room < tables.size[number]] = np.inf
            device = int(after.argmin())
            if after[device] == np.inf:
                return None
            places[number], busy[device] = device, after[device]
            room[device] -= tables.size[number]
        return places

    def depth_first(self) -> Ints:
        """Return a random topological order that follows each branch as far as it goes.

        Arcs on a cycle are dropped at the class with the fewest predecessors left.
        """
        count = len(self.graph)
        after: list[set[int]] = [set() for _ in range(count)]
        waits: list[set[int]] = [set() for _ in range(count)]
        for before, later in self.graph.arcs:
            after[before].add(later)
            waits[later].add(before)
        missing = [len(names) for names in waits]
        ready = [number for number in range(count) if not missing[number]]
        self.rng.shuffle(ready)
        placed = [False] * count
        order: list[int] = []
        while len(order) < count:
            if not ready:
                left = [number for number in range(count) if not placed[number]]
                ready.append(min(left, key=lambda number: missing[number]))
            number = ready.pop()
            if placed[number]:
                continue
            placed[number] = True
            order.append(number)
            released = []
            for later in after[number]:
                missing[later] -= 1
                if missing[later] == 0:
                    released.append(later)
            self.rng.shuffle(released)
            ready += released
        return np.array(order, dtype=np.int64)

    def clustering(self) -> tuple[Ints, Ints]:
        """Join classes along nets, expensive ones first, with noise; return order and stretches."""
        tables, count = self.tables, len(self.graph)
        noise = np.array([self.rng.gauss(0.0, NOISE) for _ in range(len(tables.cost))])
        home = list(range(count))
        members: dict[int, list[int]] = {number: [number] for number in range(count)}
        joined: list[tuple[int, ...]] = []
        for net in np.argsort(-(np.log(tables.cost) + noise)).tolist():
            pins = tables.pins[tables.pin_start[net] : tables.pin_start[net + 1]].tolist()
            for other in pins[1:]:
                one, two = home[pins[0]], home[other]
                if one == two:
                    continue
                for member in members[two]:
                    home[member] = one
                members[one] += members.pop(two)
                joined.append((members[one][0], len(members[one])))
        order = [member for group in members.values() for member in group]
        at = {number: place for place, number in enumerate(order)}
        most = max(2, LONGEST_SPAN * count // (2 * tables.payers))
        spans = [(at[number], at[number] + size) for number, size in joined if size <= most]
        return (
            np.array(order, dtype=np.int64),
            np.array(spans, dtype=np.int64).reshape(-1, 2),
        )

    # -- rounds ------------------------------------------------------------------------------

    def round(self, steps: int, hot: float, *, afresh: bool = False) -> bool:
        """Anneal once, from the best places or from a new clustering; return whether it improved.

        Parameters
        ----------
        hot
            First temperature, in units of time.
        """
        start = np.zeros(len(self.graph), dtype=np.int64)
        if afresh or self.best is None:
            line = self.clustering()[0]
            if best_cuts(self.tables, line, len(self.graph.hosts), start) == float("inf"):
                spread = self.spread() if self.best is None else self.best
                if spread is None:
                    return False
                start = spread
        else:
            start = self.best
        self.state.places[:] = start
        fill(self.tables, self.state)
        best = start.copy()
        value = self.value
        seed = self.rng.randrange(2**31)
        cold = COLD * self.level
        heat = Cooling(steps, max(hot, 2.0 * cold), cold, *POWERS, seed)
        line, spans = self.clustering()
        value_after = anneal(self.tables, self.state, best, value, line, spans, heat)
        self.rounds += 1
        return value_after < self.value and self.offer(best.tolist())

    def step(self, most: int = MAX_STEPS) -> int:
        """Run one round of the usual sequence: cool and hot, from new orders and from the best.

        Return the number of its steps, at most ``most``.
        """
        turn = self.rounds
        if turn % len(HEATS) == len(HEATS) - 1:
            self.steps = min(2 * self.steps, MAX_STEPS)
        steps = min(self.steps, most)
        share, nets = HEATS[turn % len(HEATS)]
        self.round(steps, share * self.level + nets * self.mean, afresh=turn % 4 != 2)
        return steps

    def has_time(self, end: float) -> bool:
        """Return whether there is time for a round until a point in time."""
        return now() + max(0.05, FEWEST_STEPS * self.pace_s) < end

    def run(self, until: float, end: float = float("inf")) -> None:
        """Run rounds until a point in time, or until ``stopped`` is set; one at least.

        A round that would not be done by then is not started; the first one is shortened for the
        ``end``, and left out where the time does not suffice.
        """
        while self.has_time(end):
            began = now()
            most = (end - began) / self.pace_s if self.pace_s else MAX_STEPS
            steps = self.step(int(min(most, MAX_STEPS)))
            ended = now()
            self.pace_s = (ended - began) / steps
            if self.stopped or ended + self.pace_s * self.steps > until:
                return
