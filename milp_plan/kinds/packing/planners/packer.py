"""Planners of one packing problem."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from math import gcd

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import ceil_div
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget

from ..problem import Buffer, PackingPlan, PackingProblem, Place
from .annealing import BEST, anneal, begin
from .field import Field, Indices, Integers
from .fits import fit
from .search import FAILED, PACKED, Trial

FIRST_FIT, BEST_FIT, ANNEALED, SEARCH = (
    "first-fit",
    "best-fit",
    "annealed orders",
    "canonical search",
)

ORDERS = {"load": "TWA", "lifetime": "WAT", "size": "ZWT", "load-area": "TAW", "area": "AWT"}
ORDERS |= {"lower": "L", "upper": "U", "breadth": "B"}
"""Name of an order -> its criteria, first letter first.

Decreasing: load of the fullest section (T), lifetime (W), area (A), size (Z), loads of all sections
together (B); increasing: start (L) and end (U) of the lifetime.
"""

FITS = tuple(f"{fit}-{order}" for order in ORDERS for fit in (FIRST_FIT, BEST_FIT))
"""Names of the planners that place each buffer once."""

MAX_BUFFERS, MAX_ANNEALED = 1_000, 10_000
"""Largest numbers of buffers for the search, and for annealed orders: tables grow with the square
of their number."""

_SEARCHED = (
    ("load", True),
    ("load", False),
    ("lifetime", False),
    ("size", False),
    ("load-area", True),
)
_FAVOURED, _FIRST_NODES, _FAVOUR, _GROWTH, _NOISE = 2, 20_000, 8, 2, 0.03
"""Searches: orders, and whether groups are ranked again by the remaining loads; how many of
the first get more nodes, nodes of the others, how many times as many those get, factor for what
follows, how far ranks move (a part of their number)."""

_BEGINNINGS = ("lower", "size", "load")
_STEPS, _SHORT, _WORK, _NEAR = 100_000, 20, 100_000_000, 0.05
"""Annealed orders: steps of the first time (then twice as many), most chunks of steps
without a clock, pairs of buffers that are examined in a chunk, and how near to the bound they aim:
this part of it, or half-way between the best packing and the bound if that is nearer."""

_WARM, _COOL = 0.03, 0.003
"""Parts of the aimed height: what sticks out so much more is taken now and then, first and last."""


@dataclass(frozen=True)
class Packer:
    """Planners of one problem."""

    problem: PackingProblem

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers in the order of :class:`Field`."""
        return tuple(sorted(self.problem.buffers, key=lambda b: (b.lower, b.upper)))

    @cached_property
    def grain(self) -> int:
        """Common divisor of all sizes and alignments, and so of all offsets in the search."""
        alignments = (b.alignment for b in self.buffers if b.alignment > 1)
        return gcd(*(b.size for b in self.buffers), *alignments)

    @cached_property
    def field(self) -> Field:
        """The buffers as arrays."""
        lower, upper = (np.array([getattr(b, s) for b in self.buffers]) for s in ("lower", "upper"))
        times = np.unique(np.concatenate([lower, upper]))
        return Field(
            np.searchsorted(times, lower).astype(np.int64),
            np.searchsorted(times, upper).astype(np.int64),
            np.array([b.size // self.grain for b in self.buffers], np.int64),
            np.array([max(1, b.alignment // self.grain) for b in self.buffers], np.int64),
        )

    @cached_property
    def orders(self) -> dict[str, Indices]:
        """Name -> buffers in that order; see :data:`ORDERS`."""
        f = self.field
        change = np.zeros(int(f.upper.max()) + 1, np.int64)
        np.add.at(change, f.lower, f.size)
        np.add.at(change, f.upper, -f.size)
        load = np.cumsum(change)
        fullest = np.array([load[a:b].max() for a, b in zip(f.lower, f.upper, strict=True)])
        sums = np.concatenate([[0], np.cumsum(load, dtype=np.float64)])
        width = np.array([float(b.upper - b.lower) for b in self.buffers])
        keys = {"T": -fullest, "W": -width, "A": -width * f.size, "Z": -f.size}
        keys |= {"L": f.lower, "U": f.upper, "B": sums[f.lower] - sums[f.upper]}
        return {
            name: np.lexsort([keys[letter] for letter in reversed(letters)]).astype(np.int32)
            for name, letters in ORDERS.items()
        }

    @property
    def searchable(self) -> bool:
        """Whether there is memory for the tables of a search."""
        return len(self.buffers) <= MAX_BUFFERS

    def fit(self, name: str) -> PackingPlan:
        """Return the packing of one of :data:`FITS`."""
        offset = np.zeros(len(self.buffers), np.int64)
        order = self.orders[name.split("-", 2)[2]]
        fit(self.field, order, name.startswith(BEST_FIT), offset)
        return self.plan(offset, name)

    def better_orders(self, budget: Budget, seed: int, lower: int) -> Iterator[PackingPlan]:
        """Yield first fits of annealed orders, lower and lower."""
        if len(self.buffers) > MAX_ANNEALED:
            return
        f, low, best = self.field, ceil_div(lower, self.grain), self._best_fit()
        chunk = max(1, _WORK // len(self.buffers) ** 2)
        for turn in range(len(_BEGINNINGS)) if budget.repeatable else count():
            aim = min((low + best) // 2, int(low * (1 + _NEAR)))
            arrays = begin(f, self.orders[_BEGINNINGS[turn % len(_BEGINNINGS)]], aim)
            steps, least = _STEPS * 2 ** (turn // len(_BEGINNINGS)), arrays.state[BEST] + 1.0
            if budget.repeatable:
                steps = min(steps, _SHORT * chunk)
            for done in range(0, steps, chunk):
                if best <= low or budget.over:
                    return
                warmth = aim * _WARM * (_COOL / _WARM) ** (done / steps)
                some = min(chunk, steps - done)
                reached = anneal(f, arrays, warmth, seed + 1_000 * turn + done, some)
                height = self._height(arrays.best) if reached < least else best
                least = min(least, reached)
                if height < best:
                    best = height
                    yield self.plan(arrays.best, ANNEALED)
                if reached == 0:
                    break

    def _best_fit(self) -> int:
        """Return the height of the lowest first fit."""
        offset = np.zeros(len(self.buffers), np.int64)
        return min(fit(self.field, order, False, offset) for order in self.orders.values())

    def _height(self, offset: Integers) -> int:
        """Return the height in grains."""
        return int((offset + self.field.size).max())

    def search(
        self, budget: Budget, seed: int, lower: int, known: int | None, most: int | None = None
    ) -> Iterator[PackingPlan | Bound]:
        """Search for lower and lower packings, by many orders with more and more nodes each.

        Until there is one within the capacity, that height is the target; then lower heights take
        turns, down to the bound.

        ``lower`` and ``known``: a bound on the height, and the height of a packing if one is known.
        The nodes of the budget, and ``most``, are those of all trials together.
        """
        low, high = ceil_div(lower, self.grain), self._highest(known)
        capacity = self.problem.capacity
        placed = capacity is None or (known is not None and known <= capacity)
        begun: dict[tuple[int, int], Trial] = {}
        left = min((n for n in (budget.nodes, most) if n is not None), default=sys.maxsize)
        for number, rank, by_load, nodes in self._trials(seed):
            for top in (high, (low + high) // 2, low) if placed else (high,):
                if low > high or left <= 0 or budget.over:
                    return
                if not low <= top <= high:
                    continue
                trial = begun.get((top, number)) or Trial(self.field, rank, top, by_load)
                used = trial.nodes
                result = trial.go_on(min(nodes, used + left), budget)
                left -= trial.nodes - used
                if result == PACKED:
                    yield self.plan(trial.arrays.offset, SEARCH)
                    placed = True
                    high = self._height(trial.arrays.offset) - 1
                elif result == FAILED:
                    low = top + 1
                    detail = f"no packing of {top * self.grain} or less, in {trial.nodes} nodes"
                    yield Bound(SEARCH, low * self.grain, detail)
                elif number >= 0:
                    begun[top, number] = trial
                begun = {key: kept for key, kept in begun.items() if low <= key[0] <= high}

    def _trials(self, seed: int) -> Iterator[tuple[int, Integers, bool, int]]:
        """Yield number, ranks, whether groups are ranked again, and nodes; -1 for ranks nearby."""
        rng, spread = np.random.default_rng(seed), _NOISE * len(self.buffers)
        ranks = [(_ranks(self.orders[name]), by_load) for name, by_load in _SEARCHED]
        for turn in count():
            nodes = _FIRST_NODES * _GROWTH**turn
            for number, (rank, by_load) in enumerate(ranks):
                yield number, rank, by_load, nodes * (_FAVOUR if number < _FAVOURED else 1)
            rank, by_load = ranks[turn % len(ranks)]
            moved = np.argsort(rank + rng.normal(0, spread, len(rank)))
            yield -1, _ranks(moved), by_load, nodes

    def _highest(self, known: int | None) -> int:
        """Return the first target height: below the known one, within the capacity."""
        tops = [self.problem.capacity, None if known is None else known - 1]
        within = (top // self.grain for top in tops if top is not None)
        return min([int((self.field.size + self.field.alignment).sum()), *within])

    def plan(self, offset: Integers, planner: str) -> PackingPlan:
        """Return the plan of offsets in grains."""
        pairs = zip(self.buffers, offset.tolist(), strict=True)
        starts = {buffer.name: start * self.grain for buffer, start in pairs}
        places = tuple(Place(buffer, starts[buffer.name]) for buffer in self.problem.buffers)
        height = max(place.offset + place.buffer.size for place in places)
        return PackingPlan(self.problem.name, places, height, planner)


def _ranks(order: NDArray[np.integer]) -> Integers:
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks
