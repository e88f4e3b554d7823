"""Search over placements of a few operators for the least time that parts of a graph take.

The compiled side of :mod:`.region_times`, where the proof is.
"""

# ruff: noqa: C901, PLR0912, PLR0915 (compiled loops over arrays)

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from milp_plan.core.compiled import compiled

from .view import Array

ENDLESS = 2**59
"""Stands for 'impossible'; a few of them can be added."""
DELAY, CHANNEL, ENDPOINT = range(3)
"""Communication models."""


class Parts(NamedTuple):
    """Operators of some parts of a graph; each part begins with its source and ends with its sink.

    ``first`` says where each part begins. ``place`` is the number of an operator's place: operators
    of one group share theirs. Column C of ``ticks`` is the least over all C colours. Edges that end
    in operator v are those from ``edge_at[v]`` on: they begin in ``edge_from``, take ``near`` on
    one device, ``enter`` from one colour to another, ``wait`` at least. ``after[v]`` says who
    follows v. Value i is made by ``value_from[i]`` and read by those from ``reader_at[i]`` on, it
    takes ``value_ticks`` between colours. ``fits`` says which colours a place may have, ``bytes``
    what it needs there of ``room``, ``beside`` what its operators need beside all that while they
    run; there are ``machines`` of each colour.
    """

    first: Array
    place: Array
    ticks: Array
    edge_at: Array
    edge_from: Array
    near: Array
    enter: Array
    wait: Array
    after: Array
    value_from: Array
    reader_at: Array
    readers: Array
    value_ticks: Array
    fits: Array
    bytes: Array
    beside: Array
    room: Array
    machines: Array
    model: int


@compiled
def preemptive(heads: Array, ticks: Array, tails: Array, count: int, left: Array) -> int:
    """Return the value of Jackson's preemptive schedule on one machine."""
    worst, now, todo = 0, 2**60, count
    for a in range(count):
        left[a] = ticks[a]
        now = min(now, heads[a])
    while todo > 0:
        best, following = -1, 2**60
        for a in range(count):
            if left[a] >= 0:
                if heads[a] <= now:
                    if best < 0 or tails[a] > tails[best]:
                        best = a
                else:
                    following = min(following, heads[a])
        if best < 0:
            now = following
        elif now + left[best] <= following:
            now += left[best]
            left[best] = -1
            todo -= 1
            worst = max(worst, now + tails[best])
        else:
            left[best] -= following - now
            now = following
    return worst


@compiled
def _wait(t: Parts, edge: int, before: int, after: int, colour: Array) -> int:
    """Return the ticks between the ends of an edge on two devices; -1 for a device that is open."""
    if before < 0 or after < 0:
        return int(t.wait[edge])
    if before == after:
        return int(t.near[edge, colour[after]])
    return int(t.enter[edge, colour[before], colour[after]])


@compiled
def insert(heads: Array, ticks: Array, count: int, head: int, length: int) -> None:
    """Insert one into ``count`` heads with their ticks, the largest head first."""
    b = count
    while b > 0 and heads[b - 1] < head:
        heads[b], ticks[b] = heads[b - 1], ticks[b - 1]
        b -= 1
    heads[b], ticks[b] = head, length


@compiled
def one_by_one(heads: Array, ticks: Array, count: int) -> int:
    """Return the least ticks on one machine: over all suffixes, the least head plus the work."""
    worst = total = 0
    for a in range(count):
        total += ticks[a]
        worst = max(worst, heads[a] + total)
    return worst


