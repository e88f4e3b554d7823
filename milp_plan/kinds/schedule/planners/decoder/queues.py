"""Queues of tasks, the most urgent first: one per site, one per channel or port."""

from __future__ import annotations

from milp_plan.core.compiled import inlined

from .heaps import meld
from .holding import has_room, look_at_site
from .layout import (
    ASIDE,
    BESIDE,
    BESIDE_PTR,
    BESIDES,
    BUSY,
    GROWS,
    LEFT,
    MADE,
    QUEUE,
    RANK,
    RIGHT,
    SITE,
    SITE_DEVICE,
    SITE_PTR,
    TIMED,
    WAITS,
    Ints,
)


@inlined
def join(a: Ints, t: Ints, queue: int, task: int) -> None:
    """Put a task into a queue."""
    a[t[LEFT] + task] = a[t[RIGHT] + task] = -1
    a[t[QUEUE] + queue] = meld(a, t, a[t[QUEUE] + queue], task)


@inlined
def leave(a: Ints, t: Ints, queue: int) -> int:
    """Take the most urgent task out of a queue."""
    task = a[t[QUEUE] + queue]
    a[t[QUEUE] + queue] = meld(a, t, a[t[LEFT] + task], a[t[RIGHT] + task])
    return int(task)


@inlined
def serve(a: Ints, t: Ints, site: int, operator: int) -> None:
    """One copy more is there for an operator; with the last one it is ready."""
    a[t[WAITS] + operator] -= 1
    if a[t[WAITS] + operator] == 0:
        join(a, t, site, operator)
        look_at_site(a, t, site)


@inlined
def idle(a: Ints, t: Ints, site: int) -> bool:
    """Return whether every device of a site is free."""
    for i in range(a[t[SITE_PTR] + site], a[t[SITE_PTR] + site + 1]):
        if a[t[BUSY] + a[t[SITE_DEVICE] + i]]:
            return False
    return True


@inlined
def fits(a: Ints, t: Ints, operator: int) -> bool:
    """Return whether there is memory for an operator on its site, if memory is watched."""
    if not a[t[TIMED]]:
        return True
    need = a[t[MADE] + operator] + a[t[BESIDES] + operator]
    return has_room(a, t, a[t[SITE] + operator], need, a[t[GROWS] + operator])


@inlined
def next_at(a: Ints, t: Ints, site: int) -> int:
    """Take the most urgent operator with enough memory out of a site's queue; -1 if none has."""
    result, passed = -1, 0
    while a[t[QUEUE] + site] >= 0:
        operator = leave(a, t, site)
        if fits(a, t, operator):
            result = operator
            break
        a[t[ASIDE] + passed] = operator
        passed += 1
    for i in range(passed):
        join(a, t, site, a[t[ASIDE] + i])
    return result


@inlined
def outranked(a: Ints, t: Ints, operator: int) -> bool:
    """Return whether a more urgent operator waits for one of the same devices."""
    site = a[t[SITE] + operator]
    for i in range(a[t[SITE_PTR] + site], a[t[SITE_PTR] + site + 1]):
        device = a[t[SITE_DEVICE] + i]
        for j in range(a[t[BESIDE_PTR] + device], a[t[BESIDE_PTR] + device + 1]):
            first = a[t[QUEUE] + a[t[BESIDE] + j]]
            if (
                first >= 0
                and a[t[BESIDE] + j] != site
                and a[t[RANK] + first] < a[t[RANK] + operator]
                and fits(a, t, first)
            ):
                return True
    return False
