"""Beam search over words, with many differently tuned beams at once.

A state is a set of started tasks that is closed under predecessors; because tasks of a kind run
in micro-batch order, the number of started tasks per kind says which. One level starts one more
task. Of the active schedules of Giffler and Thompson (Operations Research 8, 1960, 487-503) one
machine is branched on: the one whose next task can end first, with every kind it could start
before that end. So every schedule has one way through the search, and all states of a level are
about equally far in time. Kinds without room in memory, or held back by a guard
(:class:`~.arrays.Guard`), cannot start.

States are compared by a soft maximum over lower bounds: with b the bound that a kind's next task
or a machine's remaining work gives for the value, a state costs the sum of w·exp(b/τ). Of states
with equal counts only the cheapest stays. Each of several groups of states has its own
:class:`~.tuning.Tuning`, and all groups move through the same array operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..timing import Words, times
from .arrays import Arrays
from .states import BeamResult, Start, States, joined, root
from .tables import Array, BeamTables
from .tuning import Costs, Tuning, cheapest

STATIONS = 16
"""Number of levels at which a later search may begin; long searches have more."""


@dataclass(frozen=True)
class _Trace:
    """Record of a level: parent and started kind of each state, and stations passed."""

    parent: Array
    kind: Array


class Beam:
    """Search over one shop, or half of it.

    Parameters
    ----------
    arrays
        What to schedule.
    """

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.tables = BeamTables(arrays)
        self.code = np.random.default_rng(0).integers(1 << 62, size=self.tables.kinds)
        total = self.tables.total
        many = max(STATIONS, total // (2 * self.tables.kinds))
        self.stations = tuple(sorted({total * i // many for i in range(1, many)} - {0}))

    def words(self, order: Sequence[int]) -> list[list[int]]:
        """Return words of the whole shop from kinds in the order started."""
        rows: list[list[int]] = [[] for _ in range(self.tables.machines)]
        for k in order:
            rows[self.arrays.machine[k]].append(k)
        return self.arrays.unfold(rows)

    def follow(self, words: Words, stop: Callable[[], bool] = lambda: False) -> BeamResult | None:
        """Return the schedule of words, with its stations; ``None`` where the beam cannot make it.

        The words must be the shop's, and mirrored where half of it is searched. ``stop`` ends it
        early, with ``None``.
        """
        arrays, tables = self.arrays, self.tables
        folded = arrays.fold(words)
        if folded is None:
            return None
        starts = times(arrays.shop, words)
        stops = [
            (starts[whole][n] + int(tables.duration[k]), starts[whole][n], k)
            for k, whole in enumerate(arrays.kinds)
            for n in range(int(arrays.count[k]))
        ]
        rng = np.random.default_rng(0)
        costs = Costs(tables, [Tuning(guarded=False)], [1 << 60])
        states = joined([root(tables).state], rng)
        traces: list[_Trace] = []
        passed: dict[int, States] = {}
        zero = np.zeros(1, dtype=np.int64)
        for level, (_, _, kind) in enumerate(sorted(stops)):
            if level in self.stations:
                passed[level] = states
            one = np.array([kind])
            if states.start[0, kind] >= tables.far or (level % 100 == 99 and stop()):
                return None
            clock = (states.start + tables.duration).min(1)
            children = _Children(tables, self.code, states, parent=zero, kind=one, clock=clock)
            children.judge(costs, 1, rng)
            traces.append(_Trace(zero, one))
            states = children.states(zero)
        return self._read(states, traces, passed, [root(tables)])[0]

    def run(
        self,
        tunings: Sequence[Tuning],
        width: int,
        targets: Sequence[int],
        rng: np.random.Generator,
        *,
        starts: Sequence[Start] = (),
        until: int | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> list[BeamResult]:
        """Search once, with all groups in the same array operations.

        Parameters
        ----------
        tunings
            Settings of each group.
        width
            Number of states that a group retains per level.
        targets
            Per group: states whose bound is above it are dropped.
        rng
            Generator of noise and hashes.
        starts
            Where the groups begin, all at one level; by default with nothing started.
        until
            Level to stop at, by default the end: schedules are then not complete, and their value
            is the end of their last task.
        stop
            Called at every level; ``True`` ends the search without a result.

        Returns
        -------
        list
            The best schedule of each group that reached the end, best first.
        """
        costs = Costs(self.tables, tunings, targets)
        starts = starts or [root(self.tables)] * len(tunings)
        states = joined([start.state for start in starts], rng)
        traces: list[_Trace] = []
        passed: dict[int, States] = {}
        first = len(starts[0].order)
        for level in range(first, self.tables.total if until is None else until):
            if level in self.stations:
                passed[level] = states
            children = None if stop() else self._children(states, costs.patience)
            if children is None:
                return []
            chosen = children.judge(costs, width, rng)
            if not len(chosen):
                return []
            traces.append(_Trace(children.parent[chosen], children.kind[chosen]))
            states = children.states(chosen)
        return self._read(states, traces, passed, starts)

    def _read(
        self,
        states: States,
        traces: list[_Trace],
        passed: dict[int, States],
        starts: Sequence[Start],
    ) -> list[BeamResult]:
        """Return the best complete schedule of each group."""
        values = (states.busy + self.tables.offset).max(1)
        done = bool((states.count[0] == self.tables.number).all())  # else the cheapest is first
        results = []
        for group in np.unique(states.group):
            rows = np.flatnonzero(states.group == group)
            row = best = int(rows[values[rows].argmin()] if done else rows[0])
            start = starts[int(group)]
            begun = start.order
            kinds: list[int] = []
            at: dict[int, int] = {}
            for step in reversed(range(len(traces))):
                kinds.append(int(traces[step].kind[row]))
                row = at[len(begun) + step] = int(traces[step].parent[row])
            order = begun + tuple(reversed(kinds))
            stations = start.earlier | {
                level: Start(order[:level], states.take(np.array([at[level]])))
                for level, states in passed.items()
            }
            results.append(BeamResult(int(values[best]), order, int(group), stations))
        return sorted(results, key=lambda entry: (entry.value, entry.group))

    def _children(self, states: States, patience: Array) -> _Children | None:
        """Return all children of all states; ``None`` if there are none."""
        tables = self.tables
        ends = states.start + tables.duration
        first = ends.argmin(1)
        clock = ends[np.arange(len(first)), first]
        until = clock + np.where(tables.holds[first], patience[states.group], 0)
        able = states.start < np.minimum(until, tables.far)[:, None]
        able &= tables.machine == tables.machine[first][:, None]
        parent, kind = np.nonzero(able)
        if not len(parent):
            return None
        return _Children(tables, self.code, states, parent=parent, kind=kind, clock=clock)


class _Children:
    """Children of a level before the choice: one row per (parent, kind)."""

    def __init__(
        self,
        tables: BeamTables,
        code: Array,
        parents: States,
        *,
        parent: Array,
        kind: Array,
        clock: Array,
    ) -> None:
        self.tables, self.parents, self.parent, self.kind = tables, parents, parent, kind
        self.at = parent * tables.kinds + kind
        self.number = parents.count.take(self.at)
        self.end = parents.start.take(self.at) + tables.duration[kind]
        self.clock = clock
        every = np.arange(len(parent))
        machine = every * tables.machines + tables.machine[kind]
        own = every * tables.kinds + kind
        self.busy = parents.busy.take(parent, 0)
        self.busy.reshape(-1)[machine] = self.end
        self.rest = parents.rest.take(parent, 0)
        left = self.rest.reshape(-1)[machine] - tables.duration[kind]
        left[left <= tables.last[tables.machine[kind]]] = -tables.far
        self.rest.reshape(-1)[machine] = left
        self.tail = parents.tail.take(parent, 0)
        self.tail.reshape(-1)[own] = tables.tails[tables.row[kind] + self.number + 1]
        self.ready = parents.ready.take(parent, 0)
        self._renew(every, own)
        self.held = parents.held.take(parent, 0)
        self.held += tables.change.take(kind, 0)
        self.key = parents.key[parent] + code[kind]
        self.group = parents.group[parent]

    def _renew(self, every: Array, own: Array) -> None:
        """Compute ready times of the started kinds' next tasks and of their successors."""
        following = self.number + 1
        value = self._inputs(every, self.kind, following)
        value[following >= self.tables.number[self.kind]] = self.tables.far
        flat = self.ready.reshape(-1)
        flat[own] = value
        for after in self.tables.after:
            b = after[self.kind]
            next_is = self.parents.count.take(self.parent * self.tables.kinds + b)
            rows = np.flatnonzero((b >= 0) & (next_is == self.number))
            if len(rows):
                value = self._inputs(rows, b[rows], self.number[rows])
                flat[rows * self.tables.kinds + b[rows]] = value

    def _inputs(self, rows: Array, kind: Array, number: Array) -> Array:
        """Return when task ``number`` of a kind has all inputs."""
        tables = self.tables
        value = np.zeros(len(rows), dtype=tables.type)
        parent, started = self.parent[rows], self.kind[rows]
        for before, lags in zip(tables.before, tables.lag, strict=True):
            a = before[kind]
            place = parent * tables.kinds + a
            stop = self.parents.stops.take(place * tables.ring + number % tables.ring)
            just = (a == started) & (self.number[rows] == number)
            stop = np.where(just, self.end[rows], stop) + lags[kind]
            stop[(self.parents.count.take(place) <= number) & ~just] = tables.far
            stop[a < 0] = 0
            np.maximum(value, stop, out=value)
        return value

    def judge(self, costs: Costs, width: int, rng: np.random.Generator) -> Array:
        """Return the rows to retain."""
        tables = self.tables
        free = self.busy.take(tables.machine, 1)
        self.start = np.maximum(self.ready, free)
        bounds = np.where(self.ready < tables.far, self.start, free)
        bounds += self.tail
        if len(tables.takers):
            self._block(costs)
        loads = np.minimum.reduceat(self.start.take(tables.sorted, 1), tables.bounds, axis=1)
        np.minimum(loads, self.clock[self.parent][:, None], out=loads)
        np.maximum(loads, self.busy, out=loads)
        loads += self.rest
        rows, cost = costs.costs(bounds, loads, self.group, rng)
        return cheapest(rows, cost, self.key, self.group, width)

    def _block(self, costs: Costs) -> None:
        """Set the start of kinds that memory blocks to never."""
        tables, held = self.tables, self.held
        fits = held.take(tables.taker_column, 1) <= tables.room
        if len(tables.guarded):
            safe = held[:, tables.guard_columns] <= tables.guard_room
            safe |= (held[:, tables.pass_columns] > 0) & tables.passable
            safe |= ~costs.guarded[self.group][:, None]
            fits[:, tables.guarded] &= safe
        if len(tables.flights):
            fits[:, tables.flight_place] &= (
                held[:, tables.flight_columns] < costs.in_flight[self.group]
            )
        part = self.start.take(tables.takers, 1)
        part[~fits] = tables.far
        self.start[:, tables.takers] = part

    def states(self, rows: Array) -> States:
        """Return the states of the chosen rows."""
        tables = self.tables
        parent, kind = self.parent[rows], self.kind[rows]
        every = np.arange(len(rows))
        count = self.parents.count.take(parent, 0)
        count.reshape(-1)[every * tables.kinds + kind] += 1
        stops = self.parents.stops.take(parent, 0)
        ring = self.number[rows] % tables.ring
        stops.reshape(-1)[(every * tables.kinds + kind) * tables.ring + ring] = self.end[rows]
        return States(
            count=count,
            busy=self.busy.take(rows, 0),
            ready=self.ready.take(rows, 0),
            start=self.start.take(rows, 0),
            tail=self.tail.take(rows, 0),
            rest=self.rest.take(rows, 0),
            stops=stops,
            held=self.held.take(rows, 0),
            key=self.key[rows],
            group=self.group[rows],
        )
