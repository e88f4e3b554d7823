"""Annealing over places of operators, each step evaluated by the exact latency.

Moves: a class, a connected cluster or a stretch of the order to the place of a neighbour, to
another call, to a host; two classes change places; a place is cut in two or joined with another.
Too many bytes on a device cost a penalty, so that full devices can be passed through.
"""

# Compiled loops call for long functions with many arguments: calls and tuples cost time.
# ruff: noqa: C901, PLR0912, PLR0915, PLR0917
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from milp_plan.core.compiled import compiled, copy_into

from ...serial.graph import Ints
from ...serial.operators import HOST
from .timing import Arrays, scratch, sweep

STEPS = 20_000
"""Steps between two readings of the clock."""

LARGEST_CLUSTER = 24
"""Largest number of operators of a cluster."""

COLD = 2e-4
"""Last temperature before the frozen phase, relative to the latency of the start."""

FROZEN_SHARE, FROZEN = 0.05, 1e-7
"""Share of the time and temperature of the last phase, which separates near-equal plans."""

SMOOTHING = 0.002
"""Weight of the sum of all loads in addition to the latency: short calls off the critical path
leave more room for later moves."""


@dataclass
class Annealing:
    """One annealing run from a given start.

    Parameters
    ----------
    arrays
        The problem.
    start
        Places of operators; memory may be overrun.
    seed
        Seed of the random numbers.
    hot
        First temperature, relative to the latency of the start.
    """

    arrays: Arrays
    start: Ints
    seed: int
    hot: float = 0.01

    def __post_init__(self) -> None:
        self.places = self.start.copy()
        self.best = self.start.copy()
        self.value = np.inf
        self.penalty = 0.2

    def run(self, rounds: int, left: Callable[[], float], take: Callable[[Ints], None]) -> Ints:
        """Cool down over rounds of ``STEPS`` steps; end early when no time is left.

        Parameters
        ----------
        rounds
            Rounds of the whole cooling.
        left
            Returns the fraction of the time left: the temperature follows the later of both.
        take
            Called with each better placement that fits, a few times a round at most.
        """
        arrays = self.arrays
        scale = arrays.latency(self.places)
        if not np.isfinite(scale) or scale <= 0:
            return self.best
        done, improved, frozen = 0, False, False
        while done < rounds and left() > 0:
            progress = max(done / rounds, 1 - left()) / (1 - FROZEN_SHARE)
            heat = scale * self.hot * (COLD / self.hot) ** progress
            if progress >= 1.0:
                heat = scale * FROZEN
                if improved and not frozen:
                    self.places[:] = self.best
                frozen = True
            before = self.value
            self.value = anneal(
                arrays.times,
                _tables(arrays),
                self.places,
                self.best,
                self.value,
                heat,
                self.penalty * scale,
                self.seed * 100_003 + done,
                STEPS,
                scratch(arrays.calls * arrays.devices, len(self.places)),
            )
            if self.value < before:
                improved = True
                take(self.best)
            done += 1
        return self.best


def _tables(arrays: Arrays):
    return (
        arrays.devices,
        arrays.memory,
        arrays.host_memory,
        arrays.source_ptr,
        arrays.source,
        np.argsort(arrays.order),
        arrays.order,
        arrays.class_of,
        arrays.member_ptr,
        arrays.member,
        arrays.size,
    )


@compiled
def neighbour(times, tables, i):
    """Return a random operator that reads from ``i`` or that ``i`` reads from."""
    value_ptr, values, reader_ptr, reader = times[4], times[5], times[7], times[8]
    source_ptr, source = tables[3], tables[4]
    sources = source_ptr[i + 1] - source_ptr[i]
    made = value_ptr[i + 1] - value_ptr[i]
    if sources + made == 0:
        return i
    pick = np.random.randint(sources + made) if made else np.random.randint(sources)
    if made and sources and np.random.randint(2):
        pick = np.random.randint(sources)
    if pick < sources:
        return source[source_ptr[i] + pick]
    v = values[value_ptr[i] + pick - sources]
    return reader[reader_ptr[v] + np.random.randint(reader_ptr[v + 1] - reader_ptr[v])]


@compiled
def choose_target(times, tables, where, i):
    """Return a place near operator ``i``: a neighbour's, another call of its device, any."""
    calls, devices = times[0], tables[0]
    dice = np.random.random()
    if dice < 0.7:
        for _ in range(4):
            j = neighbour(times, tables, i)
            if where[j] != where[i]:
                return where[j]
            for _ in range(6):
                j = neighbour(times, tables, j)
                if where[j] != where[i]:
                    return where[j]
    if dice < 0.85:
        return HOST
    if calls > 1 and where[i] != HOST and np.random.random() < 0.4:
        return where[i] // calls * calls + np.random.randint(calls)
    return np.random.randint(devices * calls)


