"""The schedule of a placement by events: a free resource takes its most urgent waiting task.

Such a schedule is *non-delay*: nothing that could run is kept waiting, but for memory, where
``patient`` for a more urgent operator that waits for one of the same devices, and where ``holding``
for a more urgent transfer whose value is being made.
"""

from __future__ import annotations

from milp_plan.core.compiled import compiled, copy_into, inlined

from .heaps import drop_event, push_event
from .holding import (
    has_room,
    look_at,
    look_at_site,
    native_uses,
    release_leg,
    release_native,
    take,
)
from .layout import (
    AHEAD,
    ASIDE,
    BASE,
    BESIDES,
    BUSY,
    BYTES,
    COMMUNICATION,
    COPIES,
    COUNT,
    DEVICES,
    DIRTY,
    DIRTY_LIST,
    EVENT_TASK,
    EVENT_TIME,
    GROWS,
    HEAD,
    INPUT_HEAD,
    INPUT_PTR,
    INPUT_VALUE,
    LAYOUTS,
    LEG_COUNT,
    LEG_FIRST,
    LEG_HEAD,
    LEG_HELD,
    LEG_HELD_PTR,
    LEG_LAYOUT,
    LEG_READERS,
    LEG_SOURCE,
    LEG_TARGET,
    LEG_UNITS,
    LEG_USES,
    LEG_VALUE,
    LINK_LEG,
    LINK_READER,
    LISTED,
    MADE,
    NATIVE,
    NEVER,
    NEXT_OF_INPUT,
    NEXT_OF_LEG,
    OPERATORS,
    OPTION,
    OUTPUT_PTR,
    OUTPUT_VALUE,
    PEAK,
    PRODUCER,
    QUEUE,
    QUEUES,
    RANK,
    READER,
    READER_EDGE,
    READER_PTR,
    RESOURCES,
    SITE,
    SITE_DEVICE,
    SITE_PTR,
    SITES,
    START,
    STOP,
    TAIL,
    TICKS,
    TIMED,
    USED,
    WAITING,
    WAITS,
    Ints,
)
from .queues import idle, join, leave, next_at, outranked, serve

# -- starts ----------------------------------------------------------------------------------------


@inlined
def begin(a: Ints, t: Ints, task: int, time: int, units: int) -> None:
    """Begin a task of some duration in units."""
    a[t[START] + task] = time
    a[t[STOP] + task] = time + units
    a[t[HEAD]] = max(a[t[HEAD]], time + units + a[t[TAIL] + task])
    push_event(a, t, time + units, task)


@inlined
def _work_off(a: Ints, t: Ints, resource: int, time: int, units: int) -> None:
    """A task begins on a resource, which has as much left as before at most."""
    a[t[HEAD]] = max(a[t[HEAD]], time + a[t[AHEAD] + resource])
    a[t[AHEAD] + resource] -= units


@inlined
def _begin_operator(a: Ints, t: Ints, operator: int, time: int) -> None:
    site = a[t[SITE] + operator]
    units = a[t[TICKS] + a[t[OPTION] + operator] * t[SITES] + site]
    for i in range(a[t[SITE_PTR] + site], a[t[SITE_PTR] + site + 1]):
        a[t[BUSY] + a[t[SITE_DEVICE] + i]] = operator + 1
        _work_off(a, t, a[t[SITE_DEVICE] + i], time, units)
    if a[t[TIMED]]:
        take(a, t, site, a[t[MADE] + operator] + a[t[BESIDES] + operator])
        for i in range(a[t[OUTPUT_PTR] + operator], a[t[OUTPUT_PTR] + operator + 1]):
            native_uses(a, t, a[t[OUTPUT_VALUE] + i])
    begin(a, t, operator, time, units)


@inlined
def _leg_may(a: Ints, t: Ints, leg: int) -> bool:
    """Return whether a leg can start: everything it holds is free, and its targets have memory."""
    devices = t[DEVICES]
    for i in range(a[t[LEG_HELD_PTR] + leg], a[t[LEG_HELD_PTR] + leg + 1]):
        if a[t[BUSY] + devices + a[t[LEG_HELD] + i]]:
            return False
    if not a[t[TIMED]]:
        return True
    grows = a[t[GROWS] + a[t[LINK_READER] + a[t[LEG_HEAD] + leg]]]
    need = a[t[BYTES] + a[t[LEG_VALUE] + leg] * t[LAYOUTS] + a[t[LEG_LAYOUT] + leg]]
    return has_room(a, t, a[t[LEG_TARGET] + leg], need, grows)


