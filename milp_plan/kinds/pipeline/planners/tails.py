"""Least time from the start of a task to the end of the schedule, for every task of a arrays.

The table is what makes the beam search see far: it knows the way of a micro-batch to its end,
the work that must still follow on every machine on that way, and that a device at its memory
limit starts a forward pass only after an older activation was released (the arc from the
release of micro-batch n to the start of micro-batch n + limit).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .arrays import Arrays

NEVER = -(1 << 60)
"""Tail of a task that does not exist."""


def machine_tails(arrays: Arrays) -> list[int]:
    """Kind -> least time from its stop to the end; ends count from the machine's release."""
    tails = [-arrays.releases[m] for m in arrays.machine]
    for k in reversed(range(len(tails))):
        for b, lag in arrays.after[k]:
            tails[k] = max(tails[k], lag + int(arrays.duration[b]) + tails[b])
    return tails


def tail_table(arrays: Arrays) -> NDArray[np.int64]:
    """Tails of all tasks.

    Returns
    -------
    array
        ``[kind, n]``: every schedule in which task n of the kind starts at t has value at least
        t plus this, ticks; :data:`NEVER` where there is no such task.
    """
    most = int(arrays.count.max())
    table = np.full((len(arrays.kinds), most + 1), NEVER, dtype=np.int64)
    static = machine_tails(arrays)
    ahead = _work_ahead(arrays, static)
    waits = _memory_arcs(arrays)
    for n in reversed(range(most)):
        for k in reversed(range(len(arrays.kinds))):
            count = int(arrays.count[k])
            if n >= count:
                continue
            own = int(arrays.duration[k])
            best = max(work * (count - n) + tail for work, tail in ahead[k])
            best = max(best, own + int(table[k, n + 1]))
            for b, lag in arrays.after[k]:
                best = max(best, own + lag + int(table[b, n]))
            for kind, blocked in waits[k]:
                best = max(best, own + int(table[kind, blocked[n]]))
            table[k, n] = best
    return table


def _work_ahead(arrays: Arrays, static: list[int]) -> list[list[tuple[int, int]]]:
    """Kind -> (work per micro-batch that is not before it on its machine, tail after that)."""
    found = []
    for k, machine in enumerate(arrays.machine):
        here = [j for j in arrays.descendants[k] if arrays.machine[j] == machine]
        work, rows = 0, []
        for j in sorted(here, key=lambda j: -static[j]):
            work += int(arrays.duration[j])
            rows.append((work, static[j]))
        found.append(rows)
    return found


def _memory_arcs(arrays: Arrays) -> list[list[tuple[int, list[int]]]]:
    """Kind -> (holder, first task of it that cannot start before task n of the kind ends).

    With c releases of a kind done before task q of its holder starts, kinds before it in the
    micro-batch may have been released q times at most and kinds after it c times at most.
    """
    found: list[list[tuple[int, list[int]]]] = [[] for _ in arrays.kinds]
    for i in arrays.holders:
        limit = arrays.limits[arrays.machine[i]]
        assert limit is not None
        size, count = int(arrays.alloc[i]), int(arrays.count[i])
        chain = arrays.releasers[i]
        for place, j in enumerate(chain):
            early = sum(int(arrays.free[q]) for q in chain[:place]) + int(arrays.free[i])
            late = sum(int(arrays.free[q]) for q in chain[place:])
            blocked = []
            for n in range(count):
                q = n
                while q < count and (q + 1) * size - q * early - n * late <= limit:
                    q += 1
                blocked.append(max(q, n + 1))
            found[j].append((i, blocked))
    return found
