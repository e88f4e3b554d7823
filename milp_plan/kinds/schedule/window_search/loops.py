"""Longest paths through the tasks of a plan, compiled.

All loops go through tasks in the order of the plan. A task is *fixed* (``state`` 0), *free* (1) or
*gone* (2). Fixed tasks follow each other on every resource as in the plan; free ones hold no
resource here. Gone are transfers that depend on the placement of free operators: the arcs of their
values are skipped, and ``extra`` arcs replace them.
"""

# ruff: noqa: PLR0917, C901, PLR0912 (compiled loops over arrays)

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Masks = NDArray[np.uint64]


@compiled
def forward(
    order: Integers,
    state: Integers,
    length: Integers,
    arcs: Any,
    touched: Flags,
    extra: Any,
    held: Any,
    last: Integers,
    head: Integers,
) -> None:
    """Fill ``head`` with the earliest start of every task that is not gone.

    ``arcs`` is (first of each task, from, value), ``extra`` (first, from, lag), ``held`` (first,
    resource); ``last`` has one zero per resource.
    """
    first, origin, value = arcs
    extra_first, extra_origin, lag = extra
    held_first, resource = held
    for task in order:
        if state[task] == 2:
            continue
        early = 0
        for arc in range(first[task], first[task + 1]):
            if not touched[value[arc]]:
                early = max(early, head[origin[arc]] + length[origin[arc]])
        for arc in range(extra_first[task], extra_first[task + 1]):
            before = extra_origin[arc]
            early = max(early, head[before] + length[before] + lag[arc])
        if state[task] == 0:
            for k in range(held_first[task], held_first[task + 1]):
                early = max(early, last[resource[k]])
            for k in range(held_first[task], held_first[task + 1]):
                last[resource[k]] = early + length[task]
        head[task] = early


@compiled
def backward(
    order: Integers,
    state: Integers,
    length: Integers,
    arcs: Any,
    touched: Flags,
    extra: Any,
    held: Any,
    last: Integers,
    tail: Integers,
) -> None:
    """Fill ``tail``, which must be zeros, with the least time from each task's stop to the end."""
    first, origin, value = arcs
    extra_first, extra_origin, lag = extra
    held_first, resource = held
    for position in range(len(order) - 1, -1, -1):
        task = order[position]
        if state[task] == 2:
            continue
        if state[task] == 0:
            late = tail[task]
            for k in range(held_first[task], held_first[task + 1]):
                late = max(late, last[resource[k]])
            tail[task] = late
            for k in range(held_first[task], held_first[task + 1]):
                last[resource[k]] = late + length[task]
        after = tail[task] + length[task]
        for arc in range(first[task], first[task + 1]):
            if not touched[value[arc]]:
                tail[origin[arc]] = max(tail[origin[arc]], after)
        for arc in range(extra_first[task], extra_first[task + 1]):
            tail[extra_origin[arc]] = max(tail[extra_origin[arc]], after + lag[arc])


@compiled
def ancestry(
    order: Integers,
    state: Integers,
    arcs: Any,
    touched: Flags,
    extra: Any,
    held: Any,
    last: Masks,
    before: Masks,
    after: Masks,
) -> None:
    """Fill the free operators that every plan of the window has before and after each task.

    ``before`` and ``after``, shape (tasks, words), must have the bit of each free operator in its
    own row; ``last``, shape (resources, words), must be zeros.
    """
    first, origin, value = arcs
    extra_first, extra_origin, _ = extra
    held_first, resource = held
    words = before.shape[1]
    for task in order:
        if state[task] == 2:
            continue
        for w in range(words):
            mask = before[task, w]
            for arc in range(first[task], first[task + 1]):
                if not touched[value[arc]]:
                    mask |= before[origin[arc], w]
            for arc in range(extra_first[task], extra_first[task + 1]):
                mask |= before[extra_origin[arc], w]
            if state[task] == 0:
                for k in range(held_first[task], held_first[task + 1]):
                    mask |= last[resource[k], w]
                for k in range(held_first[task], held_first[task + 1]):
                    last[resource[k], w] = mask
            before[task, w] = mask
    last[:] = 0
    for position in range(len(order) - 1, -1, -1):
        task = order[position]
        if state[task] == 2:
            continue
        for w in range(words):
            if state[task] == 0:
                mask = after[task, w]
                for k in range(held_first[task], held_first[task + 1]):
                    mask |= last[resource[k], w]
                for k in range(held_first[task], held_first[task + 1]):
                    last[resource[k], w] = mask
                after[task, w] = mask
            mask = after[task, w]
            for arc in range(first[task], first[task + 1]):
                if not touched[value[arc]]:
                    after[origin[arc], w] |= mask
            for arc in range(extra_first[task], extra_first[task + 1]):
                after[extra_origin[arc], w] |= mask


@compiled
def contract(
    order: Integers,
    place: Integers,
    state: Integers,
    length: Integers,
    arcs: Any,
    touched: Flags,
    held: Any,
    marked: Integers,
    number: Integers,
    gap: Integers,
    tail: Integers,
    last: Integers,
) -> None:
    """Fill the least times between the starts of marked fixed tasks, along fixed tasks only.

    ``marked`` are tasks in plan order, ``number`` their number or -1 per task. ``gap``, shape
    (marked, marked), must be filled with -1, and ``tail``, one per marked task, with zeros; it
    becomes the least time from its stop to the end along tasks that are not marked.
    """
    first, origin, value = arcs
    held_first, resource = held
    count = len(marked)
    distance = np.full(len(length), -1, np.int64)
    finish = place[marked[count - 1]] if count else np.int64(-1)
    for a in range(count):
        begin = place[marked[a]]
        last[:] = -1
        for position in range(begin, finish + 1):
            task = order[position]
            if state[task] != 0:
                continue
            far = np.int64(-1)
            if position == begin:
                far = np.int64(0)
            else:
                for arc in range(first[task], first[task + 1]):
                    before = origin[arc]
                    if not touched[value[arc]] and distance[before] >= 0 and state[before] == 0:
                        far = max(far, distance[before] + length[before])
                for k in range(held_first[task], held_first[task + 1]):
                    far = max(far, last[resource[k]])
            passed = far
            if far >= 0 and position != begin and number[task] >= 0:
                gap[a, number[task]] = far
                passed = np.int64(-1)  # beyond it, its own paths count
            distance[task] = passed
            for k in range(held_first[task], held_first[task + 1]):
                last[resource[k]] = passed + length[task] if passed >= 0 else -1
        for position in range(begin, finish + 1):
            distance[order[position]] = -1
    last[:] = 0
    late = np.zeros(len(length), np.int64)
    for position in range(len(order) - 1, -1, -1):
        task = order[position]
        if state[task] != 0:
            continue
        most = late[task]
        for k in range(held_first[task], held_first[task + 1]):
            most = max(most, last[resource[k]])
        if number[task] >= 0:
            tail[number[task]] = most
            after = np.int64(0)  # paths through it are its own
        else:
            after = most + length[task]
        for k in range(held_first[task], held_first[task + 1]):
            last[resource[k]] = after
        for arc in range(first[task], first[task + 1]):
            if not touched[value[arc]]:
                late[origin[arc]] = max(late[origin[arc]], after)
    for a in range(count):  # what goes by way of a third needs no row of its own
        for b in range(a + 1, count):
            if gap[a, b] >= 0:
                for c in range(a + 1, b):
                    if gap[a, c] >= 0 and gap[c, b] >= 0 and gap[a, c] + gap[c, b] >= gap[a, b]:
                        gap[a, b] = -1
                        break
