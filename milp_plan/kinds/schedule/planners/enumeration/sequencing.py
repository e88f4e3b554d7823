"""The best schedule of a complete placement without memory limits: compiled loops.

Proof. Some best schedule is active: no task can begin earlier while all others stay. Tasks are
placed in the order of their starts, each as early as those before it allow. Among tasks that can
come next, let e be the earliest possible stop, of task i. If no task began before e, i could begin
earlier, so the next task begins before e or is i. A task that could have begun before the last
placed one does not come next, and of two that begin together the one with the smaller number is
placed first (except tasks without length). Jackson's preemptive schedule of what is left on
a device, channel or port, with heads and tails, is no longer than any schedule.
"""

# ruff: noqa: C901, PLR0912, PLR0915 (compiled loops over arrays)

from __future__ import annotations

import numpy as np

from milp_plan.core.compiled import compiled

from ...bounds.region_search import preemptive
from ..decoder import layout as at
from ..decoder.layout import Ints


@compiled
def _task_lists(a: Ints, t: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    """Return tasks as lists: predecessors and resources with pointers, durations, an order."""
    operators, legs = t[at.OPERATORS], a[t[at.LEG_COUNT]]
    size = operators + legs
    before_at = np.zeros(size + 1, dtype=np.int64)
    before = np.zeros(legs + a[t[at.LEG_COUNT] + 1] + a[t[at.INPUT_PTR] + operators], np.int64)
    held_at = np.zeros(size + 1, dtype=np.int64)
    held = np.zeros(operators * t[at.DEVICES] + a[t[at.LEG_COUNT] + 2], dtype=np.int64)
    units = np.zeros(size, dtype=np.int64)
    order = np.zeros(size, dtype=np.int64)
    many = more = done = 0
    for v in range(operators):
        site = a[t[at.SITE] + v]
        units[v] = a[t[at.TICKS] + a[t[at.OPTION] + v] * t[at.SITES] + site]
        for i in range(a[t[at.INPUT_PTR] + v], a[t[at.INPUT_PTR] + v + 1]):
            maker = a[t[at.PRODUCER] + a[t[at.INPUT_VALUE] + i]]
            if a[t[at.NATIVE] + i]:
                before[many] = maker
                many += 1
            link = a[t[at.INPUT_HEAD] + i]
            while link >= 0:
                before[many] = operators + a[t[at.LINK_LEG] + link]
                many += 1
                link = a[t[at.NEXT_OF_INPUT] + link]
        before_at[v + 1] = many
        for i in range(a[t[at.SITE_PTR] + site], a[t[at.SITE_PTR] + site + 1]):
            held[more] = a[t[at.SITE_DEVICE] + i]
            more += 1
        held_at[v + 1] = more
        order[done] = v
        done += 1
        for leg in range(legs):
            if a[t[at.PRODUCER] + a[t[at.LEG_VALUE] + leg]] == v:
                order[done] = operators + leg
                done += 1
    for leg in range(legs):
        v = operators + leg
        units[v] = a[t[at.LEG_UNITS] + leg]
        before[many] = a[t[at.PRODUCER] + a[t[at.LEG_VALUE] + leg]]
        many += 1
        before_at[v + 1] = many
        for i in range(a[t[at.LEG_HELD_PTR] + leg], a[t[at.LEG_HELD_PTR] + leg + 1]):
            held[more] = t[at.DEVICES] + a[t[at.LEG_HELD] + i]
            more += 1
        held_at[v + 1] = more
    return before_at, before, held_at, held, units, order


@compiled
def sequenced(a: Ints, t: Ints, best: int, most: int) -> tuple[int, int]:
    """Find the shortest schedule below ``best`` and write its starts into ``START``.

    The arrays must have the legs of the placement. Returns the makespan and the number of partial
    schedules; a number above ``most`` means that the search was stopped.
    """
    before_at, before, held_at, held, units, order = _task_lists(a, t)
    size, resources = len(units), t[at.RESOURCES]
    tail = np.zeros(size, dtype=np.int64)
    for n in range(size - 1, -1, -1):
        v = order[n]
        for i in range(before_at[v], before_at[v + 1]):
            u = before[i]
            tail[u] = max(tail[u], units[v] + tail[v])
    start = np.full(size, -1, dtype=np.int64)
    free = np.zeros((size + 1, resources), dtype=np.int64)
    head = np.zeros(size, dtype=np.int64)
    able = np.zeros(size, dtype=np.bool_)
    count = np.zeros(size + 1, dtype=np.int64)
    candidates = np.zeros((size + 1, size), dtype=np.int64)
    begins = np.zeros((size + 1, size), dtype=np.int64)
    put = np.zeros(size + 1, dtype=np.int64)
    heads, ticks, tails, left = (
        np.zeros(size + 1, dtype=np.int64),
        np.zeros(size + 1, dtype=np.int64),
        np.zeros(size + 1, dtype=np.int64),
        np.zeros(size + 1, dtype=np.int64),
    )
    depth, tried, fresh = 0, 0, True
    while depth >= 0:
        if fresh:
            tried += 1
            if tried > most:
                break
            fresh = False
            count[depth] = 0
            last = put[depth - 1] if depth > 0 else -1
            since = start[last] if depth > 0 else 0
            worst = 0
            first_done, first = 2**62, -1
            for n in range(size):
                v = order[n]
                if start[v] >= 0:
                    worst = max(worst, start[v] + units[v] + tail[v])
                    continue
                now, ready = 0, True
                for i in range(before_at[v], before_at[v + 1]):
                    u = before[i]
                    if start[u] < 0:
                        ready = False
                        now = max(now, head[u] + units[u])
                    else:
                        now = max(now, start[u] + units[u])
                for i in range(held_at[v], held_at[v + 1]):
                    now = max(now, free[depth, held[i]])
                head[v], able[v] = now, ready
                worst = max(worst, now + units[v] + tail[v])
                if ready and now + units[v] < first_done:
                    first_done, first = now + units[v], v
            if first < 0 and worst < best:
                best = worst
                for v in range(size):
                    a[t[at.START] + v] = start[v]
            if worst >= best:
                continue
            for r in range(resources):
                result = 0
                for v in range(size):
                    if start[v] < 0:
                        for i in range(held_at[v], held_at[v + 1]):
                            if held[i] == r:
                                heads[result], ticks[result], tails[result] = (
                                    head[v],
                                    units[v],
                                    tail[v],
                                )
                                result += 1
                                break
                if result > 1:
                    worst = max(worst, preemptive(heads, ticks, tails, result, left))
            if worst >= best:
                continue
            for v in range(size):
                if start[v] >= 0 or not able[v] or (head[v] >= first_done and v != first):
                    continue
                if head[v] < since:
                    continue
                if head[v] == since and v < last and units[v] > 0 and units[last] > 0:
                    continue
                b = count[depth]
                key = head[v] - tail[v]
                while b > 0 and (
                    head[candidates[depth, b - 1]] - tail[candidates[depth, b - 1]] < key
                ):
                    candidates[depth, b] = candidates[depth, b - 1]
                    begins[depth, b] = begins[depth, b - 1]
                    b -= 1
                candidates[depth, b], begins[depth, b] = v, head[v]
                count[depth] += 1
        else:
            if count[depth] == 0:
                depth -= 1
                if depth >= 0:
                    start[put[depth]] = -1
                continue
            count[depth] -= 1
            v = candidates[depth, count[depth]]
            put[depth], start[v] = v, begins[depth, count[depth]]
            free[depth + 1] = free[depth]
            for i in range(held_at[v], held_at[v + 1]):
                free[depth + 1, held[i]] = max(free[depth + 1, held[i]], start[v] + units[v])
            depth += 1
            fresh = True
    return best, tried
