"""Enumerates cuts of a model into stages in the order of a lower bound on their plans.

Proofs. A device runs one pass at a time, so it works for all micro-batches of its stages, and not
before the first of them has passed the stages ahead; where both gradients are one operator it also
ends no later than the stages ahead need for theirs. Whatever the cut, a micro-batch passes all
stages forward and back. While a forward pass runs, its device holds what it leaves and, of the
same micro-batch, what earlier stages on the device have left; while an input gradient runs, the
same and what it makes; while a weight gradient runs, what it reads. What lasts no time holds
nothing, so only passes that take time count. Where passes may run again or leaves may wait on a
host, only the stage's own count. Parameters, the workspace of a device and what arrives ahead of
passes lie there all the time.

What a stage leaves of a micro-batch stays from its forward pass to its input gradient: at least R
ticks, on the way to the last stage and back. If there is room for L of them, the forward pass of
the j-th micro-batch (in the order of a stage's forward passes) waits for the end of j - L of them,
one of which is the (j - L)-th or a later one: so for R ticks after the (j - L)-th forward pass
began. All N take at least ceil(N / L) R ticks, where nothing is made again and nothing leaves.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from itertools import accumulate
from math import comb
from typing import NamedTuple

from milp_plan.core import Objective, ceil_div

from .case import Grid
from .model import Cut

MAX_NODES = 400_000
"""Largest number of cut prefixes in memory; beyond it the search ends with its bound."""

MAX_CELLS = 40_000
"""Largest pieces x stages for which the need of all later stages is computed."""

_NEVER = 10**30
"""Bound of a cut that does not fit."""


class Load(NamedTuple):
    """Load of a device with some of its stages: ticks of work, resident bytes, bytes of passes.

    ``held`` are the activations of a micro-batch, by route; ``peak`` is the most that passes hold;
    ``turns`` the ticks of all its micro-batches where few fit at a time.
    """

    wait: int = 0
    work: int = 0
    resting: int = 0
    held: tuple[int, ...] = ()
    peak: int = 0
    turns: int = 0

    @property
    def time(self) -> int:
        """Ticks until the device has done its work."""
        return max(self.turns, self.wait + self.work if self.work else 0)

    @property
    def memory(self) -> int:
        """Bytes that the device needs."""
        return self.resting + self.peak


@dataclass(frozen=True)
class _Node:
    """The beginning of a cut: ends of its stages, and the loads of the devices for them."""

    ends: tuple[int, ...]
    loads: tuple[Load, ...]


class Cuts:
    """The cuts of a case in the order of a bound, produced one by one.

    Parameters
    ----------
    grid
        The case.
    by_memory
        Whether to order by the least bytes of the fullest device, whatever the limit, instead
        of by time under the limit.

    Attributes
    ----------
    possible
        Number of cuts.
    cut_off
        Whether the search was given up because of too many prefixes.
    """

    def __init__(self, grid: Grid, *, by_memory: bool = False) -> None:
        self.grid, self.by_memory = grid, by_memory
        case = grid.case
        self.pieces, self.stages = len(grid.parts), grid.stages
        self.possible = comb(self.pieces - 1, self.stages - 1)
        self.limit = None if by_memory else grid.limit
        self.sums: list[tuple[int, ...]] = [
            (0, *accumulate(column)) for column in zip(*map(astuple, grid.costs), strict=True)
        ]
        self.time: list[int] = [f + b + w for f, b, w in zip(*self.sums[:3], strict=True)]
        self.alone = case.recompute or case.lane is not None
        self.makespan = case.objective is Objective.MAKESPAN
        self.on = self._devices()
        last: dict[int, int] = {}
        for stage, places in enumerate(self.on):
            last.update((device, stage) for device, _, _ in places)
        self.open_after = [
            sum(end >= stage for end in last.values()) for stage in range(self.stages)
        ]
        self.last = last
        apart = (grid.apart(stage) for stage in range(1, self.stages))
        self.hops = list(accumulate(apart, initial=0))
        self.least = 0 if by_memory else self._least()
        self.rest = self._rests()
        self.cut_off = False
        self._serial = 0
        self._open: list[tuple[int, int, int, _Node]] = []
        self._push(max(self.least, self.rest[0][0]), _Node((), self._empty()))

    # -- the placement -----------------------------------------------------------------------

    def _devices(self) -> list[list[tuple[int, int, int]]]:
        """Return stage -> (device, route, micro-batches) of its devices; its own if free."""
        case, routes = self.grid.case, self.grid.routes
        if routes is None:
            return [[(stage, 0, case.micro_batches)] for stage in range(self.stages)]
        counts = [0] * len(routes)
        for batch in range(case.micro_batches):
            counts[batch * len(routes) // case.micro_batches] += 1
        return [
            [(route[stage], way, counts[way]) for way, route in enumerate(routes)]
            for stage in range(self.stages)
        ]

    def _empty(self) -> tuple[Load, ...]:
        ways = len(self.on[0])
        count = 1 + max(device for places in self.on for device, _, _ in places)
        return (Load(resting=self.grid.workspace, held=(0,) * ways),) * count

    def _least(self) -> int:
        """Return the ticks that every plan takes, whatever the cut."""
        case, grid = self.grid.case, self.grid
        forward, backward, weight = (column[-1] for column in self.sums[:3])
        shared = ceil_div(self.time[-1] * case.micro_batches, case.devices)
        if not self.makespan:
            return shared
        way = 0 if grid.routes is None else 2 * self.hops[-1] * grid.transfer
        return max(shared, forward + backward + way + (weight if case.joint_backward else 0))

    # -- what a stage adds to its device -----------------------------------------------------

    def _with(
        self,
        load: Load,
        stage: int,
        use: tuple[int, int],
        part: tuple[int, int],
        *,
        arriving: bool = True,
    ) -> Load:
        """Return the load of a device that also runs a stage of some pieces.

        ``use`` is the route of micro-batches, and their number; ``part`` is the range of pieces.
        """
        (way, batches), (a, b) = use, part
        grid, case = self.grid, self.grid.case
        forward, backward, weight, early, late, gradient, parameters = (
            column[b] - column[a] for column in self.sums[:7]
        )
        if not batches:  # no micro-batch takes this route: its weights are not on the device either
            return load
        wait = self._wait(stage, a) if not load.work else min(load.wait, self._wait(stage, a))
        work = load.work + batches * (forward + backward + weight)
        resting = load.resting + parameters + (grid.arriving(stage, a, b) if arriving else 0)
        own = early + late
        held = own if self.alone else load.held[way] + own
        peak = load.peak
        if forward:
            peak = max(peak, held)
        if case.joint_backward:
            peak = max(peak, held if backward + weight else 0)
        else:
            peak = max(peak, held + gradient if backward else 0, late + gradient if weight else 0)
        ways = tuple(old + own if one == way else old for one, old in enumerate(load.held))
        turns = max(load.turns, self._turns(stage, a, (batches, own), resting))
        return Load(wait, work, resting, ways, peak, turns)

    def _turns(self, stage: int, a: int, held: tuple[int, int], resting: int) -> int:
        """Return the ticks of the micro-batches of a stage from a piece on, if few fit at a time.

        ``held`` are the micro-batches, and the bytes of one.
        """
        batches, own = held
        if self.alone or self.limit is None or not own:
            return 0
        room = max(1, (self.limit - resting) // own)
        if room >= batches:
            return 0
        there = [column[-1] - column[a] for column in self.sums[:3]]
        stay = sum(there if self.grid.case.joint_backward else there[:2])
        if self.grid.routes is not None:
            stay += 2 * (self.hops[-1] - self.hops[stage]) * self.grid.transfer
        return self._wait(stage, a) + ceil_div(batches, room) * stay

    def _wait(self, stage: int, a: int) -> int:
        """Return the least ticks before the first pass of a stage, and after its last."""
        if not self.makespan or self.grid.routes is None:
            return 0
        travel = self.hops[stage] * self.grid.transfer
        if self.grid.case.joint_backward:
            return self.time[a] + 2 * travel
        return self.sums[0][a] + travel

    def _cost(self, loads: tuple[Load, ...], stage: int) -> int:
        """Return the need of a stage's devices, time or memory; :data:`_NEVER` where too much."""
        need = 0
        for device, _, _ in self.on[stage]:
            load = loads[device]
            if self.limit is not None and load.memory > self.limit:
                return _NEVER
            need = max(need, load.memory if self.by_memory else load.time)
        return need

    def _cell(self, stage: int, a: int, b: int) -> int:
        """Return the least need of a stage on a device of its own; grows with b, falls with a."""
        _, way, batches = max(self.on[stage], key=lambda place: place[2])
        load = self._with(self._empty()[0], stage, (way, batches), (a, b), arriving=False)
        if self.limit is not None and load.memory > self.limit:
            return _NEVER
        if self.by_memory:
            return load.memory
        return load.time if self._first(stage) else max(load.work, load.turns)

    def _first(self, stage: int) -> bool:
        """Return whether no earlier stage is on a device of this one."""
        devices = {device for device, _, _ in self.on[stage]}
        return not any(device in devices for places in self.on[:stage] for device, _, _ in places)

    def _rests(self) -> list[list[int]]:
        """Return stage -> piece -> least need of the stages from there on, each on its own device.

        The more pieces a stage takes, the more it needs and the less those behind: the best end
        stands where the two cross. That is no later for a stage that begins earlier.
        """
        count = self.pieces
        if count * self.stages > MAX_CELLS:
            return [[0] * (count + 1)] * (self.stages + 1)
        behind = [_NEVER] * count + [0]
        rows = [behind]
        for stage in reversed(range(self.stages)):
            row = [_NEVER] * (count + 1)
            end = most = count - (self.stages - stage - 1)
            for a in reversed(range(stage, most)):
                row[a] = max(self._cell(stage, a, end), behind[end])
                while end > a + 1:
                    cost = self._cell(stage, a, end - 1)
                    row[a] = min(row[a], max(cost, behind[end - 1]))
                    if cost < behind[end - 1]:
                        break
                    end -= 1
            behind = row
            rows.append(row)
        return rows[::-1]

    # -- the search --------------------------------------------------------------------------

    @property
    def bound(self) -> int | None:
        """Lower bound of the cuts still to come; ``None`` if there are none."""
        return self._open[0][0] if self._open else None

    def _push(self, bound: int, node: _Node) -> None:
        if bound < _NEVER:
            self._serial += 1
            heapq.heappush(self._open, (bound, -len(node.ends), self._serial, node))

    def next(
        self, worth: int | None = None, over: Callable[[], bool] = lambda: False
    ) -> tuple[int, Cut] | None:
        """Return the next cut with its bound; ``None`` where there is none below ``worth``.

        Prefixes that cannot lead below ``worth`` are dropped. The search is given up when ``over``
        returns true, or when there are too many prefixes.
        """
        while self._open:
            bound, _, _, node = self._open[0]
            if worth is not None and bound >= worth:
                return None
            if len(node.ends) == self.stages:
                heapq.heappop(self._open)
                return bound, tuple(b - a for a, b in zip((0, *node.ends), node.ends, strict=False))
            if len(self._open) > MAX_NODES or over():
                self.cut_off = True
                return None
            heapq.heappop(self._open)
            for child_bound, child in self._children(bound, node):
                if worth is None or child_bound < worth:
                    self._push(child_bound, child)
        return None

    def bound_of(self, cut: Cut) -> int | None:
        """Return the bound of a cut; ``None`` for one that does not fit."""
        node, bound = _Node((), self._empty()), self.least
        for end in accumulate(cut):
            node = self._child(node, end)
            cost = self._cost(node.loads, len(node.ends) - 1)
            if cost >= _NEVER:
                return None
            bound = max(bound, cost)
        return bound

    def _child(self, node: _Node, end: int) -> _Node:
        stage = len(node.ends)
        start = node.ends[-1] if node.ends else 0
        loads = list(node.loads)
        for device, way, batches in self.on[stage]:
            loads[device] = self._with(loads[device], stage, (way, batches), (start, end))
        return _Node((*node.ends, end), tuple(loads))

    def _children(self, bound: int, node: _Node) -> Iterator[tuple[int, _Node]]:
        stage = len(node.ends)
        start = node.ends[-1] if node.ends else 0
        most = self.pieces - self.stages + stage + 1
        for end in range(most if stage == self.stages - 1 else start + 1, most + 1):
            child = self._child(node, end)
            cost = self._cost(child.loads, stage)
            child_bound = max(bound, cost, self.rest[stage + 1][end], self._spread(child, stage))
            yield child_bound, child

    def _spread(self, node: _Node, stage: int) -> int:
        """Return the work left for devices with later stages and their own, shared evenly."""
        if self.by_memory or stage == self.stages - 1 or self.grid.routes is None:
            return 0
        open_devices = self.open_after[stage + 1]
        if not open_devices:
            return 0
        done = sum(node.loads[device].work for device, end in self.last.items() if end <= stage)
        total = self.time[-1] * self.grid.case.micro_batches
        return ceil_div(total - done, open_devices)
