"""Tasks on one device exclude each other: overload and edge finding, with reasons.

Proof. Let tasks of a set start no earlier than r and stop by D. They run one after the other, so r
plus their work is at most D (overload). Let another task i, with the set, start no earlier than m,
with m plus all their work beyond D: then not i but one of the set would have to stop after D if i
were not the last of all (edge finding; Carlier and Pinson, Management Science 35, 1989), so i
starts after any part of the set is done. Backwards in time, the same holds for the first. Each
reason uses the weakest m and r that suffice.
"""

from __future__ import annotations

from milp_plan.core.compiled import compiled, inlined

from .state import (
    BY_SET,
    CONFLICT,
    END,
    OFFSET,
    PRESENT,
    REASONS,
    START,
    TICKS,
    WHY,
    Ints,
    State,
    put,
)

EST, LCT, WORK, WHO, ORDER, SUM, REACH, SINCE = range(8)
"""Rows of ``work``: earliest start, latest stop, ticks, slot; positions by earliest start; from a
position on: work of the set, largest r plus work, and its position."""


@compiled
def take_turns(s: State) -> bool:
    """Propagate on all devices; return ``False`` on a conflict.

    Slack only shrinks as bounds are drawn in: where it is what it was, nothing has changed.
    """
    for device in range(len(s.slot_at) - 1):
        for side in range(2):
            count = _gather(s, device, side)
            if count < 2:
                continue
            slack = 0
            for j in range(count):
                slack += s.work[LCT, j] - s.work[EST, j]
            if s.quiet[0, device] == count and s.quiet[1, device] == slack:
                break
            if not _find(s, count, side):
                return False
            if side:
                s.quiet[0, device], s.quiet[1, device] = count, slack
    return True


@compiled
def _gather(s: State, device: int, side: int) -> int:
    """Collect the tasks on a device, with time backwards on side 1; return their number."""
    count = 0
    for slot in range(s.slot_at[device], s.slot_at[device + 1]):
        present = s.slot[PRESENT, slot]
        if s.slot[TICKS, slot] == 0 or (present >= 0 and s.upper[2 * present + 1] > -1):
            continue
        est = -s.upper[2 * s.slot[START, slot] + 1]
        lct = s.upper[2 * s.slot[END, slot]] + s.slot[OFFSET, slot]
        s.work[EST, count] = -lct if side else est
        s.work[LCT, count] = -est if side else lct
        s.work[WORK, count], s.work[WHO, count] = s.slot[TICKS, slot], slot
        b = count
        while b > 0 and s.work[EST, s.work[ORDER, b - 1]] > s.work[EST, count]:
            s.work[ORDER, b] = s.work[ORDER, b - 1]
            b -= 1
        s.work[ORDER, b] = count
        count += 1
    return count


@compiled
def _find(s: State, count: int, side: int) -> bool:
    """Apply overload checking and edge finding to the collected tasks; ``False`` on a conflict."""
    w = s.work
    for last in range(count):
        by = w[LCT, last]
        total, reach, since = 0, -(1 << 62), -1
        for at in range(count - 1, -1, -1):
            j = w[ORDER, at]
            if w[LCT, j] <= by:
                total += w[WORK, j]
                if w[EST, j] + total > by:
                    which = at, count, count, side
                    s.n[CONFLICT] = _reason(s, s.conflict, 0, which, (by - total + 1, by))
                    return False
                if w[EST, j] + total > reach:
                    reach, since = w[EST, j] + total, at
            w[SUM, at], w[REACH, at], w[SINCE, at] = total, reach, since
        best, where = -(1 << 62), -1
        for at in range(count):
            j = w[ORDER, at]
            if w[LCT, j] <= by:
                if w[EST, j] + w[SUM, at] > best:
                    best, where = w[EST, j] + w[SUM, at], at
                continue
            begin = -1
            if w[SUM, at] > 0 and w[EST, j] + w[SUM, at] + w[WORK, j] > by:
                begin = at
            elif where >= 0 and best + w[WORK, j] > by:
                begin = where
            later = begin >= 0 and w[REACH, begin] > w[EST, j]
            if later and not _push(s, (begin, count, side), j, by):
                return False
    return True


@inlined
def _low(s: State, slot: int, side: int, least: int) -> tuple[int, int]:
    """Return the literal that a task starts at ``least`` or later (backwards: stops by it)."""
    if side:
        return 2 * s.slot[END, slot], -least - s.slot[OFFSET, slot]
    return 2 * s.slot[START, slot] + 1, -least


@compiled
def _reason(
    s: State, out: Ints, found: int, which: tuple[int, int, int, int], times: tuple[int, int]
) -> int:
    """Write why a set of tasks starts no earlier than one time and stops by another.

    The set begins at a position; from ``since`` on its tasks start no earlier than the one there.
    """
    begin, since, count, side = which
    least, by = times
    for at in range(begin, count):
        j = s.work[ORDER, at]
        if s.work[LCT, j] > by:
            continue
        slot = s.work[WHO, j]
        if s.slot[PRESENT, slot] >= 0:
            out[0, found], out[1, found] = 2 * s.slot[PRESENT, slot] + 1, -1
            found += 1
        start = least if at < since else s.work[EST, s.work[ORDER, since]]
        out[0, found], out[1, found] = _low(s, slot, side, start)
        found += 1
        if side:
            out[0, found], out[1, found] = 2 * s.slot[START, slot] + 1, by
        else:
            out[0, found], out[1, found] = 2 * s.slot[END, slot], by - s.slot[OFFSET, slot]
        found += 1
    return found


@compiled
def _push(s: State, which: tuple[int, int, int], j: int, by: int) -> bool:
    """Raise the start of a task behind a part of the set; ``False`` on a conflict."""
    begin, count, side = which
    slot, why = s.work[WHO, j], s.n[WHY]
    if why + 3 * count + 3 > REASONS:  # no room for the reason
        return True
    least = by - s.work[SUM, begin] - s.work[WORK, j] + 1
    size = why
    if s.slot[PRESENT, slot] >= 0:
        s.why[0, size], s.why[1, size] = 2 * s.slot[PRESENT, slot] + 1, -1
        size += 1
    s.why[0, size], s.why[1, size] = _low(s, slot, side, least)
    since = s.work[SINCE, begin]
    size = _reason(s, s.why, size + 1, (begin, since, count, side), (least, by))
    s.n[WHY] = size
    signed, bound = _low(s, slot, side, s.work[REACH, begin])
    return bool(put(s, signed, bound, BY_SET, why << 16 | (size - why)))
