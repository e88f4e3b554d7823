"""Searches canonical packings from the bottom upwards; a failed search is a proof.

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
"""Nodes between two readings of the clock."""

NODES, DEPTH, TOP, BY_LOAD = 0, 1, 2, 3
FAILED, PACKED, RUNNING = 0, 1, 2
"""Results of a search: no packing is as low, one is, or it needs more nodes."""


class SearchArrays(NamedTuple):
    """State of the search, with a row for each depth.

    ``items`` and ``order``: buffers without a place, by number and by least offset. ``floor`` and
    ``start``: tops of what lies below each, and its least offset. ``stop``: where the group ends
    that begins here; groups share no section, and are packed alone. ``at``, ``low``, ``high``: of
    the group at work, which of its order comes next, its begin and end; no offset of it is below
    ``bottom`` nor from ``limit`` on; ``end``: where the groups end that its last choice has left in
    the next row. ``rank``: decides between buffers that start as low, as given in row 0; ``last``:
    of the one that lies at ``bottom``. ``load`` and ``reach``: of sections, what is to be packed,
    and how high the lowest of it ends. ``state``: groups that were examined (``NODES``), the row
    at work (``DEPTH``), the target height (``TOP``), whether groups are ranked by the loads
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
def _starts(field: Field, arrays: SearchArrays, depth: int, low: int) -> int:
    """Find the least offsets of a group; return the section it ends with.

    What comes next lies at ``bottom`` with a larger rank, or above. So whatever rests lower, or
    there with a smaller rank, will rest on something that is still to come: it starts no lower than
    the lowest such top of its sections.
    """
    items, start, floor, reach = (
        arrays.items[depth],
        arrays.start[depth],
        arrays.floor[depth],
        arrays.reach,
    )
    high, bottom, last = arrays.stop[depth, low], arrays.bottom[depth], arrays.last[depth]
    rank = arrays.rank[depth]
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
def _may_fit(field: Field, arrays: SearchArrays, depth: int, low: int) -> bool:
    """Order a group by least offsets; return whether the sections have room for it.

    In each section, buffers with a start of s or more fill what lies above s.
    """
    order, start, load = arrays.order[depth], arrays.start[depth], arrays.load
    high, rank = arrays.stop[depth, low], arrays.rank[depth]
    last = _starts(field, arrays, depth, low)
    first = field.lower[arrays.items[depth, low]]
    arrays.state[NODES] += 1
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
        size, room = field.size[i], arrays.state[TOP] - start[i]
        for section in range(field.lower[i], field.upper[i]):
            load[section] += size
            if load[section] > room:
                return False
    return True


@compiled
def _rank(field: Field, arrays: SearchArrays, depth: int, low: int) -> None:
    """Rank a group by the load of its fullest sections, then by the initial ranks."""
    items, load, rank = (
        arrays.items[depth, low : arrays.stop[depth, low]],
        arrays.load,
        arrays.rank[depth],
    )
    keys, first, second = np.empty((3, len(items)), np.int64)
    load[:] = 0
    for at, i in enumerate(items):
        keys[at] = arrays.rank[0, i]
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
def _lay(field: Field, arrays: SearchArrays, depth: int, low: int, chosen: int) -> int:
    """Fill the next row with the group less the chosen buffer; return where it ends."""
    items, order, floor = arrays.items[depth], arrays.order[depth], arrays.floor[depth]
    high, below, rank = arrays.stop[depth, low], arrays.floor[depth + 1], arrays.rank[depth + 1]
    end, put, group = np.int64(0), low, low
    top = arrays.start[depth, chosen] + field.size[chosen]
    for at in range(low, high):
        i = items[at]
        if i == chosen:
            continue
        if put > low and field.lower[i] >= end:
            arrays.stop[depth + 1, group] = put
            group = put
        end = max(end, field.upper[i])
        arrays.group[i] = group
        arrays.items[depth + 1, put] = i
        arrays.fill[put] = put
        put += 1
        below[i], rank[i] = floor[i], arrays.rank[depth, i]
        if field.lower[i] < field.upper[chosen] and field.lower[chosen] < field.upper[i]:
            below[i] = max(floor[i], top)
    if put > low:
        arrays.stop[depth + 1, group] = put
    for at in range(low, high):
        i = order[at]
        if i != chosen:
            arrays.order[depth + 1, arrays.fill[arrays.group[i]]] = i
            arrays.fill[arrays.group[i]] += 1
    return put


@compiled
def _allowed(field: Field, arrays: SearchArrays, chosen: int, begin: int) -> bool:
    """Return whether a buffer may come next, given those of equal lifetime; see :func:`_search`."""
    for step in (-1, 1):
        j = chosen + step
        while 0 <= j < len(field.size) and (
            field.lower[j] == field.lower[chosen] and field.upper[j] == field.upper[chosen]
        ):
            if field.alignment[j] == field.alignment[chosen] == 1:
                larger = field.size[chosen] - field.size[j]
                if not arrays.placed[j]:
                    if j < chosen and larger == 0:
                        return False
                elif larger > 0 and arrays.offset[j] + field.size[j] == begin:
                    return False
            j += step
    return True


