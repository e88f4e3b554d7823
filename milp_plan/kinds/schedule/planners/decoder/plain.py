"""The schedule of :mod:`.events` without memory limits and with one device per operator.

Then what waits for one device is all there is to choose from, and nothing is passed over. Most
schedules of a search are of this kind. The parts of the array that every step needs are taken out
of it once: two to three times as fast as to look up where each of them begins.
"""

from __future__ import annotations

from milp_plan.core.compiled import compiled, inlined

from .events import begin, prepare, queue_leg, start_legs
from .heaps import drop, meld, push
from .layout import (
    AHEAD,
    BUSY,
    COMMUNICATION,
    COUNT,
    DEVICES,
    DIRTY_LIST,
    EVENT_TASK,
    EVENT_TIME,
    HEAD,
    LEFT,
    LEG_FIRST,
    LEG_HEAD,
    LEG_HELD,
    LEG_HELD_PTR,
    LEG_UNITS,
    LINK_READER,
    NATIVE,
    NEVER,
    NEXT_OF_LEG,
    OPERATORS,
    OPTION,
    OUTPUT_PTR,
    OUTPUT_VALUE,
    QUEUE,
    READER,
    READER_EDGE,
    READER_PTR,
    RIGHT,
    SITE,
    SITE_DEVICE,
    SITE_PTR,
    SITES,
    START,
    STOP,
    TAIL,
    TICKS,
    WAITS,
    Ints,
)


@compiled
def is_plain(a: Ints, t: Ints) -> bool:
    """Return whether each operator stands on one device."""
    for operator in range(t[OPERATORS]):
        site = a[t[SITE] + operator]
        if a[t[SITE_PTR] + site + 1] - a[t[SITE_PTR] + site] != 1:
            return False
    return True


@inlined
def _serve(  # noqa: PLR0917 (a tuple of arrays takes longer than the rest)
    a: Ints, t: Ints, waits: Ints, site: Ints, queue: Ints, look: Ints, reader: int, many: int
) -> int:
    """One copy more is there for an operator; return how many sites are to be looked at."""
    waits[reader] -= 1
    if waits[reader] > 0:
        return many
    here = site[reader]
    a[t[LEFT] + reader] = a[t[RIGHT] + reader] = -1
    queue[here] = meld(a, t, queue[here], reader)
    look[many] = here
    return many + 1


@compiled
def run_plain(a: Ints, t: Ints, holding: bool, cutoff: int) -> int:  # noqa: C901, PLR0912, PLR0915 (compiled)
    """Schedule a placement whose legs are known; as :func:`.events.run_events`."""
    operators, devices, sites = t[OPERATORS], t[DEVICES], t[SITES]
    counts, at_once = t[COUNT], t[COMMUNICATION] == 0
    site, option, ticks = a[t[SITE] :], a[t[OPTION] :], a[t[TICKS] :]
    site_ptr, site_device = a[t[SITE_PTR] :], a[t[SITE_DEVICE] :]
    output_ptr, output_value = a[t[OUTPUT_PTR] :], a[t[OUTPUT_VALUE] :]
    reader_ptr, readers, reader_edge = a[t[READER_PTR] :], a[t[READER] :], a[t[READER_EDGE] :]
    native, leg_first, tail, ahead = a[t[NATIVE] :], a[t[LEG_FIRST] :], a[t[TAIL] :], a[t[AHEAD] :]
    start, stop, busy, queue = a[t[START] :], a[t[STOP] :], a[t[BUSY] :], a[t[QUEUE] :]
    times, tasks, waits = a[t[EVENT_TIME] :], a[t[EVENT_TASK] :], a[t[WAITS] :]
    left, right, look = a[t[LEFT] :], a[t[RIGHT] :], a[t[DIRTY_LIST] :]
    prepare(a, t)
    many = a[counts + 2]  # sites to be looked at
    time, latest, done = 0, 0, 0
    while True:
        if a[counts + 1] > 0 and not holding:
            start_legs(a, t, time, False)
        head = a[t[HEAD]]
        for i in range(many):
            here = look[i]
            device = site_device[site_ptr[here]]
            first = queue[here]
            if busy[device] or first < 0:
                continue
            queue[here] = meld(a, t, left[first], right[first])
            units = ticks[option[first] * sites + here]
            until = time + units
            start[first] = time
            stop[first] = until
            busy[device] = first + 1
            head = max(head, time + ahead[device])
            head = max(head, until + tail[first])
            ahead[device] -= units
            push(times, tasks, a[counts], until, first)
            a[counts] += 1
        a[t[HEAD]] = head
        many = 0
        if a[counts + 1] > 0 and holding:  # behind operators: what they make may be awaited
            start_legs(a, t, time, True)
        if a[t[HEAD]] >= cutoff:
            return NEVER
        count = a[counts]
        if count == 0:
            return latest if done == operators else NEVER
        time = times[0]
        while count > 0 and times[0] == time:
            task = tasks[0]
            count -= 1
            drop(times, tasks, count)
            a[counts] = count
            if task >= operators:
                leg = task - operators
                for i in range(a[t[LEG_HELD_PTR] + leg], a[t[LEG_HELD_PTR] + leg + 1]):
                    busy[devices + a[t[LEG_HELD] + i]] = False
                link = a[t[LEG_HEAD] + leg]
                while link >= 0:
                    reader = a[t[LINK_READER] + link]
                    many = _serve(a, t, waits, site, queue, look, reader, many)
                    link = a[t[NEXT_OF_LEG] + link]
                continue
            latest = time
            done += 1
            here = site[task]
            busy[site_device[site_ptr[here]]] = False
            look[many] = here
            many += 1
            for i in range(output_ptr[task], output_ptr[task + 1]):
                value = output_value[i]
                for j in range(reader_ptr[value], reader_ptr[value + 1]):
                    if native[reader_edge[j]]:
                        many = _serve(a, t, waits, site, queue, look, readers[j], many)
                for leg in range(leg_first[value], leg_first[value + 1]):
                    if at_once:
                        begin(a, t, operators + leg, time, a[t[LEG_UNITS] + leg])
                    else:
                        queue_leg(a, t, leg)
            count = a[counts]
