"""Exact planner of hybrid parallelism: bisection on the slowest stage, a sweep for each value.

Source of the problem and of dynamic programming over down-sets, devices and sums of data degrees:
Tarnawski et al. (Piper, NeurIPS 2021). Here the time of a stage is a threshold, so that the state
keeps only the sum of data degrees and the devices that later stages take, of which a Pareto front
is enough; configurations are chosen exactly instead of by a greedy rule.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, sqrt

import numpy as np

from milp_plan.hybrid import Choice, HybridPlan, HybridProblem, Stage

from .free_layers import without_free_layers
from .knapsack import FOUND, choose
from .lattice import Lattice, all_down_sets, prefixes
from .sweep import CROWDED, EXHAUSTED, REACHED, fill, gather, new_front, sweep
from .tables import Family, Tables, family, is_exact, tables

MARGIN = 1e-9
"""Relative: a plan counts as optimal when it is proved that none is better by more than this."""

MOST_DOWN_SETS = 50_000
_ROWS_PER_CALL = 64
_ROOM = 8


@dataclass(frozen=True)
class HybridAnswer:
    """What planning found.

    Parameters
    ----------
    plan
        The best plan, with nothing claimed; ``None`` when there is none.
    seconds
        Its time per sample, as computed in floats.
    bound
        No plan takes fewer seconds per sample.
    complete
        Whether the search ended: then either the plan is within :data:`MARGIN` of the bound, or
        there is no plan at all.
    down_sets
        Of the problem without free layers; ``None`` when there are too many.
    sweeps
        Thresholds that were tried.
    trace
        Elapsed seconds, plan's seconds and bound, whenever one of the latter changed.
    """

    plan: HybridPlan | None
    seconds: float
    bound: float
    complete: bool
    down_sets: int | None
    sweeps: int
    elapsed_s: float
    trace: tuple[tuple[float, float, float], ...] = ()

    @property
    def infeasible(self) -> bool:
        """Whether it is proved that no plan exists."""
        return self.complete and self.plan is None


class OutOfTimeError(Exception):
    """The time limit was reached in mid-search."""


@dataclass
class _Search:
    """Incumbent and bound, and the thresholds in between."""

    problem: HybridProblem
    deadline: float
    on_news: Callable[[float, float], None]
    started: float = field(default_factory=time.monotonic)
    best: HybridPlan | None = None
    value: float = inf
    bound: float = 0.0
    sweeps: int = 0
    trace: list[tuple[float, float, float]] = field(default_factory=list)

    def news(self) -> None:
        """Keep and tell incumbent and bound."""
        self.trace.append((time.monotonic() - self.started, self.value, self.bound))
        self.on_news(self.value, self.bound)

    def attempt(self, entry: Tables, sets: Family, most: float, optimistic: bool) -> bool | None:
        """Look for a plan whose stages take at most so many seconds, and take it over.

        Returns whether there is one; ``None`` when exact choices were given up on the way.
        An optimistic attempt takes nothing over.
        """
        room = _ROOM
        total = len(sets.sizes)
        self.sweeps += 1
        while True:
            front, unsure, status = new_front(total, room), np.zeros(1, np.int64), EXHAUSTED
            for begin in range(0, total - 1, _ROWS_PER_CALL):
                if time.monotonic() > self.deadline:
                    raise OutOfTimeError
                end = min(begin + _ROWS_PER_CALL, total - 1)
                status = sweep(entry.arrays, sets, front, begin, end, most, optimistic, unsure)
                if status != EXHAUSTED:
                    break
            if status != CROWDED:
                break
            room *= 2
        if status == EXHAUSTED:
            return None if unsure[0] and not optimistic else False
        if not optimistic:
            plan, value = _read_back(entry, sets, front)
            if value < self.value:
                self.best, self.value = plan, value
                self.news()
        return True

    def narrow(self, entry: Tables, sets: Family, *, proof: bool) -> bool:
        """Bisect between bound and incumbent; whether the family has nothing better left.

        With ``proof`` the family holds every plan, so failures raise the bound.
        """
        low, final, sure = self.bound, True, True
        if self.best is None:
            found = self.attempt(entry, sets, inf, False)
            if found is not True:
                return found is False
        while self.value * (1.0 - MARGIN) > low:
            most = self.value * (1.0 - 0.5 * MARGIN)
            if not final and low < self.value * (1.0 - 3 * MARGIN):
                most = sqrt(low * self.value) if low > 0 else 0.5 * self.value
            found = self.attempt(entry, sets, most, False)
            if found is None and proof:
                sure = False
                found = self.attempt(entry, sets, most, True)
            if not found:
                low = min(most, self.value * (1.0 - MARGIN))
                if proof and (found is False):
                    self.bound = max(self.bound, low)
                    self.news()
            final = self.value < low * (1.0 + 1e-4) and not final
        return sure


def plan_exactly(
    problem: HybridProblem,
    time_limit_s: float = 60.0,
    on_news: Callable[[float, float], None] = lambda value, bound: None,
) -> HybridAnswer:
    """Plan for the least time per sample.

    Parameters
    ----------
    problem
        The problem.
    time_limit_s
        Of wall-clock time; the best plan and bound until then are returned.
    on_news
        Called with the seconds per sample of the plan (infinite: none) and the bound.
    """
    reduction = without_free_layers(problem)
    smaller = reduction.problem
    search = _Search(smaller, time.monotonic() + time_limit_s, on_news)
    lattice = all_down_sets(smaller, MOST_DOWN_SETS)
    complete = False
    try:
        complete = _run(search, smaller, lattice)
    except OutOfTimeError:
        pass
    plan = None if search.best is None else reduction.restore(search.best)
    return HybridAnswer(
        plan,
        search.value,
        search.bound,
        complete,
        None if lattice is None else len(lattice.sets),
        search.sweeps,
        time.monotonic() - search.started,
        tuple(search.trace),
    )


def _run(search: _Search, problem: HybridProblem, lattice: Lattice | None) -> bool:
    """Plan along one order first, then over all down-sets; whether nothing is left open."""
    tight = tables(problem)
    chain = family(tight.arrays, prefixes(problem))
    search.bound = float(chain.effort[0]) / problem.limits.devices * (1.0 - MARGIN)
    search.narrow(tight, chain, proof=False)
    if lattice is None:
        return False
    sets = family(tight.arrays, lattice)
    if is_exact(problem):
        return search.narrow(tight, sets, proof=True)
    search.narrow(tight, sets, proof=False)
    return _prove(search, tables(problem, relaxed=True), sets)


def _prove(search: _Search, relaxed: Tables, sets: Family) -> bool:
    """Hold the incumbent against a relaxation whose sizes are rounded down."""
    most = search.value * (1.0 - 0.5 * MARGIN)
    if search.attempt(relaxed, sets, most, True):
        return False
    if search.best is not None:
        search.bound = search.value * (1.0 - MARGIN)
        search.news()
    return True


def _read_back(entry: Tables, sets: Family, front: object) -> tuple[HybridPlan, float]:
    """Plan behind the entry of the empty set that takes the fewest devices, and its seconds."""
    from .sweep import Front

    assert isinstance(front, Front)
    at = len(sets.sizes) - 1
    slot = int(np.argmin(front.devices[at, : front.count[at]]))
    stages: list[Stage] = []
    slowest = 0.0
    while at > 0:
        origin, before = int(front.origin[at, slot]), int(front.slot[at, slot])
        degree, j = int(front.degree[at, slot]), int(front.tensor[at, slot])
        data = int(front.data[at, slot])
        stage, seconds = best_stage(entry, sets.words[origin], sets.words[at], j, degree, data)
        stages.append(stage)
        slowest = max(slowest, seconds)
        at, slot = origin, before
    return HybridPlan(entry.problem.name, tuple(stages), planner="hybrid exact"), slowest


def best_stage(
    entry: Tables,
    outer: np.ndarray[tuple[int, ...], np.dtype[np.uint64]],
    inner: np.ndarray[tuple[int, ...], np.dtype[np.uint64]],
    j: int,
    data: int,
    sum_of_data: int,
) -> tuple[Stage, float]:
    """Return a stage with its best configurations, and its seconds per sample.

    Parameters
    ----------
    outer, inner
        Masks: its layers are in the first and not in the second.
    j, data
        Number of its tensor degree, and its data degree.
    sum_of_data
        Data degrees of it and all later stages.
    """
    arrays = entry.arrays
    start = np.zeros(len(arrays.first) + 1, np.int64)
    source, base = np.zeros(len(arrays.work), np.int64), np.zeros(len(arrays.work))
    items = gather(arrays, outer, inner, j, start, source, base)
    cost, memory = np.zeros_like(base), np.zeros_like(base)
    flight = -(-sum_of_data // data)
    fill(arrays, int(start[items]), source, base, data, flight, cost, memory)
    picked = np.zeros(items, np.int64)
    status, seconds = choose(start[: items + 1], cost, memory, arrays.capacity, inf, False, picked)
    names = entry.problem.order
    inside = [v for v in range(len(names)) if _has(outer, v) and not _has(inner, v)]
    choices = tuple(
        Choice(names[v], entry.configurations[source[place]].name)
        for v, place in zip(inside, picked, strict=True)
    )
    return Stage(choices, data, int(arrays.degrees[j])), seconds / data


def _has(mask: np.ndarray[tuple[int, ...], np.dtype[np.uint64]], v: int) -> bool:
    return bool(int(mask[v >> 6]) >> (v & 63) & 1)
