"""Latency of a placement in floating point, compiled: one sweep over values and calls."""

# Compiled loops call for long functions with many arguments: calls and tuples cost time.
# ruff: noqa: C901, PLR0912, PLR0915, PLR0917
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled

from ...serial.graph import Floats, Ints, ragged
from ...serial.operators import HOST, OperatorTables

NONE = np.int64(1 << 62)
"""Memory of a device without limit, bytes."""


@dataclass(frozen=True)
class Arrays:
    """Tables of a problem as arrays; lists of lists are (pointers, entries).

    ``order`` is the position of each operator in a topological order. Sizes are by class.
    """

    calls: int
    devices: int
    memory: int
    host_memory: int
    work: Floats
    host_work: Floats
    values: Ints
    value_ptr: Ints
    cost: Floats
    reader_ptr: Ints
    reader: Ints
    source_ptr: Ints
    source: Ints
    order: Ints
    class_of: Ints
    member_ptr: Ints
    member: Ints
    size: Ints

    @property
    def times(self) -> tuple[int, int, Floats, Floats, Ints, Ints, Floats, Ints, Ints]:
        """Arguments of :func:`sweep`."""
        return (
            self.calls,
            self.calls * self.devices,
            self.work,
            self.host_work,
            self.value_ptr,
            self.values,
            self.cost,
            self.reader_ptr,
            self.reader,
        )

    def latency(self, places: Ints) -> float:
        """Return the latency in the unit of the source; infinite when calls wait in a circle."""
        room = scratch(self.calls * self.devices, len(places))
        return float(sweep(self.times, places, *room, np.inf))


def arrays(tables: OperatorTables) -> Arrays:
    """Return the tables as arrays."""
    graph = tables.graph
    value_ptr, values = ragged(tables.made_by)
    reader_ptr, reader = ragged([value.readers for value in tables.values])
    source_ptr, source = ragged(tables.before)
    member_ptr, member = ragged(tables.members)
    order = np.empty(len(tables), dtype=np.int64)
    order[np.array(tables.order, dtype=np.int64)] = np.arange(len(tables))
    return Arrays(
        tables.calls,
        len(graph.payers),
        int(NONE) if graph.memory is None else graph.memory,
        int(NONE) if graph.host_memory is None else graph.host_memory,
        tables.float_work,
        tables.float_host_work,
        values,
        value_ptr,
        tables.float_costs,
        reader_ptr,
        reader,
        source_ptr,
        source,
        order,
        np.array(tables.class_of, dtype=np.int64),
        member_ptr,
        member,
        np.array(tables.size, dtype=np.int64),
    )


def scratch(places: int, operators: int) -> tuple[Floats, Floats, Ints, NDArray[np.float64]]:
    """Return buffers for :func:`sweep`: numbers of tasks, and ends of operators."""
    tasks = places + operators
    return (
        np.empty(tasks, dtype=np.float64),
        np.empty(tasks, dtype=np.float64),
        np.empty((5, tasks), dtype=np.int64),
        np.empty(operators, dtype=np.float64),
    )


@compiled
def sweep(times, where, length, start, room, ends, limit):
    """Latency of operators at places; fills loads (``length``) and ``ends``.

    Tasks are calls, then operators on a host. Infinite when calls wait in a circle, or when it is
    above ``limit``.
    """
    calls, places, work, host_work, value_ptr, values, cost, reader_ptr, reader = times
    count = where.shape[0]
    mark, missing, head, following, queue = room[0], room[1], room[2], room[3], room[4]
    for p in range(places):
        length[p] = 0.0
        start[p] = 0.0
        mark[p] = -1
        head[p] = -1
        missing[p] = 1 if p % calls else 0
    for i in range(count):
        p = where[i]
        if p == HOST:
            length[places + i] = host_work[i]
            start[places + i] = 0.0
            missing[places + i] = 0
        else:
            length[p] += work[i]
            following[i] = head[p]
            head[p] = i
    for i in range(count):
        p = where[i]
        for slot in range(value_ptr[i], value_ptr[i + 1]):
            v = values[slot]
            away = False
            for k in range(reader_ptr[v], reader_ptr[v + 1]):
                r = reader[k]
                at = where[r]
                if at == HOST:
                    missing[places + r] += 1
                    away = away or p != HOST
                elif at != p:
                    missing[at] += 1
                    away = True
                    if mark[at] != v:
                        mark[at] = v
                        length[at] += cost[v]
            if away and p != HOST:
                length[p] += cost[v]
    tail = 0
    for p in range(places):
        if missing[p] == 0:
            queue[tail] = p
            tail += 1
    for i in range(count):
        if where[i] == HOST and missing[places + i] == 0:
            queue[tail] = places + i
            tail += 1
    front, done, worst = 0, 0, 0.0
    while front < tail:
        task = queue[front]
        front += 1
        end = start[task] + length[task]
        if end > limit:
            return np.inf
        i = head[task] if task < places else task - places
        if task < places and (task + 1) % calls:
            start[task + 1] = max(start[task + 1], end)
            missing[task + 1] -= 1
            if missing[task + 1] == 0:
                queue[tail] = task + 1
                tail += 1
        while i >= 0:
            done += 1
            ends[i] = end
            for slot in range(value_ptr[i], value_ptr[i + 1]):
                v = values[slot]
                for k in range(reader_ptr[v], reader_ptr[v + 1]):
                    r = reader[k]
                    other = where[r]
                    if other == HOST:
                        other = places + r
                    if other != task:
                        start[other] = max(start[other], end)
                        missing[other] -= 1
                        if missing[other] == 0:
                            queue[tail] = other
                            tail += 1
            worst = max(worst, end)
            i = following[i] if task < places else -1
    return worst if done == count else np.inf
