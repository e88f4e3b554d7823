"""Which transfers a placement needs: the supply law in compiled loops."""

from __future__ import annotations

from milp_plan.core.compiled import compiled, inlined

from .layout import (
    BASE,
    BYTES,
    CHANGE,
    COMMUNICATION,
    COPIES,
    DEVICES,
    HELD_PTR,
    HELD_VALUE,
    HOLD_LAYOUT,
    HOLD_PTR,
    INPUT_HEAD,
    INPUT_PTR,
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
    LEG_VALUE,
    LINK,
    LINK_LEG,
    LINK_READER,
    LINKS,
    LOAD,
    NATIVE,
    NEXT_OF_INPUT,
    NEXT_OF_LEG,
    OPERATORS,
    OPTION,
    OUTPUT_PLACE,
    PAYLOAD,
    PLACE,
    PRODUCER,
    READ_LAYOUT,
    READ_PTR,
    READER,
    READER_EDGE,
    READER_PTR,
    RESOURCES,
    SEEN,
    SITE,
    SITE_DEVICE,
    SITE_PTR,
    SITES,
    STAMP,
    TICKS,
    VALUES,
    WIRE,
    WITHIN,
    WRITE_LAYOUT,
    WRITE_PTR,
    Ints,
)


@inlined
def send_units(a: Ints, t: Ints, value: int, site: int, device: int) -> tuple[int, int]:
    """Units of the fastest send to a device, and its source; (-1, -1) where there is no channel."""
    best, source = -1, -1
    row = a[t[PAYLOAD] + value * t[LAYOUTS]]
    for i in range(a[t[SITE_PTR] + site], a[t[SITE_PTR] + site + 1]):
        kind = a[t[LINK] + a[t[SITE_DEVICE] + i] * t[DEVICES] + device]
        if kind >= 0:
            units = a[t[WIRE] + row * t[LINKS] + kind]
            if best < 0 or units < best:
                best, source = units, a[t[SITE_DEVICE] + i]
    return best, source


@inlined
def reshard_units(
    a: Ints, t: Ints, value: int, made: tuple[int, int], read: tuple[int, int]
) -> int:
    """Units of a reshard between (site, layout) and (site, layout); -1 where it is not allowed."""
    site, native = made
    target, wanted = read
    change = a[t[CHANGE] + (value * t[LAYOUTS] + native) * t[LAYOUTS] + wanted]
    if change < 0:
        return -1
    if native != wanted and a[t[WITHIN] + target * t[SITES] + site]:
        return int(change)
    row = a[t[PAYLOAD] + value * t[LAYOUTS] + wanted]
    begin, away = a[t[SITE_PTR] + site], a[t[SITE_PTR] + target]
    longest = 0
    for j in range(a[t[SITE_PTR] + target + 1] - away):
        device = a[t[SITE_DEVICE] + away + j]
        if native == wanted:
            source = a[t[SITE_DEVICE] + begin + j]
            if source == device:
                continue
            kind = a[t[LINK] + source * t[DEVICES] + device]
            units = -1 if kind < 0 else a[t[WIRE] + row * t[LINKS] + kind]
        else:
            if a[t[PLACE] + site * t[DEVICES] + device] >= 0:
                continue
            units = -1
            for i in range(begin, a[t[SITE_PTR] + site + 1]):
                kind = a[t[LINK] + a[t[SITE_DEVICE] + i] * t[DEVICES] + device]
                if kind >= 0 and (units < 0 or a[t[WIRE] + row * t[LINKS] + kind] < units):
                    units = a[t[WIRE] + row * t[LINKS] + kind]
        if units < 0:
            return -1
        longest = max(longest, units)
    return int(change + longest)


@inlined
def _leg_to(a: Ints, t: Ints, value: int, target: int, layout: int) -> int:
    """Return the leg of a value, of those known, that makes a copy; -1 if there is none yet."""
    for leg in range(a[t[LEG_FIRST] + value], a[t[LEG_COUNT]]):
        if a[t[LEG_TARGET] + leg] == target and a[t[LEG_LAYOUT] + leg] == layout:
            return leg
    return -1


