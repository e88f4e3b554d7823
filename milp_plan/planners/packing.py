"""Planners of address packing: first and best fits, orders that improve, and a search that proves.

First fits by size are TensorFlow Lite's ("greedy by size"); canonical packings, bounds of sections
and the orders ``TWA``, ``WAT`` and ``TAW`` are those of MiniMalloc (Moffitt, ASPLOS 2023).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from math import gcd
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import ceil_div
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.core.compiled import compiled
from milp_plan.core.packing import Buffer, PackingPlan, PackingProblem, Place

Integers = NDArray[np.int64]
Indices = NDArray[np.int32]

FIRST_FIT, BEST_FIT, BETTER, SEARCH = "first-fit", "best-fit", "better orders", "canonical search"

ORDERS = {"load": "TWA", "lifetime": "WAT", "size": "ZWT", "load-area": "TAW", "area": "AWT"}
ORDERS |= {"lower": "L", "upper": "U", "breadth": "B"}
"""Name of an order -> what decides, first letter first.

Decreasing: load of the fullest section (T), lifetime (W), area (A), size (Z), loads of all sections
together (B); increasing: start (L) and end (U) of the lifetime.
"""

FITS = tuple(f"{fit}-{order}" for order in ORDERS for fit in (FIRST_FIT, BEST_FIT))
"""Names of the planners that place each buffer once."""

MOST = 1_000
"""Buffers up to which packings are searched: tables grow with the square of their number."""

_SEARCHED = ("load", "lifetime", "size", "load-area")
_FIRST_NODES, _FAVOUR, _GROWTH, _NOISE, _SLICE = 20_000, 8, 2, 0.03, 5_000
"""Of searches: nodes of the first, how many times as many the first order gets, factor for those
that follow, how far ranks move (a part of their number), nodes between two looks at the clock."""

_STEPS, _PATIENCE = 200, 4
"""Of orders that improve: changes at a time, and how many times without a gain end it."""

NODES, DEPTH, TOP = 0, 1, 2
FAILED, PACKED, RUNNING = 0, 1, 2
"""What a search ends with: no packing is as low, one is, or it needs more nodes."""


class Field(NamedTuple):
    """Buffers as arrays, by lower and then upper; sizes in units of the problem's grain.

    Times are sections: those between neighbouring starts and ends of lifetimes.
    """

    lower: Integers
    upper: Integers
    size: Integers
    alignment: Integers


class Desk(NamedTuple):
    """Where the search works: a row for each depth.

    ``items`` and ``order``: buffers without a place, by number and by least offset. ``floor`` and
    ``start``: tops of what lies below each, and its least offset. ``stop``: where the group ends
    that begins here; groups share no section, and are packed alone. ``at``, ``low``, ``high``: of
    the group at work, which of its order comes next, its begin and end; no offset of it is below
    ``bottom`` nor from ``limit`` on; ``end``: where the groups end that its last choice has left in
    the next row. ``rank``: decides between buffers that start as low; ``last``: of the one that
    lies at ``bottom``. ``load`` and ``reach``: of sections, what is to be packed, and how high the
    lowest of it ends. ``state``: groups that were looked at (``NODES``), the row at work
    (``DEPTH``), the height that is asked (``TOP``).
    """

    items: Indices
    order: Indices
    stop: Indices
    floor: Integers
    start: Integers
    load: Integers
    reach: Integers
    group: Indices
    fill: Indices
    offset: Integers
    placed: NDArray[np.bool_]
    at: Integers
    low: Integers
    high: Integers
    bottom: Integers
    last: Integers
    limit: Integers
    end: Integers
    rank: Integers
    state: Integers


@compiled
def _aligned(address: int, alignment: int) -> int:
    rest = address % alignment
    return address if rest == 0 else address + alignment - rest


@compiled
def _fit(field: Field, order: Indices, tight: bool, offset: Integers) -> int:
    """Place buffers one after the other in the first, or the tightest, gap; return the height."""
    height = 0
    by_offset = np.empty(len(order), np.int32)
    for done in range(len(order)):
        i = order[done]
        size, begin, chosen, least = field.size[i], 0, -1, np.int64(2**62)
        for at in range(done):
            j = by_offset[at]
            if field.lower[j] >= field.upper[i] or field.lower[i] >= field.upper[j]:
                continue
            gap = offset[j] - begin
            if gap >= size and gap < least:
                chosen, least = begin, gap
                if not tight:
                    break
            begin = max(begin, _aligned(offset[j] + field.size[j], field.alignment[i]))
        offset[i] = begin if chosen < 0 else chosen
        height = max(height, offset[i] + size)
        at = done
        while at > 0 and offset[by_offset[at - 1]] > offset[i]:
            by_offset[at] = by_offset[at - 1]
            at -= 1
        by_offset[at] = i
    return height


@compiled
def _improve(field: Field, order: Indices, offset: Integers, seed: int, steps: int) -> int:
    """Move buffers that reach highest to earlier places; keep orders that are no worse."""
    np.random.seed(seed)
    trial, other = np.empty_like(offset), order.copy()
    height = _fit(field, order, False, offset)
    for _ in range(steps):
        highest = np.flatnonzero(offset + field.size == height)
        culprit = highest[np.random.randint(len(highest))]
        if np.random.random() < 0.3:
            culprit = order[np.random.randint(len(order))]
        old = 0
        while order[old] != culprit:
            old += 1
        new = np.random.randint(old + 1)
        other[:] = order
        other[new + 1 : old + 1] = order[new:old]
        other[new] = culprit
        reached = _fit(field, other, False, trial)
        if reached <= height:
            order[:] = other
            offset[:] = trial
            height = reached
    return height


@compiled
def _starts(field: Field, desk: Desk, depth: int, low: int) -> int:
    """Find the least offsets of a group; return the section it ends with.

    What comes next lies at ``bottom`` with a larger rank, or above. So whatever rests lower, or
    there with a smaller rank, will rest on something that is still to come: it starts no lower than
    the lowest such top of its sections.
    """
    items, start, floor, reach = desk.items[depth], desk.start[depth], desk.floor[depth], desk.reach
    high, bottom, rank = desk.stop[depth, low], desk.bottom[depth], desk.last[depth]
    first, last, waits = field.lower[items[low]], np.int64(0), False
    for at in range(low, high):
        i = items[at]
        rest = _aligned(floor[i], field.alignment[i])
        start[i] = _aligned(max(floor[i], bottom), field.alignment[i])
        if rest < bottom or (rest == bottom and desk.rank[i] < rank):
            waits = True
        last = max(last, field.upper[i])
    if not waits:
        return int(last)
    reach[first:last] = 2**62
    for at in range(low, high):
        i = items[at]
        top = start[i] + field.size[i]
        for section in range(field.lower[i], field.upper[i]):
            reach[section] = min(reach[section], top)
    for at in range(low, high):
        i = items[at]
        rest = _aligned(floor[i], field.alignment[i])
        if rest < bottom or (rest == bottom and desk.rank[i] < rank):
            least = np.int64(2**62)
            for section in range(field.lower[i], field.upper[i]):
                least = min(least, reach[section])
            start[i] = _aligned(max(start[i], least), field.alignment[i])
    return int(last)


@compiled
def _may_fit(field: Field, desk: Desk, depth: int, low: int) -> bool:
    """Order a group by least offsets; whether the sections have room for it.

    In each section, buffers with a start of s or more fill what lies above s.
    """
    order, start, load = desk.order[depth], desk.start[depth], desk.load
    high, rank = desk.stop[depth, low], desk.rank
    last = _starts(field, desk, depth, low)
    first = field.lower[desk.items[depth, low]]
    desk.state[NODES] += 1
    for at in range(low, high):
        i = order[at]
        begin = start[i]
        put = at
        while put > low:
            j = order[put - 1]
            if start[j] < begin or (start[j] == begin and rank[j] <= rank[i]):
                break
            order[put] = j
            put -= 1
        order[put] = i
    load[first:last] = 0
    for at in range(high - 1, low - 1, -1):
        i = order[at]
        size, room = field.size[i], desk.state[TOP] - start[i]
        for section in range(field.lower[i], field.upper[i]):
            load[section] += size
            if load[section] > room:
                return False
    return True


@compiled
def _lay(field: Field, desk: Desk, depth: int, low: int, chosen: int) -> int:
    """Fill the next row with the group less the chosen buffer; return where it ends."""
    items, order, floor = desk.items[depth], desk.order[depth], desk.floor[depth]
    high, below = desk.stop[depth, low], desk.floor[depth + 1]
    end, put, group = np.int64(0), low, low
    top = desk.start[depth, chosen] + field.size[chosen]
    for at in range(low, high):
        i = items[at]
        if i == chosen:
            continue
        if put > low and field.lower[i] >= end:
            desk.stop[depth + 1, group] = put
            group = put
        end = max(end, field.upper[i])
        desk.group[i] = group
        desk.items[depth + 1, put] = i
        desk.fill[put] = put
        put += 1
        below[i] = floor[i]
        if field.lower[i] < field.upper[chosen] and field.lower[chosen] < field.upper[i]:
            below[i] = max(floor[i], top)
    if put > low:
        desk.stop[depth + 1, group] = put
    for at in range(low, high):
        i = order[at]
        if i != chosen:
            desk.order[depth + 1, desk.fill[desk.group[i]]] = i
            desk.fill[desk.group[i]] += 1
    return put


@compiled
def _allowed(field: Field, desk: Desk, chosen: int, begin: int) -> bool:
    """Whether a buffer may come next beside those of the same lifetime; see :func:`_search`."""
    for step in (-1, 1):
        j = chosen + step
        while 0 <= j < len(field.size) and (
            field.lower[j] == field.lower[chosen] and field.upper[j] == field.upper[chosen]
        ):
            if field.alignment[j] == field.alignment[chosen] == 1:
                larger = field.size[chosen] - field.size[j]
                if not desk.placed[j]:
                    if j < chosen and larger == 0:
                        return False
                elif larger > 0 and desk.offset[j] + field.size[j] == begin:
                    return False
            j += step
    return True


@compiled
def _enter(field: Field, desk: Desk, depth: int, low: int) -> None:
    """Begin with the group of a row that starts there."""
    high, limit = desk.stop[depth, low], desk.state[TOP]
    for at in range(low, high):
        i = desk.items[depth, at]
        rest = _aligned(desk.floor[depth, i], field.alignment[i])
        limit = min(limit, rest + field.size[i])
    desk.at[depth], desk.low[depth], desk.high[depth] = low, low, high
    desk.limit[depth] = limit


@compiled
def _next(field: Field, desk: Desk, depth: int) -> int:
    """Return the next buffer of a group to try at its least offset, or -1."""
    while desk.at[depth] < desk.high[depth]:
        i = desk.order[depth, desk.at[depth]]
        begin = desk.start[depth, i]
        if begin >= desk.limit[depth]:
            return -1
        desk.at[depth] += 1
        rests = _aligned(desk.floor[depth, i], field.alignment[i]) == begin
        if rests and _allowed(field, desk, i, begin):
            return int(i)
    return -1


@compiled
def _search(field: Field, desk: Desk, nodes: int) -> int:
    """Pack all groups of the first row, from the bottom upwards; FAILED is a proof.

    Of the packings up to ``top`` take one with the least sum of offset times squared size, and of
    these the one whose offsets are least one after the other. In it (a) every buffer lies on what
    is below it, or at 0; (b) with buffers in the order of their offsets, and by rank where those
    are equal, none that comes later would fit below the next one; (c) of buffers that are alike the
    first lies lowest; (d) of two with the same lifetime of which one lies on the other, the upper
    one is not the larger. Else one of them could be moved down, or two exchanged. So packings
    without these need no look; groups without a common section do not disturb each other.

    Called again on the same desk with more nodes, it goes on.
    """
    depth = desk.state[DEPTH]
    while desk.state[NODES] < nodes:
        chosen = _next(field, desk, depth)
        if chosen < 0:
            depth -= 1
            if depth == 0:
                return FAILED
            for at in range(desk.low[depth], desk.end[depth]):
                desk.placed[desk.items[depth + 1, at]] = False
            desk.placed[desk.order[depth, desk.at[depth] - 1]] = False
            continue
        begin, low = desk.start[depth, chosen], desk.low[depth]
        desk.offset[chosen] = begin
        end = _lay(field, desk, depth, low, chosen)
        desk.bottom[depth + 1], desk.last[depth + 1] = begin, desk.rank[chosen]
        fits, first = True, low
        while first < end and fits:
            fits = _may_fit(field, desk, depth + 1, first)
            first = desk.stop[depth + 1, first]
        if not fits:
            continue
        desk.placed[chosen] = True
        desk.end[depth] = end
        if end > low:
            depth += 1
            _enter(field, desk, depth, low)
            continue
        while depth > 0 and desk.high[depth] >= desk.end[depth - 1]:
            depth -= 1
        if depth == 0:
            return PACKED
        _enter(field, desk, depth, desk.high[depth])
    desk.state[DEPTH] = depth
    return RUNNING


class Trial:
    """A search for packings up to a height, which can be left and taken up again."""

    def __init__(self, field: Field, rank: Integers, top: int) -> None:
        size = len(field.size)
        kinds = (np.int32,) * 3 + (np.int64,) * 2
        parts: list[Any] = [np.zeros((size + 2, size), kind) for kind in kinds]
        parts += [np.zeros(int(field.upper.max()) + 1, np.int64) for _ in range(2)]
        parts += [np.zeros(size, kind) for kind in (np.int32, np.int32, np.int64, np.bool_)]
        parts += [*(np.zeros(size + 2, np.int64) for _ in range(7)), rank, np.array([0, 1, top])]
        self.field, self.desk = field, Desk(*parts)
        self.result = RUNNING if self._begin() else FAILED

    @property
    def nodes(self) -> int:
        """Groups that were looked at."""
        return int(self.desk.state[NODES])

    def go_on(self, nodes: int, budget: Budget) -> int:
        """Search until there are so many nodes, or the budget ends."""
        while self.result == RUNNING and self.nodes < nodes and not budget.over:
            some = min(nodes, self.nodes + _SLICE)
            self.result = int(_search(self.field, self.desk, some))
        return self.result

    def _begin(self) -> bool:
        """Lay all buffers into the first row; whether there is room for them."""
        f, desk = self.field, self.desk
        size = len(f.size)
        cuts = np.flatnonzero(f.lower[1:] >= np.maximum.accumulate(f.upper)[:-1]) + 1
        desk.items[1], desk.end[0], desk.last[1] = np.arange(size), size, -1
        for low, high in zip([0, *cuts.tolist()], [*cuts.tolist(), size], strict=True):
            desk.order[1, low:high] = low + np.argsort(desk.rank[low:high])
            desk.stop[1, low] = high
            if not _may_fit(f, desk, 1, low):
                return False
        _enter(f, desk, 1, 0)
        return True


@dataclass(frozen=True)
class Packer:
    """Planners of one problem."""

    problem: PackingProblem

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        """As :class:`Field` has them."""
        return tuple(sorted(self.problem.buffers, key=lambda b: (b.lower, b.upper)))

    @cached_property
    def grain(self) -> int:
        """What all sizes and alignments are multiples of: so are offsets, as in :func:`_search`."""
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
        """Name -> buffers one after the other; see :data:`ORDERS`."""
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
        return len(self.buffers) <= MOST

    def fit(self, name: str) -> PackingPlan:
        """One of :data:`FITS`."""
        offset = np.zeros(len(self.buffers), np.int64)
        order = self.orders[name.split("-", 2)[2]]
        _fit(self.field, order, name.startswith(BEST_FIT), offset)
        return self.plan(offset, name)

    def better_orders(self, budget: Budget, seed: int, lower: int) -> Iterator[PackingPlan]:
        """First fits of orders that are changed step by step, while they get lower and lower."""
        f, offset = self.field, np.zeros(len(self.buffers), np.int64)
        begun = {name: _fit(f, order, False, offset) for name, order in self.orders.items()}
        names = sorted(begun, key=lambda name: begun[name])
        best = begun[names[0]]
        for turn in range(len(names)) if budget.repeatable else count():
            name, idle = names[turn % len(names)], 0
            order, height = self.orders[name].copy(), begun[name]
            while idle < _PATIENCE:
                if best * self.grain <= lower or budget.over:
                    return
                reached = _improve(f, order, offset, seed + 1_000 * turn + idle, _STEPS)
                idle = 0 if reached < height else idle + 1
                height = reached
                if height < best:
                    best = height
                    yield self.plan(offset, BETTER)

    def search(
        self, budget: Budget, seed: int, lower: int, known: int | None
    ) -> Iterator[PackingPlan | Bound]:
        """Look for lower and lower packings, by many orders with more and more nodes each.

        ``lower`` and ``known``: a bound on the height, and the height of a packing if one is known.
        The nodes of the budget are those of all trials together.
        """
        low, high = ceil_div(lower, self.grain), self._highest(known)
        begun: dict[tuple[int, int], Trial] = {}
        left = np.inf if budget.nodes is None else budget.nodes
        for number, rank, nodes in self._trials(seed):
            for top in (high, low):
                if low > high or left <= 0 or budget.over:
                    return
                if not low <= top <= high:
                    continue
                trial = begun.get((top, number)) or Trial(self.field, rank, top)
                used = trial.nodes
                result = trial.go_on(nodes, budget)
                left -= trial.nodes - used
                if result == PACKED:
                    yield self.plan(trial.desk.offset, SEARCH)
                    high = int((trial.desk.offset + self.field.size).max()) - 1
                elif result == FAILED:
                    low = top + 1
                    detail = f"no packing of {top * self.grain} or less, in {trial.nodes} nodes"
                    yield Bound(SEARCH, low * self.grain, detail)
                elif number >= 0:
                    begun[top, number] = trial
                begun = {key: kept for key, kept in begun.items() if low <= key[0] <= high}

    def _trials(self, seed: int) -> Iterator[tuple[int, Integers, int]]:
        """Ranks with their numbers and how many nodes they may use; -1 for ranks nearby."""
        rng, ranks = np.random.default_rng(seed), [_ranks(self.orders[name]) for name in _SEARCHED]
        spread = _NOISE * len(self.buffers)
        for turn in count():
            nodes = _FIRST_NODES * _GROWTH**turn
            for number, rank in enumerate(ranks):
                yield number, rank, nodes * (1 if number else _FAVOUR)
            rank = ranks[turn % len(ranks)]
            yield -1, _ranks(np.argsort(rank + rng.normal(0, spread, len(rank)))), nodes

    def _highest(self, known: int | None) -> int:
        """Height to aim at first: below what is known, within the capacity."""
        tops = [self.problem.capacity, None if known is None else known - 1]
        within = (top // self.grain for top in tops if top is not None)
        return min([int((self.field.size + self.field.alignment).sum()), *within])

    def plan(self, offset: Integers, planner: str) -> PackingPlan:
        """The plan of offsets in grains."""
        pairs = zip(self.buffers, offset.tolist(), strict=True)
        starts = {buffer.name: start * self.grain for buffer, start in pairs}
        places = tuple(Place(buffer, starts[buffer.name]) for buffer in self.problem.buffers)
        height = max(place.offset + place.buffer.size for place in places)
        return PackingPlan(self.problem.name, places, height, planner)


def _ranks(order: NDArray[np.integer]) -> Integers:
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks
