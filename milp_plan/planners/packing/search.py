"""Canonical packings, searched from the bottom upwards; a search that fails is a proof.

Bounds of sections and canonical packings are those of MiniMalloc (Moffitt, ASPLOS 2023).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.budget import Budget
from milp_plan.core.compiled import compiled, sort_stably

from .field import Field, Indices, Integers, aligned

_SLICE = 5_000
"""Nodes between two looks at the clock."""

NODES, DEPTH, TOP, BY_LOAD = 0, 1, 2, 3
FAILED, PACKED, RUNNING = 0, 1, 2
"""What a search ends with: no packing is as low, one is, or it needs more nodes."""


class Desk(NamedTuple):
    """Where the search works: a row for each depth.

    ``items`` and ``order``: buffers without a place, by number and by least offset. ``floor`` and
    ``start``: tops of what lies below each, and its least offset. ``stop``: where the group ends
    that begins here; groups share no section, and are packed alone. ``at``, ``low``, ``high``: of
    the group at work, which of its order comes next, its begin and end; no offset of it is below
    ``bottom`` nor from ``limit`` on; ``end``: where the groups end that its last choice has left in
    the next row. ``rank``: decides between buffers that start as low, as given in row 0; ``last``:
    of the one that lies at ``bottom``. ``load`` and ``reach``: of sections, what is to be packed,
    and how high the lowest of it ends. ``state``: groups that were looked at (``NODES``), the row
    at work (``DEPTH``), the height that is asked (``TOP``), whether groups are ranked by the loads
    that are left (``BY_LOAD``).
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
    rank: Indices
    state: Integers


@compiled
def _starts(field: Field, desk: Desk, depth: int, low: int) -> int:
    """Find the least offsets of a group; return the section it ends with.

    What comes next lies at ``bottom`` with a larger rank, or above. So whatever rests lower, or
    there with a smaller rank, will rest on something that is still to come: it starts no lower than
    the lowest such top of its sections.
    """
    items, start, floor, reach = desk.items[depth], desk.start[depth], desk.floor[depth], desk.reach
    high, bottom, last = desk.stop[depth, low], desk.bottom[depth], desk.last[depth]
    rank = desk.rank[depth]
    first, stop, waits = field.lower[items[low]], np.int64(0), False
    for at in range(low, high):
        i = items[at]
        rest = aligned(floor[i], field.alignment[i])
        start[i] = aligned(max(floor[i], bottom), field.alignment[i])
        if rest < bottom or (rest == bottom and rank[i] < last):
            waits = True
        stop = max(stop, field.upper[i])
    if not waits:
        return int(stop)
    reach[first:stop] = 2**62
    for at in range(low, high):
        i = items[at]
        top = start[i] + field.size[i]
        for section in range(field.lower[i], field.upper[i]):
            reach[section] = min(reach[section], top)
    for at in range(low, high):
        i = items[at]
        rest = aligned(floor[i], field.alignment[i])
        if rest < bottom or (rest == bottom and rank[i] < last):
            least = np.int64(2**62)
            for section in range(field.lower[i], field.upper[i]):
                least = min(least, reach[section])
            start[i] = aligned(max(start[i], least), field.alignment[i])
    return int(stop)


@compiled
def _may_fit(field: Field, desk: Desk, depth: int, low: int) -> bool:
    """Order a group by least offsets; whether the sections have room for it.

    In each section, buffers with a start of s or more fill what lies above s.
    """
    order, start, load = desk.order[depth], desk.start[depth], desk.load
    high, rank = desk.stop[depth, low], desk.rank[depth]
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
def _rank(field: Field, desk: Desk, depth: int, low: int) -> None:
    """Rank a group by the load of its fullest sections, then as ranks were at first."""
    items, load, rank = desk.items[depth, low : desk.stop[depth, low]], desk.load, desk.rank[depth]
    keys, first, second = np.empty((3, len(items)), np.int64)
    load[:] = 0
    for at, i in enumerate(items):
        keys[at] = desk.rank[0, i]
        for section in range(field.lower[i], field.upper[i]):
            load[section] += field.size[i]
    sort_stably(keys, first)
    for at in range(len(items)):
        i = items[first[at]]
        keys[at] = 0
        for section in range(field.lower[i], field.upper[i]):
            keys[at] = min(keys[at], -load[section])
    sort_stably(keys, second)
    for at in range(len(items)):
        rank[items[first[second[at]]]] = at


@compiled
def _lay(field: Field, desk: Desk, depth: int, low: int, chosen: int) -> int:
    """Fill the next row with the group less the chosen buffer; return where it ends."""
    items, order, floor = desk.items[depth], desk.order[depth], desk.floor[depth]
    high, below, rank = desk.stop[depth, low], desk.floor[depth + 1], desk.rank[depth + 1]
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
        below[i], rank[i] = floor[i], desk.rank[depth, i]
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
        rest = aligned(desk.floor[depth, i], field.alignment[i])
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
        rests = aligned(desk.floor[depth, i], field.alignment[i]) == begin
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
    without these need no look; groups without a common section do not disturb each other, and
    any ranks of their own will do.

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
        desk.bottom[depth + 1], desk.last[depth + 1] = begin, desk.rank[depth, chosen]
        by_load = desk.state[BY_LOAD] > 0 and low < end and desk.stop[depth + 1, low] < end
        if by_load:
            desk.last[depth + 1] = -1
        fits, first = True, low
        while first < end and fits:
            if by_load:
                _rank(field, desk, depth + 1, first)
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

    def __init__(self, field: Field, rank: Integers, top: int, by_load: bool = False) -> None:
        size = len(field.size)
        kinds = (np.int32,) * 3 + (np.int64,) * 2
        parts: list[Any] = [np.zeros((size + 2, size), kind) for kind in kinds]
        parts += [np.zeros(int(field.upper.max()) + 1, np.int64) for _ in range(2)]
        parts += [np.zeros(size, kind) for kind in (np.int32, np.int32, np.int64, np.bool_)]
        parts += [np.zeros(size + 2, np.int64) for _ in range(7)]
        ranks = np.zeros((size + 2, size), np.int32)
        ranks[:2] = rank
        parts += [ranks, np.array([0, 1, top, by_load])]
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
            desk.order[1, low:high] = low + np.argsort(desk.rank[1, low:high])
            desk.stop[1, low] = high
            if not _may_fit(f, desk, 1, low):
                return False
        _enter(f, desk, 1, 0)
        return True