@compiled
def _enter(field: Field, arrays: SearchArrays, depth: int, low: int) -> None:
    """Begin with the group of a row that starts there."""
    high, limit = arrays.stop[depth, low], arrays.state[TOP]
    for at in range(low, high):
        i = arrays.items[depth, at]
        rest = aligned(arrays.floor[depth, i], field.alignment[i])
        limit = min(limit, rest + field.size[i])
    arrays.at[depth], arrays.low[depth], arrays.high[depth] = low, low, high
    arrays.limit[depth] = limit


@compiled
def _next(field: Field, arrays: SearchArrays, depth: int) -> int:
    """Return the next buffer of a group to try at its least offset, or -1."""
    while arrays.at[depth] < arrays.high[depth]:
        i = arrays.order[depth, arrays.at[depth]]
        begin = arrays.start[depth, i]
        if begin >= arrays.limit[depth]:
            return -1
        arrays.at[depth] += 1
        rests = aligned(arrays.floor[depth, i], field.alignment[i]) == begin
        if rests and _allowed(field, arrays, i, begin):
            return int(i)
    return -1


@compiled
def _search(field: Field, arrays: SearchArrays, nodes: int) -> int:
    """Pack all groups of the first row, from the bottom upwards; FAILED is a proof.

    Of the packings up to ``top`` take one with the least sum of offset times squared size, and of
    these the one whose offsets are least one after the other. In it (a) every buffer lies on what
    is below it, or at 0; (b) with buffers in the order of their offsets, and by rank where those
    are equal, none that comes later would fit below the next one; (c) of buffers that are alike the
    first lies lowest; (d) of two with the same lifetime of which one lies on the other, the upper
    one is not the larger. Else one of them could be moved down, or two exchanged. So packings
    without these need no look; groups without a common section do not disturb each other, and
    any ranks of their own will do.

    Called again on the same arrays with more nodes, it goes on.
    """
    depth = arrays.state[DEPTH]
    while arrays.state[NODES] < nodes:
        chosen = _next(field, arrays, depth)
        if chosen < 0:
            depth -= 1
            if depth == 0:
                return FAILED
            for at in range(arrays.low[depth], arrays.end[depth]):
                arrays.placed[arrays.items[depth + 1, at]] = False
            arrays.placed[arrays.order[depth, arrays.at[depth] - 1]] = False
            continue
        begin, low = arrays.start[depth, chosen], arrays.low[depth]
        arrays.offset[chosen] = begin
        end = _lay(field, arrays, depth, low, chosen)
        arrays.bottom[depth + 1], arrays.last[depth + 1] = begin, arrays.rank[depth, chosen]
        by_load = arrays.state[BY_LOAD] > 0 and low < end and arrays.stop[depth + 1, low] < end
        if by_load:
            arrays.last[depth + 1] = -1
        fits, first = True, low
        while first < end and fits:
            if by_load:
                _rank(field, arrays, depth + 1, first)
            fits = _may_fit(field, arrays, depth + 1, first)
            first = arrays.stop[depth + 1, first]
        if not fits:
            continue
        arrays.placed[chosen] = True
        arrays.end[depth] = end
        if end > low:
            depth += 1
            _enter(field, arrays, depth, low)
            continue
        while depth > 0 and arrays.high[depth] >= arrays.end[depth - 1]:
            depth -= 1
        if depth == 0:
            return PACKED
        _enter(field, arrays, depth, arrays.high[depth])
    arrays.state[DEPTH] = depth
    return RUNNING


class Trial:
    """A search for packings up to a height, which can be interrupted and continued."""

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
        self.field, self.arrays = field, SearchArrays(*parts)
        self.result = RUNNING if self._begin() else FAILED

    @property
    def nodes(self) -> int:
        """Number of groups that were examined."""
        return int(self.arrays.state[NODES])

    def go_on(self, nodes: int, budget: Budget) -> int:
        """Search up to a number of nodes, or until the budget ends."""
        while self.result == RUNNING and self.nodes < nodes and not budget.over:
            some = min(nodes, self.nodes + _SLICE)
            self.result = int(_search(self.field, self.arrays, some))
        return self.result

    def _begin(self) -> bool:
        """Put all buffers into the first row; return whether there is room for them."""
        f, arrays = self.field, self.arrays
        size = len(f.size)
        cuts = np.flatnonzero(f.lower[1:] >= np.maximum.accumulate(f.upper)[:-1]) + 1
        arrays.items[1], arrays.end[0], arrays.last[1] = np.arange(size), size, -1
        for low, high in zip([0, *cuts.tolist()], [*cuts.tolist(), size], strict=True):
            arrays.order[1, low:high] = low + np.argsort(arrays.rank[1, low:high])
            arrays.stop[1, low] = high
            if not _may_fit(f, arrays, 1, low):
                return False
        _enter(f, arrays, 1, 0)
        return True
