"""Layout of the memory of a decoder: everything it needs, in one array of integers.

Compiled loops get two arrays: ``a``, the data, and ``t``, which says at ``t[NAME]`` where the part
of that name begins in ``a`` (or, for a size, the size itself). So entry ``i`` of a part is
``a[t[NAME] + i]``. Named tuples of arrays would read better; but handing eighty arrays to every
small function costs ten times what the functions do.

Sizes
    DEVICES, SITES, OPERATORS, OPTIONS, VALUES, LAYOUTS, LINKS (kinds of channels), QUEUES
    (sites, then RESOURCES - DEVICES channels or ports, then one for legs that hold nothing),
    COMMUNICATION (0 holds nothing, 1 channels, 2 ports), LIMITED (whether memory can bind),
    STATIC (whether memory is counted without a clock).
The problem; ``X_PTR`` says where the entries of an owner begin in the lists behind it
    SITE_PTR, SITE_DEVICE: devices of a site. PLACE (site, device): position there, or -1.
    WITHIN (site, other): whether all its devices are in the other. BESIDE_PTR, BESIDE: sites that
    some option uses and that hold a device. OPTION_PTR: options of an operator. TICKS (option,
    site): units, -1 where it cannot run. WORKSPACE: bytes of an option. INPUT_PTR, INPUT_VALUE:
    values an operator reads that somebody makes; READ_PTR, READ_LAYOUT: an option's layouts of
    these. OUTPUT_PTR, OUTPUT_VALUE, WRITE_PTR, WRITE_LAYOUT: the same for values made.
    HELD_PTR, HELD_VALUE, HOLD_PTR, HOLD_LAYOUT: the same for persistent values. PRODUCER: who
    makes a value, -1 for nobody; OUTPUT_PLACE: its position among the outputs. READER_PTR,
    READER, READER_EDGE: who reads it, and the position of that in INPUT_VALUE. BYTES, PAYLOAD
    (value, layout): bytes per device, row of WIRE. CHANGE (value, layout, layout): units of a
    change of layout, or -1. LINK (device, device): column of WIRE, or -1. WIRE (payload, link):
    units of a send. MEMORY: bytes of a device. GROWS: whether an operator leaves more behind than
    it is the last to read.
The placement, and what is urgent
    SITE, OPTION: of each operator. RANK: of each task (operators, then legs), the smallest is the
    most urgent, of equals the first.
Legs, the transfers a placement calls for
    LEG_FIRST: of a value; those of one value stand together. LEG_VALUE, LEG_LAYOUT, LEG_TARGET
    (a site), LEG_SOURCE (a device, or -1 for the producer's whole site), LEG_UNITS, LEG_READERS.
    LEG_HELD_PTR, LEG_HELD: channels (source * devices + target) or ports (of sending, then of
    receiving). LEG_COUNT: legs, links, resources held. NATIVE: whether an input reads the native
    copy on some device. LINK_LEG, LINK_READER, NEXT_OF_INPUT, NEXT_OF_LEG: links between inputs
    and legs; INPUT_HEAD, LEG_HEAD: the first of each. COPIES: how many an operator waits for. TAIL:
    least units after a task, transfers included.
The schedule
    START, STOP: of tasks. EVENT_TIME, EVENT_TASK: heap of stops. LEFT, RIGHT: children of waiting
    tasks in their queue. QUEUE: first task. WAITING, LISTED: queues of legs that may hold some.
    WAITS: copies an operator still waits for. BUSY: of devices, then channels or ports. USED, BASE,
    ROOM, PEAK: bytes of a device now, of persistent values, set aside for what frees memory, at
    most. NATIVE_USES (value, place in its site), LEG_USES: tasks that still need a copy. ASIDE:
    tasks passed over. DIRTY, DIRTY_LIST: sites to look at. SEEN: (value, layout, device).
    LOAD: units of a device, channel or port. MADE, BESIDES: bytes of an operator on each of its
    devices: what it makes, what it holds while it runs. TIMED: whether memory has to be watched in
    this schedule. STAMP: of SEEN. HEAD: least makespan that the tasks begun allow.
    COUNT: events, leg queues, sites to look at, operators done, tasks begun without memory.
    AHEAD: units left for a device, channel or port, and the least behind its tasks.
    STAYS: of a value, whether its native copy is never released.

New parts come last: loops that were compiled before read the others where they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

NEVER = 1 << 62
"""Later than anything: no schedule, no limit of memory."""

(
    DEVICES, SITES, OPERATORS, OPTIONS, VALUES, LAYOUTS, LINKS, QUEUES, RESOURCES, COMMUNICATION,
    LIMITED, STATIC,
    SITE_PTR, SITE_DEVICE, PLACE, WITHIN, BESIDE_PTR, BESIDE, OPTION_PTR, TICKS, WORKSPACE,
    INPUT_PTR, INPUT_VALUE, READ_PTR, READ_LAYOUT, OUTPUT_PTR, OUTPUT_VALUE, WRITE_PTR,
    WRITE_LAYOUT, HELD_PTR, HELD_VALUE, HOLD_PTR, HOLD_LAYOUT, PRODUCER, OUTPUT_PLACE, READER_PTR,
    READER, READER_EDGE, BYTES, PAYLOAD, CHANGE, LINK, WIRE, MEMORY, TAIL, GROWS,
    SITE, OPTION, RANK,
    LEG_FIRST, LEG_VALUE, LEG_LAYOUT, LEG_TARGET, LEG_SOURCE, LEG_UNITS, LEG_READERS, LEG_HELD_PTR,
    LEG_HELD, LEG_COUNT, NATIVE, LINK_LEG, LINK_READER, NEXT_OF_INPUT, NEXT_OF_LEG, INPUT_HEAD,
    LEG_HEAD, COPIES,
    START, STOP, EVENT_TIME, EVENT_TASK, LEFT, RIGHT, QUEUE, WAITING, LISTED, WAITS, BUSY, USED,
    BASE, ROOM, PEAK, NATIVE_USES, LEG_USES, ASIDE, DIRTY, DIRTY_LIST, SEEN, LOAD, MADE,
    BESIDES, TIMED, STAMP, HEAD, COUNT, AHEAD, STAYS,
) = range(97)  # fmt: skip


class Memory:
    """The two arrays, and parts of the first.

    Parameters
    ----------
    sizes
        Every size, by its constant.
    parts
        Entries of every other part, by its constant: an array, or a number of zeros.
    """

    def __init__(self, sizes: Mapping[int, int], parts: Mapping[int, Any]) -> None:
        self.t = np.zeros(STAYS + 2, dtype=np.int64)
        for number, size in sizes.items():
            self.t[number] = size
        begin, rows = 0, []
        for number in range(SITE_PTR, STAYS + 1):
            part = parts[number]
            row = np.zeros(part, dtype=np.int64) if isinstance(part, int) else np.ravel(part)
            self.t[number] = begin
            begin += len(row)
            rows.append(row.astype(np.int64))
        self.t[-1] = begin
        self.a: Ints = np.concatenate(rows)

    def copy(self) -> Memory:
        """Return the same with an array of its own, for another thread."""
        other = object.__new__(Memory)
        other.t, other.a = self.t, self.a.copy()
        return other

    def part(self, number: int) -> Ints:
        """Return the entries of a part, to read and to write."""
        return self.a[self.t[number] : self.t[number + 1]]

    def size(self, number: int) -> int:
        """One of the sizes."""
        return int(self.t[number])
