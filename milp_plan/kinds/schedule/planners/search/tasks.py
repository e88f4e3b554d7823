"""The tasks of a placement and what they wait for: operators, then legs, as arrays.

A schedule is given by an order of all tasks that respects their precedences: each task starts when
its inputs are there and the tasks before it on its devices, channels and ports are done. So tasks
may wait for more urgent ones, which list schedules by events cannot express. Every semi-active
schedule, in which no task can start earlier without another one moving, has such an order (Baker,
Introduction to Sequencing and Scheduling, 1974); for the makespan they are enough.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from milp_plan.core.compiled import compiled, sort_stably

from ..decoder import NEVER, Decoder
from ..decoder import layout as at
from ..decoder.layout import (
    DEVICES,
    INPUT_HEAD,
    INPUT_PTR,
    INPUT_VALUE,
    LEG_COUNT,
    LEG_FIRST,
    LEG_HELD,
    LEG_HELD_PTR,
    LEG_LAYOUT,
    LEG_TARGET,
    LEG_UNITS,
    LEG_VALUE,
    LINK_LEG,
    NATIVE,
    NEXT_OF_INPUT,
    OPERATORS,
    OPTION,
    OUTPUT_PTR,
    OUTPUT_VALUE,
    PRODUCER,
    SITE,
    SITE_DEVICE,
    SITE_PTR,
    SITES,
    TICKS,
    VALUES,
    Ints,
)


class Tasks(NamedTuple):
    """Tasks of two placements: row ``k`` of each array is one of them, ``1 - k`` the other.

    Parameters
    ----------
    number
        Number of tasks.
    length
        Duration of each task, in units.
    before_ptr, before
        Task -> tasks that it waits for.
    held_ptr, held
        Task -> devices, channels and ports that it holds.
    tail
        Least time from its stop to the end in any order, in units.
    leg_first, leg_target, leg_layout
        Value -> its first leg; target site and layout of each leg.
    base
        All tasks in a topological order.
    """

    number: Ints
    length: Ints
    before_ptr: Ints
    before: Ints
    held_ptr: Ints
    held: Ints
    tail: Ints
    leg_first: Ints
    leg_target: Ints
    leg_layout: Ints
    base: Ints


def new_tasks(decoder: Decoder) -> Tasks:
    """Return arrays that are large enough for the tasks of any two placements."""
    memory = decoder.memory
    sizes = {number: len(memory.part(number)) for number in (INPUT_VALUE, LINK_LEG, LEG_HELD)}
    legs, tasks = len(memory.part(LEG_VALUE)), len(memory.part(at.START))
    arcs = sizes[INPUT_VALUE] + sizes[LINK_LEG] + legs
    slots = len(memory.part(LEG_HELD)) + decoder.size * memory.size(DEVICES)

    def rows(size: int) -> Ints:
        return np.zeros((2, size), dtype=np.int64)

    return Tasks(
        np.zeros(2, dtype=np.int64),
        rows(tasks),
        rows(tasks + 1),
        rows(arcs),
        rows(tasks + 1),
        rows(slots),
        rows(tasks),
        rows(memory.size(VALUES) + 1),
        rows(legs),
        rows(legs),
        rows(tasks),
    )


@compiled
def read_tasks(a: Ints, t: Ints, tasks: Tasks, k: int) -> None:
    """Read the tasks of a placement whose legs are known."""
    _read_operators(a, t, tasks, k)
    operators, legs = t[OPERATORS], a[t[LEG_COUNT]]
    arc, slot = tasks.before_ptr[k, operators], tasks.held_ptr[k, operators]
    for leg in range(legs):
        task, value = operators + leg, a[t[LEG_VALUE] + leg]
        tasks.length[k, task] = a[t[LEG_UNITS] + leg]
        tasks.leg_target[k, leg] = a[t[LEG_TARGET] + leg]
        tasks.leg_layout[k, leg] = a[t[LEG_LAYOUT] + leg]
        tasks.before[k, arc] = a[t[PRODUCER] + value]
        arc += 1
        tasks.before_ptr[k, task + 1] = arc
        for i in range(a[t[LEG_HELD_PTR] + leg], a[t[LEG_HELD_PTR] + leg + 1]):
            tasks.held[k, slot] = t[DEVICES] + a[t[LEG_HELD] + i]
            slot += 1
        tasks.held_ptr[k, task + 1] = slot
    for value in range(t[VALUES] + 1):
        tasks.leg_first[k, value] = a[t[LEG_FIRST] + value]
    tasks.number[k] = operators + legs
    _sort(a, t, tasks, k)


@compiled
def _read_operators(a: Ints, t: Ints, tasks: Tasks, k: int) -> None:
    arc, slot = 0, 0
    tasks.before_ptr[k, 0] = tasks.held_ptr[k, 0] = 0
    for operator in range(t[OPERATORS]):
        site = a[t[SITE] + operator]
        tasks.length[k, operator] = a[t[TICKS] + a[t[OPTION] + operator] * t[SITES] + site]
        for edge in range(a[t[INPUT_PTR] + operator], a[t[INPUT_PTR] + operator + 1]):
            maker = a[t[PRODUCER] + a[t[INPUT_VALUE] + edge]]
            if maker < 0:
                continue
            if a[t[NATIVE] + edge]:
                tasks.before[k, arc] = maker
                arc += 1
            link = a[t[INPUT_HEAD] + edge]
            while link >= 0:
                tasks.before[k, arc] = t[OPERATORS] + a[t[LINK_LEG] + link]
                arc += 1
                link = a[t[NEXT_OF_INPUT] + link]
        tasks.before_ptr[k, operator + 1] = arc
        for i in range(a[t[SITE_PTR] + site], a[t[SITE_PTR] + site + 1]):
            tasks.held[k, slot] = a[t[SITE_DEVICE] + i]
            slot += 1
        tasks.held_ptr[k, operator + 1] = slot


@compiled
def _sort(a: Ints, t: Ints, tasks: Tasks, k: int) -> None:
    """Fill ``base``, each operator before the legs of its values, and the tails."""
    filled = 0
    for operator in range(t[OPERATORS]):
        tasks.base[k, filled] = operator
        filled += 1
        for i in range(a[t[OUTPUT_PTR] + operator], a[t[OUTPUT_PTR] + operator + 1]):
            value = a[t[OUTPUT_VALUE] + i]
            for leg in range(a[t[LEG_FIRST] + value], a[t[LEG_FIRST] + value + 1]):
                tasks.base[k, filled] = t[OPERATORS] + leg
                filled += 1
    for i in range(filled):
        tasks.tail[k, i] = 0
    for i in range(filled - 1, -1, -1):
        task = tasks.base[k, i]
        behind = tasks.tail[k, task] + tasks.length[k, task]
        for j in range(tasks.before_ptr[k, task], tasks.before_ptr[k, task + 1]):
            other = tasks.before[k, j]
            tasks.tail[k, other] = max(tasks.tail[k, other], behind)


@compiled
def settle(  # noqa: PLR0917 (compiled)
    tasks: Tasks, k: int, order: Ints, first: int, start: Ints, last: Ints, worst: int
) -> int:
    """Time the tasks from a position of the order on; return the makespan.

    Parameters
    ----------
    tasks, k
        The tasks, and the row of their placement.
    order
        An order of all tasks that respects their precedences.
    first
        Position of the first task to time; the starts of those before are known.
    start
        Start of each task, which is filled.
    last
        Work space: a stop of each device, channel and port.
    worst
        Limit on the makespan; once it must be exceeded, ``NEVER`` is returned.
    """
    last[:] = 0
    latest = 0
    for place in range(tasks.number[k]):
        task = order[place]
        begin = start[task]
        if place >= first:
            begin = 0
            for i in range(tasks.before_ptr[k, task], tasks.before_ptr[k, task + 1]):
                other = tasks.before[k, i]
                begin = max(begin, start[other] + tasks.length[k, other])
            for i in range(tasks.held_ptr[k, task], tasks.held_ptr[k, task + 1]):
                begin = max(begin, last[tasks.held[k, i]])
            start[task] = begin
        stop = begin + tasks.length[k, task]
        if stop + tasks.tail[k, task] > worst:
            return NEVER
        for i in range(tasks.held_ptr[k, task], tasks.held_ptr[k, task + 1]):
            last[tasks.held[k, i]] = stop
        latest = max(latest, stop)
    return int(latest)


@compiled
def carry_over(  # noqa: PLR0917 (compiled)
    tasks: Tasks, k: int, operators: int, producer: Ints, start: Ints, when: Ints
) -> None:
    """Fill ``when`` with times for the tasks of row ``1 - k``, from the starts of row ``k``.

    A leg that both placements have keeps its time; a new one starts when its value is made.
    """
    new = 1 - k
    for task in range(operators):
        when[task] = start[task]
    for value in range(tasks.leg_first.shape[1] - 1):
        for leg in range(tasks.leg_first[new, value], tasks.leg_first[new, value + 1]):
            maker = producer[value]
            when[operators + leg] = start[maker] + tasks.length[k, maker]
            for other in range(tasks.leg_first[k, value], tasks.leg_first[k, value + 1]):
                if (
                    tasks.leg_target[k, other] == tasks.leg_target[new, leg]
                    and tasks.leg_layout[k, other] == tasks.leg_layout[new, leg]
                ):
                    when[operators + leg] = start[operators + other]


@compiled
def in_order(tasks: Tasks, k: int, when: Ints, order: Ints) -> None:
    """Fill an order by times that respects the precedences."""
    count = tasks.number[k]
    keys = np.empty(count, dtype=np.int64)
    for i in range(count):
        task = tasks.base[k, i]
        for j in range(tasks.before_ptr[k, task], tasks.before_ptr[k, task + 1]):
            when[task] = max(when[task], when[tasks.before[k, j]])
        keys[i] = when[task]
    ranked = np.empty(count, dtype=np.int64)
    sort_stably(keys, ranked)
    for i in range(count):
        order[i] = tasks.base[k, ranked[i]]
