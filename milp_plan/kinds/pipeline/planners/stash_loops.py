"""Compiled loops over words of steps, recomputations and journeys back: exact times, annealing.

The word of a device is a list of events in the order in which they begin to hold memory: a step is
its number, the *return* of stash s (its maker's second run, or its journey back from the host) is
the number of steps plus s. Steps and second runs occupy the device in this order; a journey back
only holds memory and the lane. Everything starts as early as the word allows: steps when the device
is free and their inputs are there, what holds memory when enough was let go before it in the word.
Starts of what holds memory never decrease along a word, so memory is full at most where one of them
begins, and there it was counted.
"""

# ruff: noqa: C901, PLR0912, PLR0915, PLR0917, PLR1730 (compiled loops over arrays)

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled

Integers = NDArray[np.int64]

STAY, AGAIN, LEAVE = 0, 1, 2
"""How a stash is treated: it stays, is recomputed, or leaves to a host and returns."""

SLACK, EARLY = 0.25, 0.05
"""Weights of the mean end of devices, and of the mean start of steps, next to the makespan."""

TRIES = 8
"""Draws of a move until one is possible."""


class StashTables(NamedTuple):
    """The problem as arrays: rows of lists are concatenated, ``*_at`` holds their offsets.

    ``ticks``, ``device`` of steps; ``before``, ``lag`` of their arcs; ``alloc`` bytes that a step
    holds from its start on; ``free`` bytes that go at its stop whoever made them; ``stash`` of its
    maker, or -1; ``first_of`` stashes that a step reads first. Of stashes: ``maker``, ``first``,
    ``size``, ``may_again``, ``may_leave``; ``part`` bytes, ``out`` and ``back`` ticks of its
    values. ``room`` of devices; ``kind`` of events: equal ones keep their order.
    """

    ticks: Integers
    device: Integers
    before_at: Integers
    before: Integers
    lag: Integers
    alloc: Integers
    free: Integers
    stash: Integers
    first_at: Integers
    first_of: Integers
    maker: Integers
    first: Integers
    size: Integers
    may_again: Integers
    may_leave: Integers
    part_at: Integers
    part: Integers
    out: Integers
    back: Integers
    room: Integers
    kind: Integers


class StashBuffers(NamedTuple):
    """Buffers of :func:`decode`: starts of events and of journeys out, and its state."""

    start: Integers
    out_start: Integers
    cursor: Integers
    state: Integers
    freed_at: Integers
    freed: Integers


def buffers_of(tables: StashTables, words: Integers) -> StashBuffers:
    """Return buffers for words of this size."""
    steps, stashes = len(tables.ticks), len(tables.maker)
    devices, most = words.shape[0], 4 * words.shape[1] + len(tables.part) + 4
    return StashBuffers(
        np.zeros(steps + stashes, np.int64),
        np.zeros(stashes, np.int64),
        np.zeros(devices, np.int64),
        np.zeros((devices, 6), np.int64),
        np.zeros((devices, most), np.int64),
        np.zeros((devices, most), np.int64),
    )


_FREE, _OUT, _BACK, _LAST, _USED, _PENDING = range(6)


@compiled
def _wait(buffers: StashBuffers, d: int, need: int, room: int, now: int) -> int:
    """Return the time from which ``need`` more bytes fit on a device; -1 where they never do."""
    state = buffers.state
    while state[d, _USED] + need > room:
        count = state[d, _PENDING]
        if count == 0:
            return -1
        best = 0
        for i in range(1, count):
            if buffers.freed_at[d, i] < buffers.freed_at[d, best]:
                best = i
        if buffers.freed_at[d, best] > now:
            now = buffers.freed_at[d, best]
        state[d, _USED] -= buffers.freed[d, best]
        buffers.freed_at[d, best] = buffers.freed_at[d, count - 1]
        buffers.freed[d, best] = buffers.freed[d, count - 1]
        state[d, _PENDING] = count - 1
    return now


@compiled
def _let_go(buffers: StashBuffers, d: int, when: int, size: int) -> None:
    if size:
        count = buffers.state[d, _PENDING]
        buffers.freed_at[d, count] = when
        buffers.freed[d, count] = size
        buffers.state[d, _PENDING] = count + 1


