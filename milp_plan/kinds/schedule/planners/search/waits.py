"""When tasks waited in a schedule, and whether new ranks can change it.

Without memory limits, a list schedule takes the most urgent of the tasks that wait for a device,
channel or port. New ranks make another schedule only where two tasks with a common resource wait at
the same time and change their order. Up to the first such moment both schedules are the same, so
the known schedule is enough to detect it. Most changes of ranks in a search are not of that kind
and need no new schedule. Where transfers may be delayed for one whose value is being made, that
one counts as waiting from the start of its operator on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled, inlined

from ..decoder import Decoder
from ..decoder import layout as at
from ..decoder.layout import (
    COMMUNICATION,
    DEVICES,
    INPUT_HEAD,
    INPUT_PTR,
    INPUT_VALUE,
    LEG_COUNT,
    LEG_SOURCE,
    LEG_TARGET,
    LEG_VALUE,
    LINK_LEG,
    NATIVE,
    NEXT_OF_INPUT,
    OPERATORS,
    OPTION,
    PLACE,
    PRODUCER,
    RANK,
    READER,
    READER_EDGE,
    READER_PTR,
    SITE,
    SITE_DEVICE,
    SITE_PTR,
    START,
    STOP,
    TIMED,
    Ints,
)
from .states import Undo

SEVERAL = -2
"""An input that several transfers serve."""


class Waits(NamedTuple):
    """Waiting times in the schedule of a state; tasks are operators, then transfers.

    Parameters
    ----------
    ready, start
        Since when a task waited, and when it began.
    rank
        Rank of each task.
    leg
        Input -> the transfer that serves it, -1 for none.
    value, source, target
        Transfer -> what it sends, from where (-1 for a whole site), where to.
    legs
        Number of transfers.
    trial
        Work space for ranks of transfers.
    known
        Whether the arrays describe the state; never under memory limits.
    spared
        Number of moves that needed no schedule.
    """

    ready: Ints
    start: Ints
    rank: Ints
    leg: Ints
    value: Ints
    source: Ints
    target: Ints
    legs: Ints
    trial: Ints
    known: NDArray[np.bool_]
    spared: Ints


def new_waits(decoder: Decoder) -> Waits:
    """Return arrays of the right size that describe no schedule yet."""
    memory = decoder.memory
    tasks, legs = len(memory.part(at.START)), len(memory.part(LEG_VALUE))
    ready, start, rank = (np.zeros(tasks, dtype=np.int64) for _ in range(3))
    leg, count = np.zeros(len(memory.part(INPUT_VALUE)), np.int64), np.zeros(1, np.int64)
    value, source, target, trial = (np.zeros(legs, dtype=np.int64) for _ in range(4))
    known, spared = np.zeros(1, np.bool_), np.zeros(1, np.int64)
    return Waits(ready, start, rank, leg, value, source, target, count, trial, known, spared)


@compiled
def note(a: Ints, t: Ints, waits: Waits, holding: bool) -> None:
    """Fill the arrays from the last schedule, which must be complete."""
    waits.known[0] = not a[t[TIMED]]
    if not waits.known[0]:
        return
    operators = t[OPERATORS]
    waits.legs[0] = a[t[LEG_COUNT]] if t[COMMUNICATION] else 0
    for leg in range(waits.legs[0]):
        value = a[t[LEG_VALUE] + leg]
        maker, task = a[t[PRODUCER] + value], operators + leg
        waits.value[leg] = value
        waits.source[leg], waits.target[leg] = a[t[LEG_SOURCE] + leg], a[t[LEG_TARGET] + leg]
        waits.ready[task] = a[t[START] + maker] if holding else a[t[STOP] + maker]
        waits.start[task], waits.rank[task] = a[t[START] + task], a[t[RANK] + task]
        waits.trial[leg] = waits.rank[task]
    for operator in range(operators):
        ready = 0
        for edge in range(a[t[INPUT_PTR] + operator], a[t[INPUT_PTR] + operator + 1]):
            waits.leg[edge] = -1
            maker = a[t[PRODUCER] + a[t[INPUT_VALUE] + edge]]
            if maker < 0:
                continue
            if a[t[NATIVE] + edge]:
                ready = max(ready, a[t[STOP] + maker])
            link = a[t[INPUT_HEAD] + edge]
            while link >= 0:
                leg = a[t[LINK_LEG] + link]
                ready = max(ready, a[t[STOP] + operators + leg])
                if t[COMMUNICATION]:
                    waits.leg[edge] = leg if waits.leg[edge] == -1 else SEVERAL
                link = a[t[NEXT_OF_INPUT] + link]
        waits.ready[operator], waits.start[operator] = ready, a[t[START] + operator]
        waits.rank[operator] = a[t[RANK] + operator]


@compiled
def same(a: Ints, t: Ints, waits: Waits, undo: Undo) -> bool:
    """Return whether a move cannot change the schedule, and save its ranks if so."""
    if not waits.known[0]:
        return False
    operators, stays = t[OPERATORS], True
    for i in range(undo.changed[0]):
        operator = undo.operator[i]
        moved = a[t[SITE] + operator] != undo.site[i] or a[t[OPTION] + operator] != undo.option[i]
        if moved or _passes(a, t, waits, operator):
            return False
    for i in range(undo.changed[0]):
        stays = stays and _rank_sends(a, t, waits, undo.operator[i])
    for i in range(undo.changed[0]):
        stays = stays and not _passes_sent(a, t, waits, undo.operator[i])
    for i in range(undo.changed[0]):
        operator = undo.operator[i]
        if stays:
            waits.rank[operator] = a[t[RANK] + operator]
        for edge in range(a[t[INPUT_PTR] + operator], a[t[INPUT_PTR] + operator + 1]):
            leg = waits.leg[edge]
            if leg >= 0 and stays:
                waits.rank[operators + leg] = waits.trial[leg]
            elif leg >= 0:
                waits.trial[leg] = waits.rank[operators + leg]
    waits.spared[0] += stays
    return stays


@inlined
def _turn(was: int, now: int) -> bool:
    """Return whether the order of two tasks changes, including from or to equal ranks."""
    return (was < 0) != (now < 0) or (was > 0) != (now > 0)


@compiled
def _passes(a: Ints, t: Ints, waits: Waits, one: int) -> bool:
    """Return whether an operator changes its order with another that waited at the same time."""
    was, now = waits.rank[one], a[t[RANK] + one]
    ready, start = waits.ready[one], waits.start[one]
    for two in range(t[OPERATORS]):
        if (
            _turn(was - waits.rank[two], now - a[t[RANK] + two])
            and ready <= waits.start[two]
            and waits.ready[two] <= start
            and _meet(a, t, a[t[SITE] + one], a[t[SITE] + two])
        ):
            return True
    return False


@inlined
def _meet(a: Ints, t: Ints, one: int, two: int) -> bool:
    """Return whether two sites have a device in common."""
    for i in range(a[t[SITE_PTR] + one], a[t[SITE_PTR] + one + 1]):
        if a[t[PLACE] + two * t[DEVICES] + a[t[SITE_DEVICE] + i]] >= 0:
            return True
    return False


@compiled
def _rank_sends(a: Ints, t: Ints, waits: Waits, reader: int) -> bool:
    """Rank an operator's transfers by their most urgent reader; return whether that is simple.

    It is not where several transfers serve one input.
    """
    for edge in range(a[t[INPUT_PTR] + reader], a[t[INPUT_PTR] + reader + 1]):
        leg = waits.leg[edge]
        if leg == SEVERAL:
            return False
        if leg < 0:
            continue
        value, rank = waits.value[leg], a[t[RANK] + reader]
        for i in range(a[t[READER_PTR] + value], a[t[READER_PTR] + value + 1]):
            if waits.leg[a[t[READER_EDGE] + i]] == SEVERAL:
                return False
            if waits.leg[a[t[READER_EDGE] + i]] == leg:
                rank = min(rank, a[t[RANK] + a[t[READER] + i]])
        waits.trial[leg] = rank
    return True


@compiled
def _passes_sent(a: Ints, t: Ints, waits: Waits, reader: int) -> bool:
    """Return whether one of an operator's transfers changes its order with a waiting one."""
    operators = t[OPERATORS]
    for edge in range(a[t[INPUT_PTR] + reader], a[t[INPUT_PTR] + reader + 1]):
        one = waits.leg[edge]
        if one < 0 or waits.trial[one] == waits.rank[operators + one]:
            continue
        task = operators + one
        for two in range(waits.legs[0]):
            before = waits.rank[task] - waits.rank[operators + two]
            if (
                _turn(before, waits.trial[one] - waits.trial[two])
                and waits.ready[task] <= waits.start[operators + two]
                and waits.ready[operators + two] <= waits.start[task]
                and _clash(t, waits, one, two)
            ):
                return True
    return False


@inlined
def _clash(t: Ints, waits: Waits, one: int, two: int) -> bool:
    """Return whether two transfers may use a channel or a port in common."""
    if waits.source[one] < 0 or waits.source[two] < 0:
        return True
    same_source = waits.source[one] == waits.source[two]
    same_target = waits.target[one] == waits.target[two]
    if t[COMMUNICATION] == 1:
        return bool(same_source and same_target)
    return bool(same_source or same_target)