@inlined
def _hold(a: Ints, t: Ints, resource: int) -> None:
    a[t[LEG_HELD] + a[t[LEG_COUNT] + 2]] = resource
    a[t[LEG_COUNT] + 2] += 1


@inlined
def _hold_between(a: Ints, t: Ints, home: int, target: int) -> None:
    """What a reshard holds: every pair of its devices (law: exclusion)."""
    devices = t[DEVICES]
    first, last = a[t[SITE_PTR] + home], a[t[SITE_PTR] + home + 1]
    begin, end = a[t[SITE_PTR] + target], a[t[SITE_PTR] + target + 1]
    for i in range(first, last):
        source = a[t[SITE_DEVICE] + i]
        if t[COMMUNICATION] == 2 and (end - begin > 1 or a[t[SITE_DEVICE] + begin] != source):
            _hold(a, t, source)
        for j in range(begin, end):
            if t[COMMUNICATION] == 1 and a[t[SITE_DEVICE] + j] != source:
                _hold(a, t, source * devices + a[t[SITE_DEVICE] + j])
    for j in range(begin, end):
        device = a[t[SITE_DEVICE] + j]
        if t[COMMUNICATION] == 2 and (last - first > 1 or a[t[SITE_DEVICE] + first] != device):
            _hold(a, t, devices + device)


@inlined
def _new_leg(a: Ints, t: Ints, value: int, ends: tuple[int, int, int, int], units: int) -> int:
    """Return a transfer from a site, or one device of it, to a site, in a layout."""
    home, source, target, layout = ends
    leg, devices = a[t[LEG_COUNT]], t[DEVICES]
    a[t[LEG_VALUE] + leg] = value
    a[t[LEG_SOURCE] + leg], a[t[LEG_TARGET] + leg], a[t[LEG_LAYOUT] + leg] = source, target, layout
    a[t[LEG_UNITS] + leg] = units
    a[t[LEG_READERS] + leg] = 0
    a[t[LEG_HEAD] + leg] = -1
    if source < 0:
        _hold_between(a, t, home, target)
    elif t[COMMUNICATION] == 1:
        _hold(a, t, source * devices + target)
    elif t[COMMUNICATION] == 2:
        _hold(a, t, source)
        _hold(a, t, devices + target)
    a[t[LEG_COUNT]] += 1
    a[t[LEG_HELD_PTR] + leg + 1] = a[t[LEG_COUNT] + 2]
    return int(leg)


@inlined
def _link(a: Ints, t: Ints, edge: int, leg: int, reader: int) -> None:
    link = a[t[LEG_COUNT] + 1]
    a[t[LINK_LEG] + link] = leg
    a[t[LINK_READER] + link] = reader
    a[t[NEXT_OF_INPUT] + link] = a[t[INPUT_HEAD] + edge]
    a[t[INPUT_HEAD] + edge] = link
    a[t[NEXT_OF_LEG] + link] = a[t[LEG_HEAD] + leg]
    a[t[LEG_HEAD] + leg] = link
    a[t[LEG_READERS] + leg] += 1
    a[t[COPIES] + reader] += 1
    a[t[LEG_COUNT] + 1] += 1