@inlined
def _share(a: Ints, t: Ints, leg: int, other: int) -> bool:
    """Return whether two legs hold a resource in common."""
    for i in range(a[t[LEG_HELD_PTR] + leg], a[t[LEG_HELD_PTR] + leg + 1]):
        for j in range(a[t[LEG_HELD_PTR] + other], a[t[LEG_HELD_PTR] + other + 1]):
            if a[t[LEG_HELD] + i] == a[t[LEG_HELD] + j]:
                return True
    return False


@compiled
def _holds(a: Ints, t: Ints, leg: int, time: int) -> bool:
    """Return whether a leg would be in the way of a more urgent one whose value is being made."""
    rank = a[t[RANK] + t[OPERATORS] + leg]
    until = time + a[t[LEG_UNITS] + leg]
    for device in range(t[DEVICES]):
        operator = a[t[BUSY] + device] - 1
        if operator < 0 or a[t[STOP] + operator] >= until:
            continue
        for i in range(a[t[OUTPUT_PTR] + operator], a[t[OUTPUT_PTR] + operator + 1]):
            value = a[t[OUTPUT_VALUE] + i]
            for other in range(a[t[LEG_FIRST] + value], a[t[LEG_FIRST] + value + 1]):
                urgent = a[t[RANK] + t[OPERATORS] + other] < rank
                if urgent and _share(a, t, leg, other):
                    return True
    return False


@inlined
def _begin_leg(a: Ints, t: Ints, leg: int, time: int) -> None:
    devices = t[DEVICES]
    for i in range(a[t[LEG_HELD_PTR] + leg], a[t[LEG_HELD_PTR] + leg + 1]):
        a[t[BUSY] + devices + a[t[LEG_HELD] + i]] = True
        _work_off(a, t, devices + a[t[LEG_HELD] + i], time, a[t[LEG_UNITS] + leg])
    if a[t[TIMED]]:
        amount = a[t[BYTES] + a[t[LEG_VALUE] + leg] * t[LAYOUTS] + a[t[LEG_LAYOUT] + leg]]
        take(a, t, a[t[LEG_TARGET] + leg], amount)
        a[t[LEG_USES] + leg] = a[t[LEG_READERS] + leg] + 1
    begin(a, t, t[OPERATORS] + leg, time, a[t[LEG_UNITS] + leg])


@compiled
def _next_leg(a: Ints, t: Ints, queue: int, time: int, holding: bool) -> int:
    """Take the most urgent leg that can start out of a queue; -1 if none can."""
    result, passed = -1, 0
    first = t[SITES]
    last = t[QUEUES] - 1
    while a[t[QUEUE] + queue] >= 0:
        if queue < last and a[t[BUSY] + t[DEVICES] + queue - first]:
            break
        task = leave(a, t, queue)
        leg = task - t[OPERATORS]
        if _leg_may(a, t, leg) and not (holding and _holds(a, t, leg, time)):
            result = task
            break
        a[t[ASIDE] + passed] = task
        passed += 1
    for i in range(passed):
        join(a, t, queue, a[t[ASIDE] + i])
    return result


@compiled
def start_legs(a: Ints, t: Ints, time: int, holding: bool) -> None:
    """Start legs, the most urgent first, until none can."""
    while a[t[COUNT] + 1] > 0:
        best, home, kept = -1, -1, 0
        for i in range(a[t[COUNT] + 1]):
            queue = a[t[WAITING] + i]
            if a[t[QUEUE] + queue] < 0:
                a[t[LISTED] + queue] = False
                continue
            a[t[WAITING] + kept] = queue
            kept += 1
            if best >= 0 and a[t[RANK] + a[t[QUEUE] + queue]] >= a[t[RANK] + best]:
                continue
            task = _next_leg(a, t, queue, time, holding)
            if task < 0:
                continue
            if best >= 0 and a[t[RANK] + task] >= a[t[RANK] + best]:
                join(a, t, queue, task)
                continue
            if best >= 0:
                join(a, t, home, best)
            best, home = task, queue
        a[t[COUNT] + 1] = kept
        if best < 0:
            return
        _begin_leg(a, t, best - t[OPERATORS], time)


@compiled
def _start_operators(a: Ints, t: Ints, time: int, patient: bool) -> None:
    """Start operators on the sites to look at, the most urgent first, until none can."""
    while True:
        best, kept = -1, 0
        for i in range(a[t[COUNT] + 2]):
            site = a[t[DIRTY_LIST] + i]
            operator = -1
            if a[t[QUEUE] + site] >= 0 and idle(a, t, site):
                operator = next_at(a, t, site)
            if operator >= 0 and patient and outranked(a, t, operator):
                join(a, t, site, operator)
                operator = -1
            if operator < 0:
                a[t[DIRTY] + site] = False
                continue
            a[t[DIRTY_LIST] + kept] = site
            kept += 1
            if best >= 0 and a[t[RANK] + operator] >= a[t[RANK] + best]:
                join(a, t, site, operator)
                continue
            if best >= 0:
                join(a, t, a[t[SITE] + best], best)
            best = operator
        a[t[COUNT] + 2] = kept
        if best < 0:
            return
        _begin_operator(a, t, best, time)


