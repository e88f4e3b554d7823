"""A bound on the largest load by prices of classes and the exact most expensive sets.

Give each class a price p, of any sign. Let Z(T) be the largest price of a set of classes whose load
on a payer is at most T, transfers included, and H(T) that of a set whose work on a host is at most
T. A plan whose loads are at most T splits the classes into one such set per device, so

    sum of all p  <=  payers x Z(T) + hosts x H(T),

and every T for which this fails is below the optimum. Where passes count apart, the largest forward
plus the largest backward load is at least the whole load of each device, and the same holds;
contiguity and memory only take plans away.

Proof in integers. Prices are integers, and loads are counted in cells of u ticks: the work of each
class and the cost of each net are rounded down to cells, so that a set of load at most T has at
most T // u cells. The tables of :mod:`.set_loops` hold Z and H for every number of cells at
once; if t is the least for which the inequality holds, the optimum is at least t u.

With work as price this is the bound by work, sharpened by the transfers that any set of that work
pays at least and by the sums of work that exist. Better prices are those of the linear relaxation
that covers the classes with sets (Gilmore and Gomory 1961), by column generation: a step is taken
from the best prices so far and is short (Marsten, Hogan and Blankenship 1975). When nothing near is
better, a last search takes longer steps wherever near ones promise no gain.

Source: this project.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget, OutOfTime, now

from ..serial.graph import SerialGraph
from ..serial.sweep import Sweep, read_sweep

if TYPE_CHECKING:
    from .set_loops import Moves

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]

UNITS = 1 << 44
"""Integer price of all work together."""

MAX_CELLS, MAX_TABLE = 1 << 17, 1 << 29
"""Largest number of cells of a load in a proof, and of entries of all tables of a proof."""

FINER, HASTE, MAX_HASTE = 4, 1.5, 0.2
"""Factor on the cells for the last proof; the search ends this multiple of its duration before
the limit, but at most this share of the time before it."""

SEARCHED, MAX_TRAIL = ((1 << 13, False), (1 << 15, False), (1 << 13, True)), 1 << 27
"""Cells of successive searches for prices, and whether they take long steps; largest number of
entries of the table that sets are traced in."""

PATIENCE = 8
"""Number of steps after which improved prices are tried in a proof."""

FIRST_SHARE = 0.5
"""Share of the time left for each search but the last."""

REACH = 0.003
"""Initial limit of a price's change, as a share of the largest load over a hundred."""

NULLS = 3
"""Steps without improvement after which the reach is reduced."""

WIDER = 3.0
"""Factor by which the reach grows where prices within it promise nothing."""

FAR = 100.0
"""A reach that limits no price, where all work costs a hundred."""

ROUGH = 8
"""Number of cells that are merged in the search for additional sets."""

AIM, AIM_FAR = 0.35, 0.9
"""Target load between the best bound (0) and the largest load not known to be covered (1)."""

SERIOUS = 0.3
"""Share of a step's promised gain above which the reach grows."""

NEAR = 3
"""Distance of covered and uncovered loads at which a search ends, cells."""

CLOSE = 1e-6
"""Gain that counts as none, where all work costs a hundred."""

SHORTEST = 1e-5
"""Reach at which a search for prices ends, where all work costs a hundred."""


