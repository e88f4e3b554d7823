"""Memory of a growing schedule: what is held, and which tasks may start when it is freed."""

from __future__ import annotations

from milp_plan.core.compiled import compiled, copy_into, inlined

from .layout import (
    BASE,
    BESIDE,
    BESIDE_PTR,
    BESIDES,
    BYTES,
    COUNT,
    DEVICES,
    DIRTY,
    DIRTY_LIST,
    GROWS,
    LAYOUTS,
    LEG_COUNT,
    LEG_FIRST,
    LEG_LAYOUT,
    LEG_SOURCE,
    LEG_TARGET,
    LEG_USES,
    LEG_VALUE,
    MADE,
    MEMORY,
    NATIVE,
    NATIVE_USES,
    OPERATORS,
    OPTION,
    OUTPUT_PLACE,
    OUTPUT_PTR,
    OUTPUT_VALUE,
    PEAK,
    PLACE,
    PRODUCER,
    QUEUE,
    READER,
    READER_EDGE,
    READER_PTR,
    ROOM,
    SITE,
    SITE_DEVICE,
    SITE_PTR,
    SITES,
    STAYS,
    TICKS,
    USED,
    WORKSPACE,
    WRITE_LAYOUT,
    WRITE_PTR,
    Ints,
)


@inlined
def look_at(a: Ints, t: Ints, device: int) -> None:
    """After a change on a device, mark its sites and the legs that wait for its memory."""
    for i in range(a[t[BESIDE_PTR] + device], a[t[BESIDE_PTR] + device + 1]):
        look_at_site(a, t, a[t[BESIDE] + i])


@inlined
def look_at_site(a: Ints, t: Ints, site: int) -> None:
    """After a change, mark a site whose operators wait."""
    if not a[t[DIRTY] + site] and a[t[QUEUE] + site] >= 0:
        a[t[DIRTY] + site] = True
        a[t[DIRTY_LIST] + a[t[COUNT] + 2]] = site
        a[t[COUNT] + 2] += 1


@compiled
def native_uses(a: Ints, t: Ints, value: int) -> None:
    """Count the tasks that need the native copy of a value, per device: maker, readers, transfers.

    What stays has one need more, which nothing ends.
    """
    home = a[t[SITE] + a[t[PRODUCER] + value]]
    first = a[t[SITE_PTR] + home]
    many = a[t[SITE_PTR] + home + 1] - first
    uses = t[NATIVE_USES] + value * t[DEVICES]
    a[uses : uses + many] = 1 + a[t[STAYS] + value]
    for i in range(a[t[READER_PTR] + value], a[t[READER_PTR] + value + 1]):
        if not a[t[NATIVE] + a[t[READER_EDGE] + i]]:
            continue
        here = a[t[SITE] + a[t[READER] + i]]
        for j in range(many):
            device = a[t[SITE_DEVICE] + first + j]
            a[uses + j] += a[t[PLACE] + here * t[DEVICES] + device] >= 0
    for leg in range(a[t[LEG_FIRST] + value], a[t[LEG_FIRST] + value + 1]):
        if a[t[LEG_SOURCE] + leg] >= 0:
            a[uses + a[t[PLACE] + home * t[DEVICES] + a[t[LEG_SOURCE] + leg]]] += 1
        else:
            a[uses : uses + many] += 1


@compiled
def release_native(a: Ints, t: Ints, value: int, by: tuple[int, int]) -> None:
    """Count one task less that needs a native copy, on one device or on those of a site."""
    device, site = by
    home = a[t[SITE] + a[t[PRODUCER] + value]]
    option = a[t[OPTION] + a[t[PRODUCER] + value]]
    layout = a[t[WRITE_LAYOUT] + a[t[WRITE_PTR] + option] + a[t[OUTPUT_PLACE] + value]]
    for i in range(a[t[SITE_PTR] + home], a[t[SITE_PTR] + home + 1]):
        holder = a[t[SITE_DEVICE] + i]
        if holder != device and (site < 0 or a[t[PLACE] + site * t[DEVICES] + holder] < 0):
            continue
        cell = value * t[DEVICES] + i - a[t[SITE_PTR] + home]
        a[t[NATIVE_USES] + cell] -= 1
        if a[t[NATIVE_USES] + cell] == 0:
            a[t[USED] + holder] -= a[t[BYTES] + value * t[LAYOUTS] + layout]
            look_at(a, t, holder)