@compiled
def _least_time(t: Parts, part: int, device: Array, colour: Array, work: Array) -> int:
    """Return the least time of one part, from the stop of its source to the start of its sink.

    ``device`` has the device of each place, -1 where it is open; ``work`` is room for numbers.
    """
    low, high = t.first[part], t.first[part + 1]
    colours = len(t.machines)
    head, tail, ticks, here = work[0], work[1], work[2], work[3]
    some_heads, some_ticks, some_tails, left = work[4], work[5], work[6], work[7]
    for v in range(low, high):
        here[v] = device[t.place[v]]
        ticks[v] = t.ticks[v, colours if here[v] < 0 else colour[here[v]]]
    for v in range(low, high):
        result = 0
        for e in range(t.edge_at[v], t.edge_at[v + 1]):
            a = t.edge_from[e]
            wait = _wait(t, e, here[a], here[v], colour)
            result = max(result, head[a] + ticks[a] + wait)
        if here[v] >= 0:
            count = 0
            for a in range(low, v):
                if here[a] == here[v] and t.after[a, v] == 1:
                    insert(some_heads, some_ticks, count, head[a], ticks[a])
                    count += 1
            result = max(result, one_by_one(some_heads, some_ticks, count))
        head[v] = min(result, 2**59)
        if result >= 2**59:
            return 2**59
        tail[v] = 0
    for v in range(high - 1, low - 1, -1):
        if here[v] >= 0:
            count = 0
            for a in range(v + 1, high):
                if here[a] == here[v] and t.after[v, a] == 1:
                    insert(some_heads, some_ticks, count, tail[a], ticks[a])
                    count += 1
            tail[v] = max(tail[v], one_by_one(some_heads, some_ticks, count))
        for e in range(t.edge_at[v], t.edge_at[v + 1]):
            a = t.edge_from[e]
            wait = _wait(t, e, here[a], here[v], colour)
            tail[a] = max(tail[a], wait + ticks[v] + tail[v])
    worst = 0
    for v in range(low, high):
        worst = max(worst, head[v] + ticks[v] + tail[v])
    devices = len(colour)
    for d in range(devices):
        count = 0
        for v in range(low, high):
            if here[v] == d:
                some_heads[count], some_ticks[count], some_tails[count] = head[v], ticks[v], tail[v]
                count += 1
        if count > 1:
            worst = max(worst, preemptive(some_heads, some_ticks, some_tails, count, left))
    if t.model == 0:
        return worst
    # Transfers: from, to, head, ticks, tail.
    sent = 0
    journey = work[8:13]
    for i in range(len(t.value_from)):
        a = t.value_from[i]
        if a < low or a >= high or here[a] < 0:
            continue
        began = sent
        for r in range(t.reader_at[i], t.reader_at[i + 1]):
            v = t.readers[r]
            if here[v] < 0 or here[v] == here[a]:
                continue
            at = -1
            for s in range(began, sent):
                if journey[1, s] == here[v]:
                    at = s
            if at < 0:
                at = sent
                sent += 1
                journey[0, at], journey[1, at] = here[a], here[v]
                journey[2, at] = head[a] + ticks[a]
                journey[3, at] = t.value_ticks[r, colour[here[a]], colour[here[v]]]
                journey[4, at] = 0
            other = t.value_ticks[r, colour[here[a]], colour[here[v]]]
            journey[3, at] = min(journey[3, at], other)
            journey[4, at] = max(journey[4, at], ticks[v] + tail[v])
    for d in range(devices):
        for side in range(2 if t.model == 2 else devices):
            count = 0
            for s in range(sent):
                if t.model == 2:
                    mine = journey[side, s] == d
                else:
                    mine = journey[0, s] == d and journey[1, s] == side
                if mine:
                    some_heads[count], some_ticks[count] = journey[2, s], journey[3, s]
                    some_tails[count] = journey[4, s]
                    count += 1
            if count > 1:
                worst = max(worst, preemptive(some_heads, some_ticks, some_tails, count, left))
    return worst