# -- stops -----------------------------------------------------------------------------------------


@inlined
def queue_leg(a: Ints, t: Ints, leg: int) -> None:
    """Add a leg to the queues of its resources."""
    first = t[SITES]
    holds = a[t[LEG_HELD_PTR] + leg + 1] > a[t[LEG_HELD_PTR] + leg]
    queue = first + a[t[LEG_HELD] + a[t[LEG_HELD_PTR] + leg]] if holds else t[QUEUES] - 1
    join(a, t, queue, t[OPERATORS] + leg)
    if not a[t[LISTED] + queue]:
        a[t[LISTED] + queue] = True
        a[t[WAITING] + a[t[COUNT] + 1]] = queue
        a[t[COUNT] + 1] += 1


@compiled
def _end_operator(a: Ints, t: Ints, operator: int, time: int) -> None:
    site = a[t[SITE] + operator]
    a[t[COUNT] + 3] += 1
    timed = a[t[TIMED]]
    for i in range(a[t[SITE_PTR] + site], a[t[SITE_PTR] + site + 1]):
        device = a[t[SITE_DEVICE] + i]
        a[t[BUSY] + device] = False
        if timed:
            a[t[USED] + device] -= a[t[BESIDES] + operator]
        look_at(a, t, device)
    for i in range(a[t[OUTPUT_PTR] + operator], a[t[OUTPUT_PTR] + operator + 1]):
        _deliver(a, t, a[t[OUTPUT_VALUE] + i], time)
    if timed:
        _release_ends(a, t, operator)


@compiled
def _deliver(a: Ints, t: Ints, value: int, time: int) -> None:
    """Handle an arrived value: serve its readers here, send it to the others."""
    for j in range(a[t[READER_PTR] + value], a[t[READER_PTR] + value + 1]):
        if a[t[NATIVE] + a[t[READER_EDGE] + j]]:
            reader = a[t[READER] + j]
            serve(a, t, a[t[SITE] + reader], reader)
    at_once = t[COMMUNICATION] == 0 and not a[t[TIMED]]
    for leg in range(a[t[LEG_FIRST] + value], a[t[LEG_FIRST] + value + 1]):
        if at_once:
            begin(a, t, t[OPERATORS] + leg, time, a[t[LEG_UNITS] + leg])
        else:
            queue_leg(a, t, leg)


@compiled
def _release_ends(a: Ints, t: Ints, operator: int) -> None:
    """Handle the stop of an operator: release its inputs and outputs."""
    site = a[t[SITE] + operator]
    for i in range(a[t[OUTPUT_PTR] + operator], a[t[OUTPUT_PTR] + operator + 1]):
        release_native(a, t, a[t[OUTPUT_VALUE] + i], (-1, site))
    for edge in range(a[t[INPUT_PTR] + operator], a[t[INPUT_PTR] + operator + 1]):
        if a[t[NATIVE] + edge]:
            release_native(a, t, a[t[INPUT_VALUE] + edge], (-1, site))
        link = a[t[INPUT_HEAD] + edge]
        while link >= 0:
            release_leg(a, t, a[t[LINK_LEG] + link])
            link = a[t[NEXT_OF_INPUT] + link]


@compiled
def _end_leg(a: Ints, t: Ints, leg: int) -> None:
    devices = t[DEVICES]
    for i in range(a[t[LEG_HELD_PTR] + leg], a[t[LEG_HELD_PTR] + leg + 1]):
        a[t[BUSY] + devices + a[t[LEG_HELD] + i]] = False
    link = a[t[LEG_HEAD] + leg]
    while link >= 0:
        reader = a[t[LINK_READER] + link]
        serve(a, t, a[t[SITE] + reader], reader)
        link = a[t[NEXT_OF_LEG] + link]
    if a[t[TIMED]]:
        value = a[t[LEG_VALUE] + leg]
        home = a[t[SITE] + a[t[PRODUCER] + value]]
        by = (a[t[LEG_SOURCE] + leg], -1) if a[t[LEG_SOURCE] + leg] >= 0 else (-1, home)
        release_native(a, t, value, by)
        release_leg(a, t, leg)


