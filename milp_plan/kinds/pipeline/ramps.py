"""Ticks that a machine must be idle while memory fills at the beginning and empties at the end.

At the beginning a machine may only run ahead as far as its memory holds what it makes, until the
first micro-batch is back to release some; at the end it has only as much work left as its memory
holds begun micro-batches, until the last is through. Both are counted over *states*: sets of a
micro-batch's tasks on the machine that may be done while the others are not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from .shop import Shop

MAX_STATES = 1024
"""Largest number of states of a micro-batch on a machine for which ramps are computed."""

FIRST_PLACES, PLACES = 8, 16
"""Micro-batches whose releases (tails) are tried as the end (beginning) of a ramp: the first
(last) ones, and about ``PLACES`` more, spread evenly."""

Ends = list[tuple[int, int]]
"""(ticks from the beginning, or end, of the horizon to a cut; idle ticks)."""


@dataclass(frozen=True, slots=True)
class PartDone:
    """A state of a micro-batch on a machine, at a moment when the machine is idle.

    Parameters
    ----------
    done
        Bits of the machine's kinds that are done.
    held
        Bytes allocated by them less bytes released.
    work
        Ticks of them.
    """

    done: int
    held: int
    work: int


class Ramps:
    """The ramps of one machine with a memory limit.

    Parameters
    ----------
    shop
        The shop.
    machine
        A machine with a memory limit.
    released, tails
        Release and tail of every task, by :func:`~.bounds.releases`; not negative here.
    """

    def __init__(
        self,
        shop: Shop,
        machine: int,
        released: Sequence[Sequence[int]],
        tails: Sequence[Sequence[int]],
    ) -> None:
        self.kinds, self.limit = shop.on_machine[machine], shop.limits[machine] or 0
        self.work = shop.work[machine]
        self.released = [released[k] for k in self.kinds]
        self.tails = [tails[k][::-1] for k in self.kinds]
        routes: dict[int, list[int]] = {}
        for at, k in enumerate(self.kinds):
            routes.setdefault(shop.kinds[k].route, []).append(at)
        self.routes = list(routes.values())
        self.counts = [shop.kinds[self.kinds[own[0]]].count for own in self.routes]
        self.states = [_states(shop, self.kinds, own) for own in self.routes]
        self._most = lru_cache(maxsize=None)(self._hull)

    def value(self) -> int:
        """Return the work of the machine and the idle ticks of both ramps."""
        if any(states is None for states in self.states):
            return 0
        starts, ends = self._ramps(self.released, back=False), self._ramps(self.tails, back=True)
        best = max(idle for _, idle in starts + ends)
        for head, before in starts:
            for tail, after in ends:
                if before + after <= best:
                    break
                if self._apart(head, tail):
                    best = before + after
        return self.work + best

    def _ramps(self, times: list[Sequence[int]], back: bool) -> Ends:
        """Return idle ticks of ramps, most first; each cut comes after fewer ticks than the last.

        The fewer ticks, the more tasks are beyond the cut: where :meth:`_apart` holds for a cut,
        it holds for those after fewer ticks. So a later cut with no more idle ticks is of no use.
        """
        ramps = {0: 0}  # no ramp
        for t in {row[place] for row in times for place in _places(len(row))}:
            done = self._most_done(t, times, back)
            if done is not None:
                ramps[t] = max(0, t - done)
        nearest: Ends = []
        for t, idle in sorted(ramps.items(), key=lambda entry: (-entry[1], entry[0])):
            if not nearest or t < nearest[-1][0]:
                nearest.append((t, idle))
        return nearest

    def _most_done(self, t: int, times: list[Sequence[int]], back: bool) -> int | None:
        """Return the most work that fits on one side of a cut at ``t``; ``None`` for none."""
        room, total = self.limit, 0
        steps: list[tuple[Fraction, int, int]] = []
        for route in range(len(self.routes)):
            for far, number in self._groups(route, t, times):
                hull = self._most(route, far, back)
                if not hull:
                    return None
                room -= number * hull[0][0]
                total += number * hull[0][1]
                for (held, work), (more, gain) in pairwise(hull):
                    steps.append((Fraction(gain - work, more - held), more - held, number))
        if room < 0:
            return None
        for rate, held, number in sorted(steps, reverse=True):
            taken = min(room, held * number)
            total += int(rate * taken)
            room -= taken
        return total

    def _groups(self, route: int, t: int, times: list[Sequence[int]]) -> Iterator[tuple[int, int]]:
        """Yield (bits of the tasks beyond a cut, micro-batches) of equal micro-batches of a route.

        ``times`` grow along each row, so the tasks beyond the cut are the last ones of the row.
        """
        near = [(bisect_left(times[at], t), at) for at in self.routes[route]]
        begin = 0
        for end in [*sorted({count for count, _ in near}), self.counts[route]]:
            if end > begin:
                yield sum(1 << at for count, at in near if count <= begin), end - begin
                begin = end

    def _hull(self, route: int, far: int, back: bool) -> list[tuple[int, int]]:
        """Return the concave corners of (bytes held, most work on this side of the cut)."""
        states = self.states[route] or []
        total = max(state.work for state in states)
        best: dict[int, int] = {}
        for state in states:
            if (state.done & far == far) if back else not state.done & far:
                work = total - state.work if back else state.work
                best[state.held] = max(best.get(state.held, 0), work)
        hull: list[tuple[int, int]] = []
        for held, work in sorted(best.items()):
            if hull and work <= hull[-1][1]:
                continue
            while len(hull) > 1 and (work - hull[-2][1]) * (hull[-1][0] - hull[-2][0]) >= (
                hull[-1][1] - hull[-2][1]
            ) * (held - hull[-2][0]):
                hull.pop()
            hull.append((held, work))
        return hull

    def _apart(self, head: int, tail: int) -> bool:
        """Return whether the ramp at the end begins after that at the beginning has ended."""
        held = 0
        for route, states in enumerate(self.states):
            count = self.counts[route]
            early = dict(self._by_place(route, head, self.released))
            late = {count - 1 - j: far for j, far in self._by_place(route, tail, self.tails)}
            for place in range(count):
                fit = [
                    state.held
                    for state in states or ()
                    if not state.done & early[place] and state.done & late[place] == late[place]
                ]
                if not fit:
                    return True
                held += min(fit)
        return held > self.limit

    def _by_place(
        self, route: int, t: int, times: list[Sequence[int]]
    ) -> Iterator[tuple[int, int]]:
        place = 0
        for far, number in self._groups(route, t, times):
            for _ in range(number):
                yield place, far
                place += 1


def _states(shop: Shop, kinds: Sequence[int], own: Iterable[int]) -> list[PartDone] | None:
    """Return the states of a route's micro-batch on a machine; ``None`` if there are too many."""
    own = list(own)
    needs = [(at, sum(1 << b for b in own if shop.above[kinds[at]] >> kinds[b] & 1)) for at in own]
    states = [PartDone(0, 0, 0)]
    for at, need in needs:  # topologically sorted, so each state is made once
        kind = shop.kinds[kinds[at]]
        states += [
            PartDone(s.done | 1 << at, s.held + kind.alloc - kind.free, s.work + kind.duration)
            for s in states
            if s.done & need == need
        ]
        if len(states) > MAX_STATES:
            return None
    return states


def _places(count: int) -> set[int]:
    return {*range(min(count, FIRST_PLACES)), *range(0, count, max(1, count // PLACES)), count - 1}
