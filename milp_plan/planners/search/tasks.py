"""The tasks of a placement and what they wait for: operators, then legs, as arrays.

A schedule is an order of all tasks in which none comes before what it waits for: each starts when
that is done and when whatever came before it on its devices, channels or ports is done. So tasks
may wait for more urgent ones, which list schedules by events cannot say. Every schedule in which no
task could start earlier without another one giving way has such an order (semi-active schedules;
Baker, Introduction to Sequencing and Scheduling, 1974); for the makespan they are enough.
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
    """Tasks of two placements: row ``k`` of each array is that of the one, ``1 - k`` another's.

    Parameters
    ----------
    number
        How many there are.
    length
        Units of each.
    before_ptr, before
        Task -> tasks that it waits for.
    held_ptr, held
        Task -> devices, channels and ports that it holds.
    tail
        Least units from its stop to the end, whatever the order.
    leg_first, leg_target, leg_layout
        Value -> its first leg; what each leg makes.
    base
        All tasks, each behind those that it waits for.
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
    """Room for the tasks of any two placements."""
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
    """Each operator, then the legs of what it makes; operators are in topological order."""
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
    """Start the tasks from a position of the order on; return the last stop.

    Parameters
    ----------
    tasks, k
        What there is to do.
    order
        Of all tasks; none comes before what it waits for.
    first
        The starts of what comes before this position are known.
    start
        Of each task.
    last
        Room for a stop of each device, channel and port.
    worst
        ``NEVER`` is returned, and the other starts are left, once the last stop must be later.
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
    """When the tasks of row ``1 - k`` would come, by the starts of row ``k``: fill ``when``.

    A leg that was there before keeps its time; a new one comes as soon as its value is made. None
    comes before what it waits for.
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
    """Fill an order by times, in which none comes before what it waits for."""
    count = tasks.number[k]
    keys = np.empty(count, dtype=np.int64)
    for i in range(count):
        task = tasks.base[k, i]
        for j in range(tasks.before_ptr[k, task], tasks.before_ptr[k, task + 1]):
            when[task] = max(when[task], when[tasks.before[k, j]])
        keys[i] = when[task]
    found = np.empty(count, dtype=np.int64)
    sort_stably(keys, found)
    for i in range(count):
        order[i] = tasks.base[k, found[i]]
