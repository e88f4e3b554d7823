"""Spines: units that a training graph goes through outward and, in reverse order, back.

A spine is a chain of colocation groups ("units") u_1 .. u_n. Every micro-batch m has an operator
``out`` and a later one ``back`` in each of them, and

    out_1 -> out_2 -> .. -> out_n -> back_n -> .. -> back_2 -> back_1

is a chain of dependences: forward and backward passes through layers whose weights stay where they
are. Where a spine changes devices between u_j and u_j+1, micro-batches pay for it twice.

A *one-way* spine has the way out only; the end of the plan takes the part of all ``back``.

*Side units* hang between two positions a < c of a spine: on the way out between out_a and out_c, on
the way back between back_c and back_a, or both: pools, sums, other branches of a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .frame import Frame
from .heads import Windows
from .milestones import families_of
from .view import Array, Separations, scale_for

ENDLESS = 2**59
"""Stands for 'impossible'; a few of them can be added."""

Numbers = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Spine:
    """Operators of a spine; entry [i, m] belongs to position i and micro-batch m.

    In a one-way spine ``back`` is ``out``, and nothing may be read from it.
    """

    units: tuple[int, ...]
    out: Numbers
    back: Numbers
    one_way: bool = False

    def __len__(self) -> int:
        return len(self.units)


class Times:
    """Least times between pairs of operators, from start to start, in units of ``tick``.

    Parameters
    ----------
    separations
        Forward, raised by whatever is known.
    windows
        Heads and tails of the frame or of one that extends it.
    """

    def __init__(self, separations: Separations, windows: Windows) -> None:
        self.frame: Frame = separations.view.frame
        self.tick = separations.view.tick
        self.through = separations.through
        self.apart = np.minimum(separations.around(-1), ENDLESS)
        self.durations = separations.view.durations
        self.keys = separations.view.keys
        self.slower = [self._on(separations, key) for key in self.keys]
        place = [windows.frame.index[name] for name in self.frame.names]
        heads, tails = windows.least_heads, windows.least_tails
        self.heads: Array = np.array([min(heads[v], ENDLESS) for v in place], dtype=np.int64)
        self.tails: Array = np.array([min(tails[v], ENDLESS) for v in place], dtype=np.int64)

    def _on(self, separations: Separations, key: int) -> Array:
        """Return the fewest ticks of each operator on a device of one colour."""
        view = separations.view
        return np.array(
            [
                min(
                    (state.duration // self.tick for state in states if view.key(state) == key),
                    default=ENDLESS,
                )
                for states in self.frame.states
            ],
            dtype=np.int64,
        )

    @cached_property
    def byte_unit(self) -> int:
        """Bytes that count as one, so that no sum overflows."""
        limits = [m for m in self.frame.terrain.memory_bytes if m is not None]
        return scale_for(2 * (sum(self.frame.holdings.packed) + max(limits, default=0)) + 1)

    def bytes(self, unit: int) -> int:
        """Return the lasting bytes of a unit, rounded down."""
        return self.frame.holdings.packed[unit] // self.byte_unit

    def least(self, matrix: Array, early: Numbers, late: Numbers) -> Array:
        """Least entry over micro-batches, for all pairs of rows of ``early`` and ``late``."""
        return np.asarray(
            np.stack([matrix[np.ix_(early[:, m], late[:, m])] for m in range(early.shape[1])]).min(
                axis=0
            )
        )


class Pairs:
    """All pairs (out, back) of operators of one unit, over as many micro-batches as there are.

    One way, each operator is a pair with itself.
    """

    def __init__(self, times: Times, one_way: bool = False) -> None:
        self.times, self.one_way = times, one_way
        frame = times.frame
        by_unit: dict[int, list[list[int]]] = {}
        copies = [[family[m] for m in sorted(family)] for family in families_of(frame).values()]
        most = max(map(len, copies), default=1)
        if most == 1:
            copies = [[v] for v in range(len(frame.names))]
        for family in copies:
            if len(family) == most:
                by_unit.setdefault(frame.unit[family[0]], []).append(family)
        result = [
            (unit, a, b)
            for unit, members in by_unit.items()
            for a in members
            for b in members
            if (a is b) == one_way
            and all(times.through[x, y] >= 0 for x, y in zip(a, b, strict=True))
        ]
        self.units = [unit for unit, _, _ in result]
        self.out: Numbers = np.array([a for _, a, _ in result], dtype=np.intp)
        self.back: Numbers = np.array([b for _, _, b in result], dtype=np.intp)

    @cached_property
    def turn(self) -> Array:
        """Least time from out to back; one way, from out to the end of the plan."""
        times = self.times
        if self.one_way:
            return np.asarray((times.durations + times.tails)[self.out].min(axis=1))
        return np.asarray(times.through[self.out, self.back].min(axis=1))

    @cached_property
    def steps(self) -> Array:
        """Least time out and back from one pair to the next; far below 0 where none leads."""
        times = self.times
        away = times.least(times.through, self.out, self.out)
        units = np.array(self.units)
        if self.one_way:
            return np.where((away > 0) & (units[:, None] != units[None, :]), away, -ENDLESS)
        home = times.least(times.through, self.back, self.back).T
        fits = (away > 0) & (home > 0) & (units[:, None] != units[None, :])
        return np.where(fits, away + home, -ENDLESS)

    def spine(self, share: float) -> Spine | None:
        """Return the heaviest chain: its time, and this share of its units' work.

        Times of consecutive pairs alone would prefer chains with few units.
        """
        if len(self.units) < 2:
            return None
        times = self.times
        work = np.array([times.durations[times.frame.units[u]].sum() for u in self.units])
        ends = times.heads[self.out].min(axis=1)
        if not self.one_way:
            ends = ends + times.tails[self.back].min(axis=1)
        best = ends + share * work
        before = np.full(len(best), -1)
        order = (
            np.argsort(self.out[:, 0]) if self.one_way else np.argsort(-self.turn, kind="stable")
        )
        for x in order:
            longer = best + self.steps[:, x] + share * work[x]
            y = int(np.argmax(longer))
            if longer[y] > best[x]:
                best[x], before[x] = longer[y], y
        chain = [int(np.argmax(best + self.turn))]
        while before[chain[-1]] >= 0:
            chain.append(int(before[chain[-1]]))
        return self._distinct(chain[::-1])

    def _distinct(self, chain: list[int]) -> Spine | None:
        """Remove pairs whose unit is already in the spine."""
        seen: set[int] = set()
        kept = [x for x in chain if not (self.units[x] in seen or seen.add(self.units[x]))]  # type: ignore[func-returns-value]
        if len(kept) < 2:
            return None
        return Spine(
            tuple(self.units[x] for x in kept), self.out[kept], self.back[kept], self.one_way
        )


@dataclass(frozen=True)
class Side:
    """A side unit, and its effect on the spine's time and on its device.

    ``first`` and ``last`` are positions. If the unit is not on the device of the spine there, a
    micro-batch takes ``out_away`` from out_first to out_last, and ``back_away`` on the way back. On
    that device it works ``out`` on the way out of all micro-batches, ``back`` on their way back,
    ``late`` after the first of them has come back to ``last``, ``all`` after the first has left
    ``first``; one micro-batch alone needs ``out_one`` and ``back_one``.
    """

    unit: int
    first: int
    last: int
    out_away: int
    back_away: int
    out_one: int
    back_one: int
    out: int
    back: int
    late: int
    all: int


def sides(times: Times, spine: Spine, widest: int) -> Iterator[Side]:
    """Find the side units whose two positions are at most ``widest`` apart."""
    through = times.through
    ahead = through[spine.out.ravel()].reshape(*spine.out.shape, -1) >= 0
    to_out = (through[:, spine.out.ravel()] >= 0).reshape(-1, *spine.out.shape)
    from_back = through[spine.back.ravel()].reshape(*spine.back.shape, -1) >= 0
    to_back = (through[:, spine.back.ravel()] >= 0).reshape(-1, *spine.back.shape)
    for unit, members in enumerate(times.frame.units):
        if unit in spine.units:
            continue
        ends = []
        for v in members:
            for early, late in ((ahead[:, :, v], to_out[v]), (to_back[v], from_back[:, :, v])):
                both = early.any(axis=0) & late.any(axis=0)
                for m in np.flatnonzero(both):
                    a = int(np.flatnonzero(early[:, m])[-1])
                    c = int(np.flatnonzero(late[:, m])[0])
                    if a < c:
                        ends.append((a, c))
        if ends:
            first, last = min(a for a, _ in ends), max(c for _, c in ends)
            if last - first <= widest:
                yield _side(times, spine, unit, first, last)


def _side(times: Times, spine: Spine, unit: int, first: int, last: int) -> Side:
    members = np.array(times.frame.units[unit], dtype=np.intp)
    ticks, through = times.durations[members], times.through
    ends = (spine.out[first], spine.out[last], spine.back[last], spine.back[first])
    after_out, after_back = (through[np.ix_(e, members)] >= 0 for e in (ends[0], ends[2]))
    before_out, before_back = (through[np.ix_(members, e)].T >= 0 for e in (ends[1], ends[3]))
    out, back = after_out & before_out, after_back & before_back
    return Side(
        unit,
        first,
        last,
        _away(times, ends[0], members, ends[1], out),
        _away(times, ends[2], members, ends[3], back),
        int((out * ticks).sum(axis=1).min()),
        int((back * ticks).sum(axis=1).min()),
        int(ticks[out.any(axis=0)].sum()),
        int(ticks[back.any(axis=0) & ~out.any(axis=0)].sum()),
        int(ticks[after_back.any(axis=0)].sum()),
        int(ticks[after_out.any(axis=0)].sum()),
    )


def _away(
    times: Times, early: Numbers, members: Numbers, late: Numbers, between: NDArray[np.bool_]
) -> int:
    """Return the least time of a micro-batch from ``early`` to ``late`` through other devices."""
    detour = times.apart[np.ix_(early, members)] + times.apart[np.ix_(members, late)].T
    return min(ENDLESS, int(np.where(between, detour, 0).max(axis=1).min()))
