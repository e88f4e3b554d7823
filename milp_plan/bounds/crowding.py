"""What memory keeps off the device of an operator, while others wait for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from milp_plan.core import Value, ceil_div
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget

from .frame import Frame
from .heads import Windows
from .view import LARGEST_KEPT, Array, plain_separations, scale_for

CROWDED, MOMENTS = 8, 64
"""Operators that are looked at, those beside which memory lacks most; moments for each."""


class Item(NamedTuple):
    """A unit beside an operator: bytes it holds meanwhile, ticks of its work after a moment."""

    bytes: int
    ticks: int


def crowding_bound(frame: Frame, windows: Windows, budget: Budget) -> Bound | None:
    """Work that memory keeps off the device of an operator, and that cannot start early.

    Proof: let v run for a positive time. A value that an ancestor of v makes and a descendant of
    v in the same unit reads lies on the unit's device meanwhile, in the one layout that it has;
    so does what an ancestor makes and is kept; so do the unit's persistent values. On v's device
    the inputs, outputs and workspace of v lie beside those of all units there (values that v reads
    are counted as its inputs alone). So the units beside v's own that share its device are packed
    into what is left. Of operators with heads of at least h these units do, by linear programming
    duality for any price p >= 0 of a byte, at most ``p * left + sum of max(0, ticks - p * bytes)``
    ticks. The rest is on other devices, one of which does its share from h on, one operator at a
    time. With tails the same, backward in time.

    Parameters
    ----------
    frame
        Of a problem in which operators run once.
    windows
        Heads and tails of the same frame.
    budget
        Gives up with :class:`~milp_plan.core.budget.OutOfTime`.

    Returns
    -------
    Bound or None
        ``None`` where a device has no limit or could hold everything, statically, where operators
        take several devices, on one device, and above :data:`~.view.LARGEST_KEPT` operators.
    """
    others = len(frame.problem.cluster.devices) - 1
    suits = frame.single and not frame.holdings.static and 0 < len(frame.names) <= LARGEST_KEPT
    if not suits or others < 1 or not _may_bind(frame):
        return None
    held, scale = _held(frame, budget)
    room = np.array([_room(frame, v) // scale for v in range(len(frame.names))], np.int64)
    lacking = held.sum(axis=1) - room
    best, worst = 0, ""
    later = [_later(frame, ends) for ends in (windows.least_heads, windows.least_tails)]
    for v in np.argsort(-lacking, kind="stable").tolist()[:CROWDED]:
        own = frame.unit[v]
        left = int(room[v] - held[v, own])
        if left < 0 or lacking[v] <= 0 or not frame.holdings.always_runs[frame.names[v]]:
            continue
        for moment, work in chain.from_iterable(later):
            budget.check()
            items = [Item(int(held[v, u]), ticks) for u, ticks in work.items() if u != own]
            rest = sum(item.ticks for item in items) - most_kept(items, left)
            if moment * windows.tick + ceil_div(rest, others) > best:
                best, worst = moment * windows.tick + ceil_div(rest, others), frame.names[v]
    return Bound("memory beside an operator", best, f"little else fits beside {worst!r}")


def most_kept(items: list[Item], room: int) -> int:
    """Most ticks of items within some bytes, from above; any price proves, the best is taken."""
    items = [item for item in items if item.bytes <= room]
    if sum(item.bytes for item in items) <= room:
        return sum(item.ticks for item in items)
    bulky = sorted((i for i in items if i.bytes), key=lambda i: i.ticks / i.bytes, reverse=True)
    left, last = room, bulky[-1]
    for last in bulky:
        left -= last.bytes
        if left < 0:
            break
    kept = last.ticks * room
    kept += sum(max(0, i.ticks * last.bytes - last.ticks * i.bytes) for i in items)
    return kept // last.bytes


def _may_bind(frame: Frame) -> bool:
    """Whether every device has a limit, and none could hold everything at once."""
    limits = [device.memory_bytes for device in frame.problem.cluster.devices]
    known = [limit for limit in limits if limit is not None]
    return len(known) == len(limits) and max(known) < sum(frame.holdings.packed) + sum(
        frame.beside(v) for v in range(len(frame.names))
    )


def _held(frame: Frame, budget: Budget) -> tuple[Array, int]:
    """Bytes that are sure to lie on a unit's device while an operator runs: ``[operator, unit]``.

    They are counted in so many bytes, the second number, rounded down.
    """
    packed, own = frame.holdings.packed, list(_own_values(frame))
    reach = plain_separations(frame, budget).through >= 0
    scale = scale_for(sum(packed) + sum(min(value.bytes.values()) for value, _, _ in own) + 1)
    held = np.tile(np.array([size // scale for size in packed], np.int64), (len(frame.names), 1))
    for value, unit, readers in own:
        budget.check()
        assert value.producer is not None
        made = frame.index[value.producer]
        during = reach[made] & (value.is_kept | reach[:, readers].any(axis=1))
        during[[made, *(frame.index[name] for name in value.consumers)]] = False
        held[during, unit] += min(value.bytes.values()) // scale
    return held, scale


def _own_values(frame: Frame) -> Iterator[tuple[Value, int, list[int]]]:
    """Values that are read or kept where they are made, in the only layout; unit and readers."""
    for value in frame.problem.graph.values:
        if value.producer is None or len(value.bytes) != 1:
            continue
        unit = frame.unit[frame.index[value.producer]]
        readers = [frame.index[name] for name in value.consumers]
        own = [reader for reader in readers if frame.unit[reader] == unit]
        if own or value.is_kept:
            yield value, unit, own


def _later(frame: Frame, ends: Sequence[int]) -> list[tuple[int, dict[int, int]]]:
    """Moments, and ticks by unit of the operators whose heads (tails) are no earlier."""
    moments = sorted(set(ends))
    found = []
    for moment in moments[:: ceil_div(len(moments), MOMENTS)]:
        work: dict[int, int] = {}
        for unit, end, ticks in zip(frame.unit, ends, frame.least_duration, strict=True):
            if end >= moment:
                work[unit] = work.get(unit, 0) + ticks
        found.append((moment, work))
    return found


def _room(frame: Frame, v: int) -> int:
    """Most bytes that the inputs, outputs and workspace of an operator leave on its device."""
    colours = {colour for state in frame.states[v] for colour in frame.types[state.site].colours}
    limits = [frame.terrain.memory_bytes[colour] for colour in colours]
    return max((limit for limit in limits if limit is not None), default=0) - frame.beside(v)