@inlined
def release_leg(a: Ints, t: Ints, leg: int) -> None:
    """Count one task less that needs the copy of a leg."""
    a[t[LEG_USES] + leg] -= 1
    if a[t[LEG_USES] + leg] == 0:
        target = a[t[LEG_TARGET] + leg]
        for i in range(a[t[SITE_PTR] + target], a[t[SITE_PTR] + target + 1]):
            device = a[t[SITE_DEVICE] + i]
            a[t[USED] + device] -= a[
                t[BYTES] + a[t[LEG_VALUE] + leg] * t[LAYOUTS] + a[t[LEG_LAYOUT] + leg]
            ]
            look_at(a, t, device)


@compiled
def weigh(a: Ints, t: Ints) -> None:
    """Bytes that each operator makes, and holds besides while it runs, on each of its devices."""
    for operator in range(t[OPERATORS]):
        option = a[t[OPTION] + operator]
        made = 0
        begin = a[t[OUTPUT_PTR] + operator]
        for i in range(begin, a[t[OUTPUT_PTR] + operator + 1]):
            layout = a[t[WRITE_LAYOUT] + a[t[WRITE_PTR] + option] + i - begin]
            made += a[t[BYTES] + a[t[OUTPUT_VALUE] + i] * t[LAYOUTS] + layout]
        running = a[t[TICKS] + option * t[SITES] + a[t[SITE] + operator]] > 0
        a[t[MADE] + operator] = made
        a[t[BESIDES] + operator] = a[t[WORKSPACE] + option] if running else 0


@inlined
def has_room(a: Ints, t: Ints, site: int, need: int, grows: bool) -> bool:
    """Whether every device of a site has so many bytes left; what grows leaves some aside."""
    for i in range(a[t[SITE_PTR] + site], a[t[SITE_PTR] + site + 1]):
        device = a[t[SITE_DEVICE] + i]
        kept = a[t[ROOM] + device] if grows else 0
        if a[t[USED] + device] + need > a[t[MEMORY] + device] - kept:
            return False
    return True


@inlined
def take(a: Ints, t: Ints, site: int, need: int) -> None:
    """Hold more bytes on every device of a site."""
    for i in range(a[t[SITE_PTR] + site], a[t[SITE_PTR] + site + 1]):
        device = a[t[SITE_DEVICE] + i]
        a[t[USED] + device] += need
        a[t[PEAK] + device] = max(a[t[PEAK] + device], a[t[USED] + device])


@compiled
def set_aside(a: Ints, t: Ints, share: float) -> None:
    """Keep a share of the largest working set of operators that free memory, on each device."""
    a[t[ROOM] : t[ROOM] + t[DEVICES]] = 0
    if share <= 0:
        return
    for operator in range(t[OPERATORS]):
        if not a[t[GROWS] + operator]:
            need = int(share * (a[t[MADE] + operator] + a[t[BESIDES] + operator]))
            site = a[t[SITE] + operator]
            for i in range(a[t[SITE_PTR] + site], a[t[SITE_PTR] + site + 1]):
                device = a[t[SITE_DEVICE] + i]
                a[t[ROOM] + device] = max(a[t[ROOM] + device], need)


@compiled
def static_excess(a: Ints, t: Ints) -> int:
    """Return the bytes that the fullest device holds too many without a clock (law ``static``).

    Where there are none, no order of the tasks holds too many at any instant.
    """
    a[t[PEAK] : t[PEAK] + t[DEVICES]] = 0  # of workspaces, first
    copy_into(a[t[BASE] : t[BASE] + t[DEVICES]], a[t[USED] : t[USED] + t[DEVICES]])
    for operator in range(t[OPERATORS]):
        made = a[t[MADE] + operator]
        site = a[t[SITE] + operator]
        for i in range(a[t[SITE_PTR] + site], a[t[SITE_PTR] + site + 1]):
            device = a[t[SITE_DEVICE] + i]
            a[t[USED] + device] += made
            room = a[t[WORKSPACE] + a[t[OPTION] + operator]]
            a[t[PEAK] + device] = max(a[t[PEAK] + device], room)
    for leg in range(a[t[LEG_COUNT]]):
        site = a[t[LEG_TARGET] + leg]
        for i in range(a[t[SITE_PTR] + site], a[t[SITE_PTR] + site + 1]):
            a[t[USED] + a[t[SITE_DEVICE] + i]] += a[
                t[BYTES] + a[t[LEG_VALUE] + leg] * t[LAYOUTS] + a[t[LEG_LAYOUT] + leg]
            ]
    excess = 0
    for device in range(t[DEVICES]):
        a[t[PEAK] + device] += a[t[USED] + device]
        excess = max(excess, a[t[PEAK] + device] - a[t[MEMORY] + device])
    return excess