@compiled
def decode(
    tables: StashTables, words: Integers, length: Integers, mode: Integers, buffers: StashBuffers
) -> float:
    """Start everything as early as its word allows; return the cost, infinity for a deadlock."""
    steps = len(tables.ticks)
    start, state, cursor = buffers.start, buffers.state, buffers.cursor
    start[:] = -1
    cursor[:] = 0
    state[:] = 0
    devices = words.shape[0]
    left = 0
    for d in range(devices):
        left += length[d]
    moved = True
    makespan = 0
    begun = 0.0
    while moved:
        moved = False
        for d in range(devices):
            while cursor[d] < length[d]:
                e = words[d, cursor[d]]
                x = e if e < steps else tables.maker[e - steps]
                s = tables.stash[e] if e < steps else e - steps
                travels = e >= steps and mode[s] == LEAVE
                now = 0 if travels else state[d, _FREE]
                ready = True
                if e < steps:
                    for a in range(tables.before_at[e], tables.before_at[e + 1]):
                        b = tables.before[a]
                        if start[b] < 0:
                            ready = False
                            break
                        t = start[b] + tables.ticks[b] + tables.lag[a]
                        if t > now:
                            now = t
                    if not ready:
                        break
                    for a in range(tables.first_at[e], tables.first_at[e + 1]):
                        f = tables.first_of[a]
                        if mode[f] != STAY:
                            t = start[steps + f]
                            if t < 0:
                                ready = False
                                break
                            if mode[f] == LEAVE:
                                for v in range(tables.part_at[f], tables.part_at[f + 1]):
                                    t += tables.back[v]
                                if t > now:
                                    now = t
                    if not ready:
                        return np.inf
                elif start[x] < 0:
                    return np.inf
                if travels:
                    t = buffers.out_start[s]
                    for v in range(tables.part_at[s], tables.part_at[s + 1]):
                        t += tables.out[v]
                    now = max(t, state[d, _BACK])
                need = tables.size[s] if travels else tables.alloc[x]
                if need:
                    if state[d, _LAST] > now:
                        now = state[d, _LAST]
                    now = _wait(buffers, d, need, tables.room[d], now)
                    if now < 0:
                        return np.inf
                    state[d, _USED] += need
                    state[d, _LAST] = now
                start[e] = now
                cursor[d] += 1
                left -= 1
                moved = True
                if travels:
                    for v in range(tables.part_at[s], tables.part_at[s + 1]):
                        now += tables.back[v]
                    state[d, _BACK] = now
                    continue
                stop = now + tables.ticks[x]
                state[d, _FREE] = stop
                if stop > makespan:
                    makespan = stop
                if e < steps:
                    begun += now
                    _let_go(buffers, d, stop, tables.free[e])
                    if s >= 0 and mode[s] == AGAIN:
                        _let_go(buffers, d, stop, tables.size[s])
                    elif s >= 0 and mode[s] == LEAVE:
                        t = max(stop, state[d, _OUT])
                        buffers.out_start[s] = t
                        for v in range(tables.part_at[s], tables.part_at[s + 1]):
                            t += tables.out[v]
                            _let_go(buffers, d, t, tables.part[v])
                        state[d, _OUT] = t
                else:
                    _let_go(buffers, d, stop, tables.alloc[x] - tables.size[s])
    if left:
        return np.inf
    ends = 0.0
    for d in range(devices):
        ends += state[d, _FREE]
    cost: float = makespan + SLACK * ends / devices + EARLY * begun / steps
    return cost


@compiled
def makespan_of(tables: StashTables, buffers: StashBuffers) -> int:
    """Return the stop of the last step after :func:`decode`."""
    best = 0
    for x in range(len(tables.ticks)):
        stop = buffers.start[x] + tables.ticks[x]
        if stop > best:
            best = stop
    return best


@compiled
def _find(words: Integers, length: Integers, d: int, event: int) -> int:
    for i in range(length[d]):
        if words[d, i] == event:
            return i
    return -1


@compiled
def _take_out(words: Integers, length: Integers, d: int, at: int) -> None:
    for i in range(at, length[d] - 1):
        words[d, i] = words[d, i + 1]
    length[d] -= 1


