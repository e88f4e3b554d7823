"""The frame in one direction of time, with separations of all pairs in arrays.

Backward in time a problem of heads becomes a problem of tails: operators in reverse order, what
follows an operator takes the part of what precedes it. Everything that computes heads works on a
view and so computes tails too.

Arrays are 64-bit. Times are divided by ``tick`` and rounded down, so that no sum can overflow;
a bound found in these units, times ``tick``, is a bound. ``tick`` is 1 unless the times of the
problem add up to more than 2^58.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.budget import Budget
from milp_plan.core.view import kept

from .frame import Edge, Frame, Link, SitedOption
from .sites import least

Array = NDArray[np.int64]
FAR = 2**61
"""More than any sum of times: stands for 'impossible'."""
ROOM = 2**58
_CONTINUED = 24

LARGEST_KEPT = 2000
"""Most operators for which matrices of all pairs are stored for other bounds."""

T = TypeVar("T")


def scale_for(total: int) -> int:
    """Return the smallest power of two that brings ``total`` below the room of the arrays."""
    return 1 << max(0, total.bit_length() - ROOM.bit_length() + 1)


class View:
    """Operators 0 .. n-1 in the order of one direction of time.

    Parameters
    ----------
    frame
        Without obstacle.
    backward
        Direction.
    tick
        Unit of time; by default the one that suits arrays.
    """

    def __init__(self, frame: Frame, backward: bool, tick: int | None = None) -> None:
        self.frame = frame
        self.backward = backward
        self.size = len(frame.names)
        self.tick = tick or tick_of(frame)
        self.types = frame.types
        self.before: list[list[tuple[int, Edge]]] = [[] for _ in range(self.size)]
        self.after: list[list[tuple[int, Edge]]] = [[] for _ in range(self.size)]
        for edge in frame.edges:
            ends = (self.flip(edge.source), self.flip(edge.target))
            early, late = reversed(ends) if backward else ends
            self.before[late].append((early, edge))
            self.after[early].append((late, edge))

    @cached_property
    def durations(self) -> Array:
        """Fewest ticks of each operator."""
        ticks = self.frame.least_duration
        return np.array([ticks[self.flip(v)] // self.tick for v in range(self.size)], np.int64)

    @cached_property
    def unit(self) -> Array:
        """Unit of each operator."""
        return np.array([self.frame.unit[self.flip(v)] for v in range(self.size)], np.int64)

    def flip(self, number: int) -> int:
        """Turn a number of the frame into one of the view, or back."""
        return self.size - 1 - number if self.backward else number

    def states(self, v: int) -> list[SitedOption]:
        """Return the states of an operator."""
        return self.frame.states[self.flip(v)]

    def link(self, edge: Edge, early: int, late: int) -> Link:
        """Link of an edge between state ``early`` of its earlier end and ``late`` of its later."""
        return edge.links[late][early] if self.backward else edge.links[early][late]

    def shape(self, edge: Edge) -> tuple[int, int]:
        """Count the states of the earlier and of the later end."""
        rows, columns = len(edge.links), len(edge.links[0])
        return (columns, rows) if self.backward else (rows, columns)

    @cached_property
    def keys(self) -> tuple[int, ...]:
        """Colours of single devices that operators run on, and -1 if some run on several."""
        result: set[int] = set()
        for v in range(self.size):
            result |= {self.key(state) for state in self.states(v)}
        return tuple(sorted(result))

    def key(self, state: SitedOption) -> int:
        """Return the colour of the device of a state, or -1 when it has several devices."""
        colours = self.types[state.site].colours
        return colours[0] if len(colours) == 1 else -1

    def touching(self, v: int, key: int) -> list[int]:
        """Return the positions of the states that use a device of the colour; all for key -1."""
        return [
            position
            for position, state in enumerate(self.states(v))
            if key == -1 or key in self.types[state.site].colours
        ]

    def least_link(self, edge: Edge) -> int:
        """Return the fewest ticks of an edge, whatever the states."""
        ticks = least(*(link.any for row in edge.links for link in row))
        assert ticks is not None
        return ticks // self.tick

    def crossing(self, edge: Edge, key: int) -> int:
        """Fewest ticks when the later end shares a device with something the earlier does not.

        Forward, the reader then has a device outside the producer's site (``enter``); backward,
        the producer has one outside the reader's (``leave``). ``FAR`` when impossible. ``key`` is
        the colour of the shared device.
        """
        rows, _ = self.shape(edge)
        late = edge.source if self.backward else edge.target
        columns = self.touching(self.flip(late), key)
        links = (self.link(edge, i, j) for i in range(rows) for j in columns)
        ticks = least(*(link.leave if self.backward else link.enter for link in links))
        return FAR if ticks is None else ticks // self.tick


def tick_of(frame: Frame) -> int:
    """Return the scale at which no sum of durations and transfers exceeds :data:`ROOM`."""
    total = sum(
        max(state.duration * frame.types[state.site].gang for state in states)
        for states in frame.states
    )
    for edge in frame.edges:
        total += max(_numbers(edge), default=0)
    return scale_for(2 * total + 1)


def _numbers(edge: Edge) -> Iterator[int]:
    for row in edge.links:
        for link in row:
            yield from (number for number in link if number is not None)


class Separations:
    """Least time from start to start, for all pairs of a view.

    ``through[a, v]``: from the start of ``a`` to the start of a later ``v``: the longest path of
    fastest durations and least transfers. ``around(key)[a, v]``: the same when ``a`` uses no
    device of ``v``'s site, whose colour is ``key``.

    On every path from such an ``a`` to ``v`` there is an edge whose earlier end shares no device
    with ``v`` while its later end does, so that edge crosses between sites. With a
    state "shares" or "shares not" per operator, the separation over an edge (a, b) is at least
    the smaller of: b shares, and the edge crosses; or b shares not, and the crossing is still to
    come. The largest over the edges from a is valid, because each of them must be waited for.
    Times are negative (below ``-FAR / 2``) where no path leads.

    Parameters
    ----------
    view
        Any view.
    budget
        Gives up with :class:`OutOfTime`.
    segments
        Least time from stop to start of pairs, in the view's order, from another argument
        (:mod:`.segments`).
    """

    def __init__(
        self,
        view: View,
        budget: Budget,
        segments: Array | None = None,
    ) -> None:
        self.view = view
        self.budget = budget
        self.segments = segments
        self._around: dict[int, Array] = {}

    @cached_property
    def through(self) -> Array:
        """Start-to-start separations."""
        view = self.view
        result = np.full((view.size, view.size), -FAR, dtype=np.int64)
        for a in range(view.size - 1, -1, -1):
            self.budget.check()
            row = result[a]
            for b, edge in view.after[a]:  # nothing before b comes after it
                np.maximum(row[b:], result[b, b:] + view.least_link(edge), out=row[b:])
            if self.segments is not None:
                self._use_segments(a, row, result)
            row += view.durations[a]
            row[a] = 0
        return result

    def _use_segments(self, a: int, row: Array, found: Array) -> None:
        """Raise times from the stop of ``a`` by segments that begin with it.

        Continuing behind the first few segments that raise something is enough in practice.
        """
        assert self.segments is not None
        segments = self.segments[a]
        better = np.flatnonzero(segments > row)
        np.maximum(row, segments, out=row)
        for v in better[:_CONTINUED]:
            np.maximum(row[v:], row[v] + found[v, v:], out=row[v:])

    def around(self, key: int) -> Array:
        """Start-to-start separations of operators that share no device."""
        if key not in self._around:
            self._around[key] = self._find_around(key)
        return self._around[key]

    def _find_around(self, key: int) -> Array:
        view, through = self.view, self.through
        result = np.full((view.size, view.size), -FAR, dtype=np.int64)
        for a in range(view.size - 1, -1, -1):
            self.budget.check()
            row = result[a]
            for b, edge in view.after[a]:
                apart = result[b, b:] + view.least_link(edge)
                crossing = view.crossing(edge, key)
                if crossing < FAR:
                    np.minimum(apart, through[b, b:] + crossing, out=apart)
                np.maximum(row[b:], apart, out=row[b:])
            row += view.durations[a]
            np.maximum(row, through[a], out=row)
            np.minimum(row, FAR, out=row)
            row[a] = FAR
        return result


def plain_separations(frame: Frame, budget: Budget, backward: bool = False) -> Separations:
    """Return separations by edges alone, which many bounds need: made once per frame.

    What is still to be made of them gives up with this budget.
    """

    def make() -> Separations:
        return Separations(View(frame, backward), budget)

    result = kept_with(frame, f"separations, backward {backward}", make)
    result.budget = budget
    return result


def kept_with(frame: Frame, key: str, make: Callable[[], T]) -> T:
    """Return what is stored with a frame; for a large one it is made again each time."""
    return kept(frame, key, make) if len(frame.names) <= LARGEST_KEPT else make()
