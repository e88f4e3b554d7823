"""Exact least span of one workload: conflicts between tasks are settled one after the other.

Of the schedules that keep a set of arcs (one task starts no earlier than another stops) the least
span S is found exactly: ``start[i] >= stop[j] - S`` for all i and j on one device, and a circle of
arcs whose length is positive says how far S must rise. Where the schedule found so breaks a law,
every valid schedule settles what is broken in one of a few ways, each an arc or some arcs more:

- two tasks that overlap on a resource run one before the other;
- holdings that overflow a device have no common instant, so two of them have none (Helly: intervals
  that meet in pairs meet in a point): one is released before the other begins. Or one of them
  lasts no time and holds nothing: its readers stop where its maker starts.

The search goes through all of these, so it finds the least span, or that there is no schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from math import inf

from .workload import Buffer, Workload

Arc = tuple[int, int, int]
"""(a, b, ticks): b starts at least so many ticks after a starts."""


def least_span(
    load: Workload, cutoff: int | None = None, *, whole: bool = False
) -> tuple[int, list[int]] | None:
    """Return the least span below a cutoff and starts that reach it, if there are any.

    With ``whole`` the span is that of all operators together, whose least value is the makespan's.
    """
    return _SpanSearch(load, cutoff, whole).run()


class _SpanSearch:
    def __init__(self, load: Workload, cutoff: int | None, whole: bool) -> None:
        self.load, self.cutoff, self.whole = load, cutoff, whole
        self.lengths = load.durations
        operators = range(len(load.problem.graph.operators))
        devices = range(len(load.limits))
        groups = [[i for i in operators if load.resources[i] >> d & 1] for d in devices]
        self.groups = [list(operators)] if whole else [group for group in groups if group]
        self.found: tuple[int, list[int]] | None = None

    def run(self) -> tuple[int, list[int]] | None:
        if not self.load.fits(self.load.lasting()):
            return None
        arcs = [
            (p, i, self.lengths[p])
            for i, before in enumerate(self.load.before)
            for p in range(len(self.lengths))
            if before >> p & 1
        ]
        reach = max if self.whole else sum  # what one device runs takes turns
        self.settle(arcs, max(reach(self.lengths[i] for i in group) for group in self.groups))
        return self.found

    def settle(self, arcs: list[Arc], span: int) -> None:
        """Go through the schedules that keep these arcs."""
        reached = self.least(arcs, span)
        if reached is None:
            return
        span, starts = reached
        best = self.found[0] if self.found else self.cutoff
        if best is not None and span >= best:
            return
        ways = self.overlap(starts) or self.overflow(starts)
        if ways is None:
            self.found = span, starts
            return
        for more in ways:
            self.settle([*arcs, *more], span)

    def least(self, arcs: list[Arc], span: int) -> tuple[int, list[int]] | None:
        """Least span under these arcs, at least so much, with earliest starts."""
        while True:
            tied = [
                (j, i, self.lengths[j] - span, 1)
                for group in self.groups
                for i in group
                for j in group
                if i != j
            ]
            starts, circle = _longest(len(self.lengths), [*((*a, 0) for a in arcs), *tied])
            if circle is None:
                return span, starts
            length, ties = circle
            if not ties:
                return None
            span += -(-length // ties)

    def overlap(self, starts: list[int]) -> list[list[Arc]] | None:
        """Ways to settle the first two tasks that overlap on a resource."""
        for a, b in combinations(range(len(starts)), 2):
            if self.load.resources[a] & self.load.resources[b]:
                first, second = sorted(
                    (a, b), key=lambda i: (starts[i], starts[i] + self.lengths[i])
                )
                if starts[second] < starts[first] + self.lengths[first]:
                    return [[(a, b, self.lengths[a])], [(b, a, self.lengths[b])]]
        return None

    def overflow(self, starts: list[int]) -> list[list[Arc]] | None:
        """Ways to settle the first overflow of a device."""
        for device, limit in enumerate(self.load.limits):
            if limit is None:
                continue
            room = limit - self.load.persistent[device]
            items = [b for b in self.load.buffers if b.device == device]
            ends = [
                inf
                if self.stays(item)
                else max(starts[r] + self.lengths[r] for r in _tasks(item.readers))
                for item in items
            ]
            for moment in sorted({starts[item.maker] for item in items}):
                there = [
                    item
                    for item, end in zip(items, ends, strict=True)
                    if starts[item.maker] <= moment < end
                ]
                if sum(item.bytes for item in there) > room:
                    return list(self.ways_apart(_few(there, room)))
        return None

    def stays(self, item: Buffer) -> bool:
        """Whether nothing releases it."""
        return bool(item.readers >> len(self.lengths))

    def ways_apart(self, items: list[Buffer]) -> Iterator[list[Arc]]:
        """Arcs that keep two holdings apart, or make one last no time."""
        for first in items:
            if self.stays(first):
                continue
            readers = list(_tasks(first.readers))
            for second in items:
                if first is not second:
                    yield [(r, second.maker, self.lengths[r]) for r in readers]
            if not any(self.lengths[r] for r in readers):
                yield [(r, first.maker, 0) for r in readers if r != first.maker]


def _few(items: list[Buffer], room: int) -> list[Buffer]:
    """Some of the items that are too much together, the largest first."""
    taken: list[Buffer] = []
    for item in sorted(items, key=lambda item: -item.bytes):
        taken.append(item)
        if sum(one.bytes for one in taken) > room:
            break
    return taken


def _tasks(mask: int) -> Iterator[int]:
    return (i for i in range(mask.bit_length()) if mask >> i & 1)


def _longest(
    size: int, arcs: Iterable[tuple[int, int, int, int]]
) -> tuple[list[int], tuple[int, int] | None]:
    """Longest paths from the beginning; or (length, marks) of a circle of positive length."""
    arcs = list(arcs)
    for a, b, ticks, _ in arcs:
        if a == b and ticks > 0:
            return [], (ticks, 0)
    starts = [0] * size
    via: list[tuple[int, int, int, int] | None] = [None] * size
    for _ in range(size + 1):
        changed = -1
        for arc in arcs:
            a, b, ticks, _ = arc
            if starts[a] + ticks > starts[b]:
                starts[b], via[b], changed = starts[a] + ticks, arc, b
        if changed < 0:
            return starts, None
    node = changed
    for _ in range(size):
        node = _arc(via, node)[0]
    length = marks = 0
    end = node
    while True:
        a, _, ticks, mark = _arc(via, node)
        length, marks, node = length + ticks, marks + mark, a
        if node == end:
            return [], (length, marks)


def _arc(via: list[tuple[int, int, int, int] | None], node: int) -> tuple[int, int, int, int]:
    arc = via[node]
    assert arc is not None, "a node on a circle was reached"
    return arc