@compiled
def _put_in(words: Integers, length: Integers, d: int, at: int, event: int) -> None:
    for i in range(length[d], at, -1):
        words[d, i] = words[d, i - 1]
    words[d, at] = event
    length[d] += 1


@compiled
def change(
    tables: StashTables,
    words: Integers,
    length: Integers,
    mode: Integers,
    s: int,
    new: int,
    ahead: int,
) -> bool:
    """Change the treatment of a stash; its return is ``ahead`` events before its first reader."""
    steps = len(tables.ticks)
    d = tables.device[tables.maker[s]]
    if new == mode[s] or (new == AGAIN and not tables.may_again[s]):
        return False
    if new == LEAVE and not tables.may_leave[s]:
        return False
    if mode[s] != STAY:
        _take_out(words, length, d, _find(words, length, d, steps + s))
    mode[s] = new
    if new != STAY:
        low = _find(words, length, d, tables.maker[s]) + 1
        at = max(low, _find(words, length, d, tables.first[s]) - ahead)
        _put_in(words, length, d, at, steps + s)
    return True


@compiled
def _shift(tables: StashTables, words: Integers, length: Integers, reach: int) -> bool:
    """Move an event along its word, past none of its own kind."""
    d = np.random.randint(words.shape[0])
    if length[d] < 2:
        return False
    at = np.random.randint(length[d])
    event = words[d, at]
    way = 1 if np.random.random() < 0.5 else -1
    far = 1 + np.random.randint(reach)
    to = at
    while far > 0 and 0 <= to + way < length[d]:
        other = words[d, to + way]
        if tables.kind[other] == tables.kind[event]:
            break
        to += way
        far -= 1
    if to == at:
        return False
    _take_out(words, length, d, at)
    _put_in(words, length, d, to, event)
    return True


@compiled
def _turn(tables: StashTables, words: Integers, length: Integers, mode: Integers) -> bool:
    """Change the treatment of a stash, or exchange those of two on one device."""
    s = np.random.randint(len(tables.maker))
    ahead = 0
    while np.random.random() < 0.5:
        ahead += 1
    old = mode[s]
    if not change(tables, words, length, mode, s, np.random.randint(3), ahead):
        return False
    if np.random.random() < 0.5:
        for _ in range(TRIES):
            o = np.random.randint(len(tables.maker))
            here = tables.device[tables.maker[o]] == tables.device[tables.maker[s]]
            if o != s and here and mode[o] == mode[s]:
                change(tables, words, length, mode, o, old, ahead)
                break
    return True


@compiled
def anneal(
    tables: StashTables,
    words: Integers,
    length: Integers,
    mode: Integers,
    moves: int,
    heat: tuple[float, float],
    seed: int,
    buffers: StashBuffers,
) -> int:
    """Anneal from words that fit; they are the best ones afterwards. Return their makespan."""
    np.random.seed(seed)
    cost = decode(tables, words, length, mode, buffers)
    if cost == np.inf:
        return -1
    best = makespan_of(tables, buffers)
    best_cost = cost
    top, top_length, top_mode = words.copy(), length.copy(), mode.copy()
    old, old_length, old_mode = words.copy(), length.copy(), mode.copy()
    turning = len(tables.maker) > 0
    for move in range(moves):
        warm = heat[0] * (heat[1] / heat[0]) ** (move / moves)
        if turning and np.random.random() < 0.3:
            done = _turn(tables, words, length, mode)
        else:
            done = _shift(tables, words, length, 6)
        if not done:
            continue
        new = decode(tables, words, length, mode, buffers)
        if new <= cost or np.random.random() < np.exp((cost - new) / warm):
            cost = new
            old[:], old_length[:], old_mode[:] = words, length, mode
            if cost < best_cost:
                best_cost = cost
                best = makespan_of(tables, buffers)
                top[:], top_length[:], top_mode[:] = words, length, mode
        else:
            words[:], length[:], mode[:] = old, old_length, old_mode
    words[:], length[:], mode[:] = top, top_length, top_mode
    decode(tables, words, length, mode, buffers)
    return best
