"""Earliest starts and latest stops under transfers, exclusion and memory.

The head of an operator in a state is a time before which it cannot start; its tail is a time
that must pass after it stops. Two arguments raise heads (and, backward, tails):

*Along edges.* v starts no earlier than each predecessor stops plus the transfer, both in the best
pair of states that is left.

*On one device.* Fix v on one device (or on g of them). Suppose v starts at time t. An ancestor
``a`` that shares no device with v would make v wait until head(a) + separation(a, v), with at
least one crossing on the way (see :class:`.view.Separations`). So if that is later than t, ``a``
shares a device with v, and with it its whole colocation group. All ancestors of which this is
true run before t on v's devices, one at a time: for each time h, those with head at least h need
h + (their work) / g <= t; for each q, those that come at least q before v need
(their least head) + (their work) / g + q <= t; and their persistent bytes fit into the memory.
The least t that passes all of this is a head. This is the classical argument for scheduling with
communication delays (Papadimitriou and Yannakakis 1990, there with equal delays and without
exclusion), here with one-machine relaxations (Jackson 1955; Carlier 1982) and memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.budget import Budget

from .frame import Frame, SitedOption
from .view import FAR, Array, Separations, View, scale_for


@dataclass(frozen=True)
class Windows:
    """Heads and tails per operator and state, in units of ``tick``.

    ``FAR`` marks a state that no plan can use.
    """

    frame: Frame
    heads: list[list[int]]
    tails: list[list[int]]
    tick: int

    def span(self, number: int) -> int:
        """Least makespan that the windows of one operator allow, in ticks of the problem.

        Exact durations are used where the arrays did not round.
        """
        spans = [
            head + tail + state.duration // self.tick
            for head, tail, state in zip(
                self.heads[number], self.tails[number], self.frame.states[number], strict=True
            )
        ]
        return min(spans) * self.tick

    @cached_property
    def least_heads(self) -> list[int]:
        """Head of each operator, whatever its state."""
        return [min(heads) for heads in self.heads]

    @cached_property
    def least_tails(self) -> list[int]:
        """Tail of each operator, whatever its state."""
        return [min(tails) for tails in self.tails]

    @property
    def dead(self) -> int | None:
        """An operator no state of which can be used, which proves that no plan exists."""
        for number, heads in enumerate(self.heads):
            if all(
                head >= FAR // 2 or tail >= FAR // 2
                for head, tail in zip(heads, self.tails[number], strict=True)
            ):
                return number
        return None


def edge_heads(view: View, v: int, heads: list[list[int]]) -> list[int]:
    """Return the heads of one operator's states by its predecessors alone."""
    result = [0] * len(view.states(v))
    for u, edge in view.before[v]:
        stops = [
            head + state.duration // view.tick
            for head, state in zip(heads[u], view.states(u), strict=True)
        ]
        for j in range(len(result)):
            waits = [
                stop + ticks // view.tick
                for i, stop in enumerate(stops)
                if (ticks := view.link(edge, i, j).any) is not None
            ]
            result[j] = max(result[j], min(waits))
    return result


def simple_windows(frame: Frame) -> Windows:
    """Return the windows by edges alone: critical path with placement-aware transfers."""
    sides = []
    for backward in (False, True):
        view = View(frame, backward, tick=1)
        heads: list[list[int]] = []
        for v in range(view.size):
            heads.append(edge_heads(view, v, heads))
        sides.append(heads[::-1] if backward else heads)
    return Windows(frame, sides[0], sides[1], 1)


