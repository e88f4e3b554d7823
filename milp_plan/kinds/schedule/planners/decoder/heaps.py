"""Priority queues in compiled loops: one of events, and many of waiting tasks over one pool."""

from __future__ import annotations

from milp_plan.core.compiled import inlined

from .layout import COUNT, EVENT_TASK, EVENT_TIME, LEFT, RANK, RIGHT, Ints


@inlined
def push(times: Ints, tasks: Ints, count: int, time: int, task: int) -> None:
    """Add an event to a binary heap of ``count`` events."""
    at = count
    while at > 0:
        above = (at - 1) >> 1
        if times[above] <= time:
            break
        times[at] = times[above]
        tasks[at] = tasks[above]
        at = above
    times[at] = time
    tasks[at] = task


@inlined
def drop(times: Ints, tasks: Ints, count: int) -> None:
    """Remove the earliest event, the first one, from a binary heap; ``count`` are left."""
    time, task = times[count], tasks[count]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= count:
            break
        if below + 1 < count and times[below + 1] < times[below]:
            below += 1
        if times[below] >= time:
            break
        times[at] = times[below]
        tasks[at] = tasks[below]
        at = below
    times[at] = time
    tasks[at] = task


@inlined
def push_event(a: Ints, t: Ints, time: int, task: int) -> None:
    """Add an event to the heap of the decoder."""
    push(a[t[EVENT_TIME] :], a[t[EVENT_TASK] :], a[t[COUNT]], time, task)
    a[t[COUNT]] += 1


@inlined
def drop_event(a: Ints, t: Ints) -> None:
    """Remove the earliest event from the heap of the decoder."""
    a[t[COUNT]] -= 1
    drop(a[t[EVENT_TIME] :], a[t[EVENT_TASK] :], a[t[COUNT]])


@inlined
def meld(a: Ints, t: Ints, one: int, two: int) -> int:
    """Join two skew heaps, -1 is an empty one; return the root: the task of smallest rank.

    Source: D. D. Sleator, R. E. Tarjan, "Self-adjusting heaps", SIAM J. Comput. 15 (1986), top-down
    meld without recursion.
    """
    if one < 0:
        return two
    if two < 0:
        return one
    rank, left, right = t[RANK], t[LEFT], t[RIGHT]
    if _before(a, rank, two, one):
        one, two = two, one
    root = one
    while True:
        # What is melded with the second goes left; what was left goes right.
        down = a[right + one]
        a[right + one] = a[left + one]
        if down < 0:
            a[left + one] = two
            return root
        if _before(a, rank, two, down):
            down, two = two, down
        a[left + one] = down
        one = down


@inlined
def _before(a: Ints, rank: int, task: int, other: int) -> bool:
    mine, its = a[rank + task], a[rank + other]
    return mine < its or (mine == its and task < other)