@compiled
def least_times(t: Parts, known: Array, most: int, found: Array) -> tuple[int, int]:
    """Return the least sum of the parts' times over all placements, and the number of placements.

    Parameters
    ----------
    t
        Arrays of the parts.
    known
        Least time of each part, whatever the others; 0 where nothing is known.
    most
        Placements, complete or not, after which the least of what is open is returned.
    found
        Gets the device of each place in the best complete placement, and then its sum.
    """
    places, parts = len(t.bytes), len(t.first) - 1
    devices = 0
    for c in range(len(t.machines)):
        devices += min(t.machines[c], places)
    colour = np.empty(devices, dtype=np.int64)
    at = 0
    for c in range(len(t.machines)):
        for _ in range(min(t.machines[c], places)):
            colour[at] = c
            at += 1
    size = len(t.place)
    room = max(size, len(t.readers)) + 1
    work = np.zeros((13, room), dtype=np.int64)
    device = np.full(places, -1, dtype=np.int64)
    used = np.zeros(devices, dtype=np.int64)
    free = np.zeros(devices, dtype=np.int64)
    beside = np.zeros((places + 1, devices), dtype=np.int64)
    for d in range(devices):
        free[d] = t.room[colour[d]]
    touched = np.zeros((places, parts), dtype=np.int64)
    for part in range(parts):
        for v in range(t.first[part], t.first[part + 1]):
            touched[t.place[v], part] = 1
    values = np.zeros((places + 1, parts), dtype=np.int64)
    root = 0
    for part in range(parts):
        values[0, part] = max(known[part], _least_time(t, part, device, colour, work))
        root += values[0, part]
    count = np.zeros(places, dtype=np.int64)
    where = np.zeros((places, devices), dtype=np.int64)
    bound = np.zeros((places, devices), dtype=np.int64)
    each = np.zeros((places, devices, parts), dtype=np.int64)
    best, tried, depth, fresh = 2**59, 0, 0, True
    while depth >= 0:
        if depth == places:
            total = 0
            for part in range(parts):
                total += values[depth, part]
            if total < best:
                best = total
                found[:places], found[places] = device, total
            if best <= root:
                return best, tried
            depth -= 1
            fresh = False
        elif fresh:
            if tried > most:
                break
            count[depth] = 0
            for d in range(devices):
                c = colour[d]
                if (
                    t.fits[depth, c] == 0
                    or t.bytes[depth] + max(t.beside[depth], beside[depth, d]) > free[d]
                ):
                    continue
                if used[d] == 0 and d > 0 and colour[d - 1] == c and used[d - 1] == 0:
                    continue
                device[depth] = d
                tried += 1
                total = 0
                for part in range(parts):
                    number = values[depth, part]
                    if touched[depth, part] == 1:
                        number = max(number, _least_time(t, part, device, colour, work))
                    each[depth, d, part] = number
                    total += number
                if total < best:
                    b = count[depth]
                    while b > 0 and bound[depth, b - 1] < total:
                        bound[depth, b] = bound[depth, b - 1]
                        where[depth, b] = where[depth, b - 1]
                        b -= 1
                    bound[depth, b], where[depth, b] = total, d
                    count[depth] += 1
            device[depth] = -1
            fresh = False
        else:
            if device[depth] >= 0:
                d = device[depth]
                used[d] -= 1
                free[d] += t.bytes[depth]
                device[depth] = -1
            while count[depth] > 0 and bound[depth, count[depth] - 1] >= best:
                count[depth] -= 1
            if count[depth] == 0:
                depth -= 1
            else:
                count[depth] -= 1
                d = where[depth, count[depth]]
                device[depth] = d
                used[d] += 1
                free[d] -= t.bytes[depth]
                beside[depth + 1] = beside[depth]
                beside[depth + 1, d] = max(beside[depth, d], t.beside[depth])
                for part in range(parts):
                    values[depth + 1, part] = each[depth, d, part]
                depth += 1
                fresh = True
    if depth < 0:
        return best, tried
    # Stopped: what is open at each depth, and the one about to be opened.
    total = 0
    for part in range(parts):
        total += values[depth, part]
    best = min(best, total)
    for a in range(depth):
        for b in range(count[a]):
            best = min(best, bound[a, b])
    return best, tried