# -- the schedule ----------------------------------------------------------------------------------


@compiled
def prepare(a: Ints, t: Ints) -> None:
    """Reset the schedule; operators that wait for no copy are ready."""
    operators = t[OPERATORS]
    a[t[QUEUE] : t[QUEUE] + t[QUEUES]] = -1
    a[t[BUSY] : t[BUSY] + t[RESOURCES]] = False
    a[t[LISTED] : t[LISTED] + t[QUEUES]] = False
    a[t[DIRTY] : t[DIRTY] + t[SITES]] = False
    copy_into(a[t[BASE] : t[BASE] + t[DEVICES]], a[t[USED] : t[USED] + t[DEVICES]])
    if a[t[TIMED]]:
        copy_into(a[t[BASE] : t[BASE] + t[DEVICES]], a[t[PEAK] : t[PEAK] + t[DEVICES]])
    a[t[COUNT] : t[COUNT] + 5] = 0
    a[t[HEAD]] = 0
    for leg in range(a[t[LEG_COUNT]]):
        rank = NEVER
        link = a[t[LEG_HEAD] + leg]
        while link >= 0:
            rank = min(rank, a[t[RANK] + a[t[LINK_READER] + link]])
            link = a[t[NEXT_OF_LEG] + link]
        a[t[RANK] + operators + leg] = rank
    for operator in range(operators):
        a[t[WAITS] + operator] = a[t[COPIES] + operator]
        if a[t[WAITS] + operator] == 0:
            join(a, t, a[t[SITE] + operator], operator)
            look_at_site(a, t, a[t[SITE] + operator])


@compiled
def _force(a: Ints, t: Ints, time: int, soft: bool) -> bool:
    """If nothing runs and nothing can start, check everything once more, or ignore memory."""
    sites = t[SITES]
    best = -1
    for queue in range(t[QUEUES]):
        task = a[t[QUEUE] + queue]
        if task >= 0 and (best < 0 or a[t[RANK] + task] < a[t[RANK] + best]):
            best = task
    if best < 0 or not soft:
        return False
    a[t[COUNT] + 4] += 1
    if best < t[OPERATORS]:
        leave(a, t, a[t[SITE] + best])
        _begin_operator(a, t, best, time)
        return True
    for queue in range(sites, t[QUEUES]):
        if a[t[QUEUE] + queue] == best:
            leave(a, t, queue)
    _begin_leg(a, t, best - t[OPERATORS], time)
    return True


@compiled
def run_events(a: Ints, t: Ints, rules: tuple[bool, bool, bool], cutoff: int) -> int:
    """Schedule a placement whose legs are known; ``RANK`` says what is urgent.

    Parameters
    ----------
    rules
        ``patient``: a device waits for an operator more urgent than those that could start on it.
        ``soft``: where memory lets nothing start, the most urgent task starts all the same, and
        ``PEAK`` tells by how much memory is exceeded.
        ``holding``: a transfer does not begin while a more urgent one, whose value is being made,
        would have to wait for it.
    cutoff
        A schedule that cannot stop before it is given up.

    Returns
    -------
    int
        Last stop of an operator, in units; ``NEVER`` where there is none before the cutoff or
        memory lets nothing start.
    """
    patient, soft, holding = rules
    prepare(a, t)
    operators = t[OPERATORS]
    time, latest = 0, 0
    while True:
        if a[t[COUNT] + 1] > 0 and not holding:
            start_legs(a, t, time, holding)
        if a[t[COUNT] + 2] > 0:
            _start_operators(a, t, time, patient)
        if a[t[COUNT] + 1] > 0 and holding:  # behind operators: what they make may be awaited
            start_legs(a, t, time, holding)
        if a[t[HEAD]] >= cutoff:
            return NEVER
        if a[t[COUNT]] == 0:
            if a[t[COUNT] + 3] == operators:
                return latest
            if not _retry(a, t, time, patient) and not _force(a, t, time, soft):
                return NEVER
            continue
        time = a[t[EVENT_TIME]]
        while a[t[COUNT]] > 0 and a[t[EVENT_TIME]] == time:
            task = a[t[EVENT_TASK]]
            drop_event(a, t)
            if task >= operators:
                _end_leg(a, t, task - operators)
                continue
            latest = time
            _end_operator(a, t, task, time)


@compiled
def _retry(a: Ints, t: Ints, time: int, patient: bool) -> bool:
    """Check every site and leg once more; return whether anything began."""
    for site in range(t[SITES]):
        look_at_site(a, t, site)
    _start_operators(a, t, time, patient)
    return bool(a[t[COUNT]] > 0)
