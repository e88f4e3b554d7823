"""Lower bounds of a placement: least time behind each task, and work of each resource.

A schedule that has come so far cannot stop before a task that has begun is done and all that waits
for it in turn, nor before a device, channel or port has worked off what is left for it and what
waits for the last of that. Both hold whatever the order; so a schedule that cannot come in below
a cutoff any more is given up without a loss.
"""

from __future__ import annotations

from milp_plan.core.compiled import compiled, inlined

from .layout import (
    AHEAD,
    DEVICES,
    LEG_FIRST,
    LEG_HEAD,
    LEG_HELD,
    LEG_HELD_PTR,
    LEG_UNITS,
    LINK_READER,
    LOAD,
    NATIVE,
    NEVER,
    NEXT_OF_LEG,
    OPERATORS,
    OPTION,
    OUTPUT_PTR,
    OUTPUT_VALUE,
    READER,
    READER_EDGE,
    READER_PTR,
    RESOURCES,
    SITE,
    SITE_DEVICE,
    SITE_PTR,
    SITES,
    TAIL,
    TICKS,
    Ints,
)


@compiled
def look_ahead(a: Ints, t: Ints) -> int:
    """Fill ``TAIL`` and ``AHEAD`` of a placement whose legs are known; least makespan of all.

    Operators stand in topological order, so readers are done before what they read.
    """
    resources = t[RESOURCES]
    site, site_ptr, site_device = a[t[SITE] :], a[t[SITE_PTR] :], a[t[SITE_DEVICE] :]
    output_ptr, output_value, tails = a[t[OUTPUT_PTR] :], a[t[OUTPUT_VALUE] :], a[t[TAIL] :]
    load, ahead = a[t[LOAD] :], a[t[AHEAD] :]
    for resource in range(resources):
        load[resource] = 0
        ahead[resource] = NEVER
    least = 0
    for operator in range(t[OPERATORS] - 1, -1, -1):
        tail = 0
        for i in range(output_ptr[operator], output_ptr[operator + 1]):
            tail = max(tail, _behind(a, t, load, ahead, tails, output_value[i]))
        tails[operator] = tail
        here, units = site[operator], units_at(a, t, operator)
        for i in range(site_ptr[here], site_ptr[here + 1]):
            _count(load, ahead, site_device[i], units, tail)
        least = max(least, units + tail)
    for resource in range(resources):
        if load[resource] > 0:
            ahead[resource] += load[resource]
            least = max(least, ahead[resource])
    return int(least)


@inlined
def units_at(a: Ints, t: Ints, operator: int) -> int:
    """Return the units of an operator where it stands."""
    return int(a[t[TICKS] + a[t[OPTION] + operator] * t[SITES] + a[t[SITE] + operator]])


@inlined
def _count(load: Ints, ahead: Ints, resource: int, units: int, tail: int) -> None:
    load[resource] += units
    ahead[resource] = min(ahead[resource], tail)


@inlined
def _behind(a: Ints, t: Ints, load: Ints, ahead: Ints, tails: Ints, value: int) -> int:  # noqa: PLR0917 (compiled)
    """Return the least units from the moment a value is made: its readers, here and over legs."""
    longest = 0
    for i in range(a[t[READER_PTR] + value], a[t[READER_PTR] + value + 1]):
        if a[t[NATIVE] + a[t[READER_EDGE] + i]]:
            reader = a[t[READER] + i]
            longest = max(longest, units_at(a, t, reader) + tails[reader])
    for leg in range(a[t[LEG_FIRST] + value], a[t[LEG_FIRST] + value + 1]):
        tail, link = 0, a[t[LEG_HEAD] + leg]
        while link >= 0:
            reader = a[t[LINK_READER] + link]
            tail = max(tail, units_at(a, t, reader) + tails[reader])
            link = a[t[NEXT_OF_LEG] + link]
        tails[t[OPERATORS] + leg] = tail
        for i in range(a[t[LEG_HELD_PTR] + leg], a[t[LEG_HELD_PTR] + leg + 1]):
            _count(load, ahead, t[DEVICES] + a[t[LEG_HELD] + i], a[t[LEG_UNITS] + leg], tail)
        longest = max(longest, a[t[LEG_UNITS] + leg] + tail)
    return int(longest)