@compiled
def collect(times, tables, where, chosen, stamp, mark):
    """Choose operators of one place to move: fills ``chosen`` and returns how many."""
    order, position = tables[5], tables[6]
    count = where.shape[0]
    i = np.random.randint(count)
    chosen[0] = i
    mark[i] = stamp
    dice = np.random.random()
    if dice < 0.35:
        return 1
    most = 1 + np.random.randint(LARGEST_CLUSTER)
    found = 1
    if dice < 0.75:
        for _ in range(3 * most):
            if found >= most:
                break
            j = neighbour(times, tables, chosen[np.random.randint(found)])
            if mark[j] != stamp and where[j] == where[i]:
                mark[j] = stamp
                chosen[found] = j
                found += 1
        return found
    if dice < 0.95:  # the next ones in the order that share the place
        step = 1 if np.random.randint(2) else -1
        at = position[i] + step
        while 0 <= at < count and found < most:
            j = order[at]
            if where[j] == where[i]:
                mark[j] = stamp
                chosen[found] = j
                found += 1
            at += step
        return found
    back = np.random.randint(3)  # a whole place, or all of it before or behind an operator
    for j in range(count):
        side = back == 0 or (position[j] < position[i]) == (back == 1)
        if where[j] == where[i] and j != i and side:
            mark[j] = stamp
            chosen[found] = j
            found += 1
    return found


@compiled
def anneal(times, tables, where, best, value, heat, penalty, seed, steps, room):
    """Steps at one temperature; keeps the best placement that fits and returns its latency."""
    np.random.seed(seed)
    calls = times[0]
    devices, memory, host_memory = tables[0], tables[1], tables[2]
    class_of, member_ptr, member, size = tables[7], tables[8], tables[9], tables[10]
    length, start, numbers, ends = room
    count, places = where.shape[0], times[1]
    held = np.zeros(devices + 1, dtype=np.int64)  # the last entry is the host
    for c in range(size.shape[0]):
        if member_ptr[c] == member_ptr[c + 1]:
            continue
        at = where[member[member_ptr[c]]]
        held[devices if at == HOST else at // calls] += size[c]
    chosen = np.empty(count, dtype=np.int64)
    moved = np.empty(3 * count, dtype=np.int64)
    old = np.empty(3 * count, dtype=np.int64)
    mark = np.full(count, -1, dtype=np.int64)
    kept = held.copy()
    now = np.inf
    for step in range(-1, steps):
        changes = 0
        if step >= 0:
            found = collect(times, tables, where, chosen, 2 * step, mark)
            i = chosen[0]
            target = choose_target(times, tables, where, i)
            copy_into(held, kept)
            other = -1
            if target == where[i]:
                continue
            if np.random.random() < 0.15:  # an operator of the target comes back
                for _ in range(8):
                    j = np.random.randint(count)
                    if where[j] == target:
                        other = j
                        break
            home = where[i]
            if other >= 0:
                chosen[found if found < count else count - 1] = other
                found = min(found + 1, count)
            for k in range(found):
                i = chosen[k]
                to = home if i == other else target
                same = to != HOST and where[i] != HOST and to // calls == where[i] // calls
                if same:  # calls of one device share a class
                    moved[changes] = i
                    old[changes] = where[i]
                    where[i] = to
                    changes += 1
                    continue
                if where[i] == to:
                    continue
                c = class_of[i]
                held[devices if where[i] == HOST else where[i] // calls] -= size[c]
                held[devices if to == HOST else to // calls] += size[c]
                for slot in range(member_ptr[c], member_ptr[c + 1]):
                    j = member[slot]
                    if where[j] != to:
                        moved[changes] = j
                        old[changes] = where[j]
                        where[j] = to
                        changes += 1
        over = 0.0
        for d in range(devices):
            over += max(0, held[d] - memory) / memory
        over += max(0, held[devices] - host_memory) / host_memory
        extra = penalty * (0.1 + over) if over > 0 else 0.0
        # The highest score that is accepted is drawn first: most moves are refused early.
        limit = np.inf if step < 0 else now - heat * np.log(1.0 - np.random.random()) - extra
        result, total = np.inf, 0.0
        if limit > 0.0:
            result = sweep(times, where, length, start, numbers, ends, limit)
        if result < np.inf:
            for p in range(places):
                total += length[p]
        if step < 0 or result + SMOOTHING * total <= limit:
            now = result + SMOOTHING * total + extra
            if over == 0.0 and result < value:
                value = result
                copy_into(where, best)
        else:
            for k in range(changes - 1, -1, -1):
                where[moved[k]] = old[k]
            copy_into(kept, held)
    return value