class HeadPass:
    """One sweep over a view that fixes heads in order."""

    def __init__(self, view: View, separations: Separations, budget: Budget) -> None:
        self.view = view
        self.separations = separations
        self.budget = budget
        size = view.size
        self.heads: list[list[int]] = []
        self.stops = np.zeros(size, dtype=np.int64)
        self.into = separations.through.T
        self.near_heads = {key: np.full(size, FAR, dtype=np.int64) for key in view.keys}
        self.near_work = {key: np.zeros(size, dtype=np.int64) for key in view.keys}
        own = view.frame.holdings.packed
        limits = [m for m in view.frame.terrain.memory_bytes if m is not None]
        self.byte_unit = scale_for(sum(own) + sum(limits) * 64 + 1)
        self.own = np.array([number // self.byte_unit for number in own], dtype=np.int64)
        self.grouped = any(len(unit) > 1 for unit in view.frame.units)

    def run(self) -> list[list[int]]:
        """Return the heads of all operators, in view order."""
        for v in range(self.view.size):
            self.budget.check()
            ancestors = np.flatnonzero(self.into[v, :v] >= 0)
            least = self._by_separation(v, ancestors)
            heads = [max(least, head) for head in edge_heads(self.view, v, self.heads)]
            for key in {self.view.key(state) for state in self.view.states(v)}:
                self._raise(v, key, ancestors, heads)
            self.heads.append(heads)
            self._remember(v, heads)
        return self.heads

    def _by_separation(self, v: int, ancestors: NDArray[np.intp]) -> int:
        """Head from the stops of all ancestors and the separations from them."""
        if len(ancestors) == 0:
            return 0
        waits = self.into[v, ancestors] - self.view.durations[ancestors]
        return int((self.stops[ancestors] + waits).max())

    def _raise(self, v: int, key: int, ancestors: NDArray[np.intp], heads: list[int]) -> None:
        mine = [j for j, state in enumerate(self.view.states(v)) if self.view.key(state) == key]
        head = self._one_device(v, key, ancestors, min(heads[j] for j in mine))
        for j in mine:
            heads[j] = max(heads[j], head)

    def _remember(self, v: int, heads: list[int]) -> None:
        view = self.view
        states = view.states(v)
        stops = [h + s.duration // view.tick for h, s in zip(heads, states, strict=True)]
        self.stops[v] = min(FAR, *stops)
        for key in view.keys:
            touching = view.touching(v, key)
            if touching:
                self.near_heads[key][v] = min(FAR, *(heads[j] for j in touching))
                self.near_work[key][v] = min(states[j].duration for j in touching) // view.tick

    def _one_device(self, v: int, key: int, ancestors: NDArray[np.intp], head: int) -> int:
        """Return the least start of v with its devices of this key, at least ``head``."""
        view = self.view
        if len(ancestors) == 0 or head >= FAR:
            return head
        durations = view.durations[ancestors]
        away = self.separations.around(key)[ancestors, v]
        arrivals = np.minimum(FAR, self.stops[ancestors] + np.minimum(away - durations, FAR))
        arrivals[away >= FAR // 2] = FAR
        arrivals[view.unit[ancestors] == view.unit[v]] = FAR
        if self.grouped:
            arrivals = self._by_group(ancestors, arrivals)
        near = self.near_heads[key][ancestors]
        never = near >= FAR // 2
        if never.any():
            head = max(head, int(arrivals[never].max()))
            if head >= FAR // 2:
                return FAR
        late = (arrivals > head) & ~never
        if not late.any():
            return head
        chosen = ancestors[late]
        bench = _Bench(
            arrivals[late],
            _Loads(near[late], self.near_work[key][chosen], self.into[v, chosen] - durations[late]),
            self._memory(v, key, chosen),
            self._gang(v, key),
        )
        return bench.least_start(head)

    def _by_group(self, ancestors: NDArray[np.intp], arrivals: Array) -> Array:
        """Use that the operators of one group are elsewhere together: the latest arrival counts."""
        latest = np.zeros(len(self.own), dtype=np.int64)
        units = self.view.unit[ancestors]
        np.maximum.at(latest, units, arrivals)
        return latest[units]

    def _gang(self, v: int, key: int) -> int:
        return max(self._gang_of(s) for s in self.view.states(v) if self.view.key(s) == key)

    def _gang_of(self, state: SitedOption) -> int:
        return self.view.types[state.site].gang

    def _memory(self, v: int, key: int, chosen: NDArray[np.intp]) -> _Memory | None:
        frame = self.view.frame
        if key == -1:
            gang = self._gang(v, key)
            limits = [m for m in frame.terrain.memory_bytes if m is not None]
            if len(limits) < len(frame.terrain.memory_bytes):
                return None
            room = gang * max(limits)
        else:
            limit = frame.terrain.memory_bytes[key]
            if limit is None:
                return None
            room = limit - frame.beside(self.view.flip(v))
        return _Memory(
            self.view.unit[chosen], int(self.view.unit[v]), self.own, room // self.byte_unit
        )


@dataclass
class _Memory:
    """Return whether units fit together on the devices of one operator."""

    units: Array
    mine: int
    own: Array
    room: int

    def holds(self, chosen: NDArray[np.bool_]) -> bool:
        here = np.zeros(len(self.own), dtype=bool)
        here[self.units[chosen]] = True
        here[self.mine] = True
        return bool(self.own[here].sum() <= self.room)


class _Loads(NamedTuple):
    """Heads, work and tails (to the start of the operator) of its ancestors."""

    heads: Array
    work: Array
    tails: Array


class _Bench:
    """Ancestors of one operator that might have to share its devices."""

    def __init__(self, arrivals: Array, loads: _Loads, memory: _Memory | None, gang: int) -> None:
        self.arrivals, self.memory, self.gang = arrivals, memory, gang
        self.heads, self.work, self.tails = loads
        heads, tails = self.heads, self.tails
        self.by_head = np.argsort(-heads, kind="stable")
        self.by_tail = np.argsort(-tails, kind="stable")

    def least_start(self, head: int) -> int:
        """Return the least t >= head at which the ancestors that must be here can be done."""
        stop = self._stop(head)
        if stop <= head:
            return head
        steps = np.unique(self.arrivals)
        # Before steps[0] all are here; from steps[-1] on none is, unless it can never be away.
        low, high = 0, len(steps)
        bounds = [head, *steps.tolist()]
        while low < high:
            middle = (low + high) // 2
            following = bounds[middle + 1] if middle + 1 < len(bounds) else FAR
            if self._stop(max(head, bounds[middle])) < following:
                high = middle
            else:
                low = middle + 1
        return min(FAR, max(int(bounds[low]), head, self._stop(bounds[low])))

    def _stop(self, time: int) -> int:
        """Return when those that must be here if the operator starts at ``time`` are done."""
        here = (self.arrivals > time) | (self.arrivals >= FAR // 2)
        if not here.any():
            return 0
        if self.memory is not None and not self.memory.holds(here):
            return FAR
        order = self.by_head[here[self.by_head]]
        done = self.heads[order] + _share(np.cumsum(self.work[order]), self.gang)
        order = self.by_tail[here[self.by_tail]]
        load = _share(np.cumsum(self.work[order]), self.gang)
        first = np.minimum.accumulate(self.heads[order])
        return int(max(done.max(), (first + load + self.tails[order]).max()))


def _share(work: Array, gang: int) -> Array:
    """Return the work per device, rounded up."""
    return work if gang == 1 else -(-work // gang)