@compiled
def find_legs(a: Ints, t: Ints) -> bool:  # noqa: C901, PLR0912 (a compiled loop)
    """Find the transfers of a placement (law: copies and supply); whether all are allowed.

    Operators without a site (-1) are left out.
    """
    site, option, copies = a[t[SITE] :], a[t[OPTION] :], a[t[COPIES] :]
    reader_ptr, readers, reader_edge = a[t[READER_PTR] :], a[t[READER] :], a[t[READER_EDGE] :]
    input_head, is_native, producer = a[t[INPUT_HEAD] :], a[t[NATIVE] :], a[t[PRODUCER] :]
    plain = t[LAYOUTS] == 1
    a[t[LEG_COUNT] : t[LEG_COUNT] + 3] = 0
    a[t[LEG_HELD_PTR]] = 0
    copies[: t[OPERATORS]] = 0
    for value in range(t[VALUES]):
        a[t[LEG_FIRST] + value] = a[t[LEG_COUNT]]
        maker = producer[value]
        if maker < 0 or site[maker] < 0:
            continue
        home, native, wanted = site[maker], 0, 0
        if not plain:
            native = a[
                t[WRITE_LAYOUT] + a[t[WRITE_PTR] + option[maker]] + a[t[OUTPUT_PLACE] + value]
            ]
        for i in range(reader_ptr[value], reader_ptr[value + 1]):
            reader, edge = readers[i], reader_edge[i]
            here = site[reader]
            if here < 0:
                continue
            if not plain:
                at = a[t[READ_PTR] + option[reader]] + edge - a[t[INPUT_PTR] + reader]
                wanted = a[t[READ_LAYOUT] + at]
            input_head[edge] = -1
            is_native[edge] = False
            if native == wanted and (
                here == home or (wanted == 0 and a[t[WITHIN] + here * t[SITES] + home])
            ):
                is_native[edge] = True
                copies[reader] += 1
            elif native == 0 and wanted == 0:
                for j in range(a[t[SITE_PTR] + here], a[t[SITE_PTR] + here + 1]):
                    device = a[t[SITE_DEVICE] + j]
                    if a[t[PLACE] + home * t[DEVICES] + device] >= 0:
                        a[t[COPIES] + reader] += not a[t[NATIVE] + edge]
                        a[t[NATIVE] + edge] = True
                        continue
                    leg = _leg_to(a, t, value, device, 0)
                    if leg < 0:
                        units, source = send_units(a, t, value, home, device)
                        if units < 0:
                            return False
                        leg = _new_leg(a, t, value, (home, source, device, 0), units)
                    _link(a, t, edge, leg, reader)
            else:
                leg = _leg_to(a, t, value, here, wanted)
                if leg < 0:
                    units = reshard_units(a, t, value, (home, native), (here, wanted))
                    if units < 0:
                        return False
                    leg = _new_leg(a, t, value, (home, -1, here, wanted), units)
                _link(a, t, edge, leg, reader)
    a[t[LEG_FIRST] + t[VALUES]] = a[t[LEG_COUNT]]
    return True


@compiled
def persistent_bytes(a: Ints, t: Ints) -> None:
    """Bytes of persistent values per device, each value and layout once."""
    a[t[BASE] : t[BASE] + t[DEVICES]] = 0
    a[t[STAMP]] += 1  # what an earlier placement has seen does not count
    stamp = a[t[STAMP]]
    for operator in range(t[OPERATORS]):
        begin = a[t[HELD_PTR] + operator]
        here = a[t[SITE] + operator]
        if here < 0:
            continue
        for i in range(begin, a[t[HELD_PTR] + operator + 1]):
            value = a[t[HELD_VALUE] + i]
            at = a[t[HOLD_PTR] + a[t[OPTION] + operator]] + i - begin
            copy = value * t[LAYOUTS] + a[t[HOLD_LAYOUT] + at]
            for j in range(a[t[SITE_PTR] + here], a[t[SITE_PTR] + here + 1]):
                device = a[t[SITE_DEVICE] + j]
                cell = t[SEEN] + copy * t[DEVICES] + device
                if a[cell] != stamp:
                    a[cell] = stamp
                    a[t[BASE] + device] += a[t[BYTES] + copy]


@compiled
def busiest(a: Ints, t: Ints) -> int:
    """Return the units of work of the busiest device, channel or port; legs are known."""
    a[t[LOAD] : t[LOAD] + t[RESOURCES]] = 0
    for operator in range(t[OPERATORS]):
        site = a[t[SITE] + operator]
        units = a[t[TICKS] + a[t[OPTION] + operator] * t[SITES] + site]
        for i in range(a[t[SITE_PTR] + site], a[t[SITE_PTR] + site + 1]):
            a[t[LOAD] + a[t[SITE_DEVICE] + i]] += units
    for leg in range(a[t[LEG_COUNT]]):
        for i in range(a[t[LEG_HELD_PTR] + leg], a[t[LEG_HELD_PTR] + leg + 1]):
            a[t[LOAD] + t[DEVICES] + a[t[LEG_HELD] + i]] += a[t[LEG_UNITS] + leg]
    most = 0
    for resource in range(t[RESOURCES]):
        most = max(most, a[t[LOAD] + resource])
    return int(most)