class LoadGrid:
    """Loads counted in cells of ``unit`` ticks.

    Parameters
    ----------
    cells
        Number of cells of the largest load.
    proves
        Whether loads are rounded down; otherwise to the nearest, which is closer, proves nothing,
        and traces sets.
    rough
        A grid of fewer cells for additional sets; made by default.
    """

    def __init__(
        self,
        graph: SerialGraph,
        sweep: Sweep,
        unit: int,
        cells: int,
        *,
        proves: bool = True,
        rough: LoadGrid | None = None,
    ) -> None:
        self.graph, self.unit, self.cells, self.proves = graph, unit, cells, proves
        self.moves = self._moves(sweep)
        self.host = np.array([self._cells(ticks) for ticks in graph.host_work], dtype=np.int64)
        width = 0 if proves else cells + 1
        self.trail = np.zeros((min(width, 1) * sweep.states, width), dtype=np.uint8)
        self.held = np.zeros((min(width, 1) * len(graph), width), dtype=np.bool_)
        self.rough: LoadGrid = rough or self

    def _cells(self, ticks: int | None) -> int:
        """Return the cells of an amount of ticks, capped; -1 where a class cannot run."""
        if ticks is None:
            return -1
        more = 0 if self.proves else self.unit // 2
        return min((ticks + more) // self.unit, self.cells + 1)

    def _moves(self, sweep: Sweep) -> Moves:
        from .set_loops import Moves

        costs = [self._cells(ticks) for ticks in sweep.costs]
        start, rows = [0], []
        for step in sweep.steps:
            work = self._cells(self.graph.work[step.number])
            rows += [
                (source, target, inside, sum((costs[net] for net in paid), inside * work))
                for source, inside, target, paid in step.moves
                if not inside or work >= 0
            ]
            start.append(len(rows))
        table = np.array(rows, dtype=np.int64)
        numbers = np.array([step.number for step in sweep.steps], dtype=np.int64)
        states = np.array([step.states for step in sweep.steps], dtype=np.int64)
        source, target, inside, load = (np.ascontiguousarray(table[:, at]) for at in range(4))
        first = np.array(start, dtype=np.int64)
        return Moves(first, source, target, inside, load, numbers, states)

    def profile(self, prices: Ints) -> Profile:
        """Return the largest prices of sets, for every largest load."""
        from .set_loops import best_held, best_prices

        exact = best_prices(self.moves, prices, self.cells, self.trail)
        self.held[:] = False
        by_host = best_held(self.host, prices, self.cells, self.held)
        return Profile(exact, np.maximum.accumulate(exact), by_host, int(prices.sum()))

    def sets(self, prices: Ints, profile: Profile, most: int) -> Iterator[tuple[int, Ints, int]]:
        """Yield (kind, classes, cells): an expensive set per payer from the rest; one of a host.

        All but the first come from the rough grid. Call it right after the profile was made.
        """
        from .set_loops import trace

        taken = trace_held(self.held, self.host, most)
        load = int(profile.exact[: most + 1].argmax())
        chosen = np.flatnonzero(trace(self.moves, self.trail, load))
        yield 0, chosen, load
        left = prices.copy()
        for _ in self.graph.payers[1:]:
            left[chosen] = -UNITS
            chosen = self.rough.best_set(left, most * self.unit // self.rough.unit)
            yield 0, chosen, self.load_of(chosen)
        if self.graph.hosts:
            yield 1, taken, most

    def best_set(self, prices: Ints, most: int) -> Ints:
        """Return the classes of a most expensive set that a payer can hold."""
        from .set_loops import best_prices, trace

        exact = best_prices(self.moves, prices, self.cells, self.trail)
        load = int(exact[: most + 1].argmax())
        return np.flatnonzero(trace(self.moves, self.trail, load))

    def load_of(self, chosen: Ints) -> int:
        """Return the cells of a set on a payer."""
        from .set_loops import load_of

        inside = np.zeros(len(self.graph), dtype=np.bool_)
        inside[chosen] = True
        return int(load_of(self.moves, inside))

    def least(self, profile: Profile) -> int:
        """Return the fewest cells at which devices may hold all; one above the grid if none do."""
        enough = self.together(profile) >= profile.all
        return int(enough.argmax()) if enough[-1] else self.cells + 1

    def together(self, profile: Profile) -> Ints:
        """Return the largest price of all devices together, for every largest load."""
        together: Ints = (
            len(self.graph.payers) * profile.payer + len(self.graph.hosts) * profile.host
        )
        return together

    def gain(self, profile: Profile, most: int) -> float:
        """Return by how much all classes exceed what devices can hold; all work costs a hundred."""
        rest = profile.all - int(self.together(profile)[most])
        return rest * 100.0 / UNITS


@dataclass(frozen=True)
class Profile:
    """Largest prices of sets by load: of payers exactly and at most, of hosts; of all classes."""

    exact: Ints
    payer: Ints
    host: Ints
    all: int


def trace_held(taken: NDArray[np.bool_], loads: Ints, most: int) -> Ints:
    """Return the classes that a host holds at a load."""
    chosen = []
    for number in range(len(loads) - 1, -1, -1):
        if taken[number, most]:
            chosen.append(number)
            most -= int(loads[number])
    return np.array(chosen, dtype=np.int64)


def whole(prices: Reals) -> Ints:
    """Return prices, with all work a hundred, as integers."""
    return np.rint(prices * (UNITS / 100.0)).astype(np.int64)


class _PriceSearch:
    """Column generation for prices, for loads up to a target that follows the best bound."""

    def __init__(self, graph: SerialGraph, upper: int) -> None:
        from milp_plan.lp.prices import SetCover

        own = [
            host if work is None else work
            for work, host in zip(graph.work, graph.host_work, strict=True)
        ]
        total = max(1, sum(ticks or 0 for ticks in own))
        self.centre: Reals = np.array([(ticks or 0) * 100 / total for ticks in own])
        self.graph, self.upper = graph, upper
        self.reach = np.full(len(graph), REACH * 100 / max(1, len(graph.payers)))
        self.first_reach = self.reach.copy()
        self.cover = SetCover(len(graph), (len(graph.payers), len(graph.hosts)))
        self.known: dict[tuple[int, bytes], int] = {}
        self.sets: list[tuple[int, Ints]] = []

    def begin(self, grid: LoadGrid, best: int, *, far: bool) -> None:
        """Count loads in a grid's cells; ``best`` ticks are a proved bound.

        A search that is not far aims lower where prices within reach promise nothing; one that is
        far takes longer steps.
        """
        self.far, self.ambition = far, AIM_FAR if far else AIM
        self.reach = np.maximum(self.reach, self.first_reach) if far else self.reach
        self.grid, self.best = grid, min(grid.cells, best // grid.unit)
        self.top, self.nulls = min(grid.cells, self.upper // grid.unit), 0
        self.loads = [self.load_of(kind, chosen) for kind, chosen in self.sets]
        prices = whole(self.centre)
        self.at_centre = grid.profile(prices)
        self.best = min(self.top, max(self.best, grid.least(self.at_centre)))
        self.aim_at()
        self.learn(prices, self.at_centre)

    def load_of(self, kind: int, chosen: Ints) -> int:
        """Return the cells of a set."""
        return int(self.grid.host[chosen].sum()) if kind else self.grid.load_of(chosen)

    def aim_at(self) -> None:
        """Choose the target load, and the sets within it."""
        self.aim = min(self.top, self.best + max(1, round(self.ambition * (self.top - self.best))))
        self.gain = self.grid.gain(self.at_centre, self.aim)
        for number, load in enumerate(self.loads):
            self.cover.allow(number, load <= self.aim)

    def learn(self, prices: Ints, profile: Profile) -> int:
        """Add the sets that prices generate; return how many are new."""
        fresh = 0
        for kind, chosen, load in self.grid.sets(prices, profile, self.aim):
            key = kind, chosen.tobytes()
            if key not in self.known:
                self.known[key] = len(self.sets)
                self.sets.append((kind, chosen))
                self.loads.append(load)
                self.cover.add(chosen, kind)
                self.cover.allow(self.known[key], load <= self.aim)
                fresh += load <= self.aim
        return fresh

    def promised(self) -> tuple[Reals, float] | None:
        """Return prices near the centre; far off, those that promise a gain or the best ones."""
        while True:
            self.cover.around(self.centre, self.reach)
            solution = self.cover.solve()
            useful = solution is None or solution[1] > CLOSE or self.reach[0] >= FAR
            if useful or not self.far:
                return solution
            self.reach = np.minimum(FAR, WIDER * self.reach)

    def step(self) -> bool:
        """Evaluate the best prices near the centre; return False where none promise a gain."""
        promised = self.promised()
        if promised is None:
            return False
        prices, promise = whole(promised[0]), promised[1]
        profile = self.grid.profile(prices)
        self.best = max(self.best, self.grid.least(profile))
        gain = self.grid.gain(profile, self.aim)
        fresh = self.learn(prices, profile)
        if gain > self.gain + CLOSE:
            if gain - self.gain > SERIOUS * (promise - self.gain):
                self.reach *= 1.5
            self.centre, self.at_centre, self.gain, self.nulls = promised[0], profile, gain, 0
        elif self.far and not fresh and self.reach[0] < FAR:
            self.reach = np.minimum(FAR, WIDER * self.reach)
        else:
            self.nulls += 1
            if self.nulls % NULLS == 0:
                self.reach *= 0.6
        if promise <= CLOSE:
            self.top = self.aim
        ended = self.nulls and not fresh
        if self.top <= self.best + NEAR or self.reach[0] < SHORTEST or ended:
            return False
        if self.gain > 0 or self.top == self.aim:
            self.aim_at()
        return True


def priced_bounds(
    graph: SerialGraph, lower: int, upper: int, budget: Budget, rounds: int | None = None
) -> Iterator[Bound]:
    """Yield better and better bounds until the prices converge.

    Nothing is yielded where sweeps have too many states (:mod:`~..serial.sweep`).

    Parameters
    ----------
    lower, upper
        A known bound, and the value of a known plan.
    rounds
        Largest number of steps, for runs that may not depend on the clock.
    """
    try:
        sweep = read_sweep(graph, budget)
    except OutOfTime:
        return
    if sweep is None or upper <= lower or not any(graph.work):
        return
    search, proof = _PriceSearch(graph, upper), proving(graph, sweep, upper)
    finest = proving(graph, sweep, upper, FINER)
    for turn, (size, far) in enumerate(SEARCHED):
        last = turn == len(SEARCHED) - 1
        part = budget if last else budget.part("prices", FIRST_SHARE, of_limit=False)
        cells = max(1, min(size, MAX_TRAIL // sweep.states))
        search.begin(searching(graph, sweep, upper, cells), lower, far=far)
        most_s = MAX_HASTE * part.limit_s if turn else 0.0
        going, step, tried, needed_s = True, 0, None, 0.0
        while True:
            late = rounds is None and part.left_s < needed_s
            ended = not going or part.over or late or step == rounds
            grid = finest if turn and ended and not part.over else proof
            fresh = search.centre is not tried or grid is finest
            if fresh and (ended or step % PATIENCE == 0):
                tried, began = search.centre, now()
                value = grid.least(grid.profile(whole(tried))) * grid.unit
                needed_s = min(HASTE * FINER * (now() - began), most_s)
                if value > lower:
                    lower = value
                    detail = f"{len(search.sets)} sets and their prices, {sweep.states} states"
                    yield Bound("priced sets", value, detail)
            if ended:
                break
            going, step = search.step(), step + 1


def searching(graph: SerialGraph, sweep: Sweep, upper: int, cells: int) -> LoadGrid:
    """Return a grid for prices, with a rough one for additional sets."""
    unit = max(1, -(-upper // cells))
    few = LoadGrid(graph, sweep, unit * ROUGH, max(1, cells // ROUGH), proves=False)
    return LoadGrid(graph, sweep, unit, cells, proves=False, rough=few)


def proving(graph: SerialGraph, sweep: Sweep, upper: int, finer: int = 1) -> LoadGrid:
    """Return the finest grid for a proof; sums of work are exact in it where possible."""
    most = max(2, min(MAX_CELLS, MAX_TABLE // sweep.states)) * finer
    common = gcd(*(ticks for ticks in (*graph.work, *graph.host_work) if ticks))
    unit = upper // most + 1
    if common >= unit:
        parts = next(n for n in range(common // unit, 0, -1) if common % n == 0)
        unit = common // parts
    return LoadGrid(graph, sweep, unit, upper // unit)
