"""The mixed-integer model of a window, built from arrays.

Columns: starts of free operators, of transfers that may have to wait, and of fixed tasks that
compete with them; placements; order bits; the makespan. All other fixed tasks are paths: the least
time between two fixed tasks that have a column is one row.

==============  =================================================================================
``place``       sum of an operator's placements = 1; a free colocation group has one site
``flow``        sum_q flow[p,q] = place[p];  sum_p flow[p,q] = place[q]  for pairs of free units
``supply``      start[k] >= start[i] + length[i] + sum of (longest journey of p,q) flow[p,q]
``travel``      start[t] >= stop[maker];  start[k] >= stop[t] where k reads it
``order``       start[k] >= stop[i] - M (1 - first[i,k]);  both bits where the two may not meet
``position``    a free task and the fixed ones of a resource: one bit per fixed task it may come
                before, monotone along their order, at most 1 where it does not hold the resource
``position``    start[i] >= heads of the fixed tasks before it, and stop[i] <= latest starts after
``chain``       start[b] >= start[a] + least time along tasks that have no column
``end``         makespan >= stop[i] + tail
==============  =================================================================================

Big-M values come from the windows [head, horizon - tail] of the tasks. Memory is not in the model:
the checker decides. Source: this project. The disjunctive form is Manne's (1960), the bits per
position follow Applegate and Cook's (1991) use of windows, and neighbourhoods keep the rest of the
order as in Pesant and Gendreau (1996).
"""

from __future__ import annotations

from math import inf

import numpy as np

from milp_plan.lp import CompiledModel

from ..planners.indexed import Spot
from .jobs import Carried, Decided, Gap, Job, Meeting, apart
from .loops import contract
from .placing import Placing
from .rows import ONE, SURE, Clock, Part, Rows, Terms
from .scope import Edge, Scope
from .work import Work

UNITS = 1000.0
"""Most units of time between the first start and the horizon; with fewer ticks a unit is a tick."""

MOST_BITS = 200
"""Most order bits, about, that HiGHS searches within seconds."""


class Model:
    """The model of an open window.

    Parameters
    ----------
    scope
        The window; it must be open.
    most_bits
        Most order bits, about. If more would be free, tasks that are far from each other in the
        plan keep their order.

    Attributes
    ----------
    impossible
        Whether the model is known to have no solution, so that it need not be solved.
    """

    def __init__(self, scope: Scope, most_bits: int = MOST_BITS) -> None:
        self.scope, self.timeline, self.view = scope, scope.timeline, scope.view
        self.rows = Rows()
        origin = min(scope.head[scope.free].tolist())
        self.clock = Clock(origin, max(1.0, (scope.horizon - origin) / UNITS))
        low, high = self.clock.at(scope.least), self.clock.at(scope.horizon)
        self.makespan = self.rows.column("makespan", low, high)
        self.placing = Placing(self.rows, scope)
        self.work = Work(self.rows, self.placing, self.clock, scope)
        self.heads, self.ticks, self.ends = self.work.heads, self.work.ticks, self.work.ends
        self.job_of = {job.name: job for job in self.work.jobs}
        self.fixed_columns: dict[int, int] = {}
        self.gaps: list[tuple[Gap, list[int]]] = []
        self.decided: list[Decided] = []
        gaps, pairs, self.far = self.work.meetings(most_bits)
        self.impossible = self.work.impossible
        if not self.impossible:
            self._write(gaps, pairs)

    def _write(self, gaps: list[Gap], pairs: list[Meeting]) -> None:
        for job in self.work.jobs:
            self._start(job)
        self._supply()
        for carried in self.work.carried:
            self._travel(carried)
        for gap in gaps:
            self._position(gap)
        for meeting in pairs:
            self._order(meeting)
        self._chain()

    def compiled(self) -> CompiledModel:
        """Return the model as a matrix."""
        return self.rows.model(self.makespan)

    # -- times -------------------------------------------------------------------------------------

    def _start(self, job: Job) -> None:
        rows = self.rows
        job.column = rows.column("start", self.clock.at(job.head), self.clock.at(job.latest))
        if job.length.keys() - {ONE}:
            rows.row("end", -inf, self.clock.at(job.last), *job.stop())

    def fixed(self, task: int) -> int:
        """Return the column of a fixed task's start; add it if there is none."""
        column = self.fixed_columns.get(task)
        if column is None:
            latest = self.ends[task] - self.ticks[task]
            low, high = self.clock.at(self.heads[task]), self.clock.at(latest)
            column = self.fixed_columns[task] = self.rows.column("fixed", low, high)
        return column

    def _begun(self, task: int) -> Part:
        """Return the start of an operator."""
        job = self.job_of.get(task)
        return 1.0, {self.fixed(task) if job is None else job.column: 1.0}

    def _stopped(self, task: int) -> tuple[Part, ...]:
        """Return minus the stop of a free operator or of a fixed task."""
        job = self.job_of.get(task)
        if job is not None:
            return job.stop(-1.0)
        return ((-1.0, {self.fixed(task): 1.0, ONE: self.ticks[task] / self.clock.unit}),)

    def _supply(self) -> None:
        """Add rows for readers after makers, with the longest journey between their placements."""
        delays: dict[tuple[int, int], dict[tuple[Spot, Spot], int]] = {}
        edges: dict[tuple[int, int], Edge] = {}
        for edge in self.scope.edges:
            ends = edge.maker, edge.reader
            edges[ends] = edge
            known = delays[ends] if ends in delays else dict.fromkeys(edge.legs, 0)
            delays[ends] = {
                pair: max([known[pair], *(leg.duration for leg in legs)])
                for pair, legs in edge.legs.items()
                if pair in known
            }
        for (maker, reader), table in delays.items():
            if self.ends[maker] + max(table.values(), default=0) <= self.heads[reader]:
                continue
            wait: dict[int, float] = {}
            for (made, read), ticks in table.items():
                if ticks:
                    column = self.placing.both(edges[maker, reader], made, read)
                    wait[column] = wait.get(column, 0.0) + ticks / self.clock.unit
            begun, stopped = self._begun(reader), self._stopped(maker)
            self.rows.at_least("supply", begun, *stopped, (-1.0, wait))

    def _travel(self, carried: Carried) -> None:
        """Add rows for a transfer after its maker, and for readers after the transfer."""
        job, rows = carried.job, self.rows
        if job.column < 0:
            return
        self._start(job)
        if self.ends[carried.maker] > job.head:
            rows.at_least("travel", (1.0, {job.column: 1.0}), *self._stopped(carried.maker))
        for edge, need in carried.needs.items():
            head = self.heads[edge.reader]
            if job.last <= head:
                continue
            ticks = job.last - head
            self._when("travel", ticks, [(1.0, need)], self._begun(edge.reader), *job.stop(-1.0))

    def _when(self, family: str, ticks: int, need: list[Part], *parts: Part) -> None:
        """Add ``sum of parts >= 0`` for where ``need`` is 1, with ``ticks`` as its big M."""
        if len(need) == 1 and need[0][1] == SURE:
            self.rows.at_least(family, *parts)
        else:
            big = ticks / self.clock.unit
            slack = ((-big * factor, terms) for factor, terms in need)
            self.rows.at_least(family, *parts, (big, SURE), *slack)

    # -- order -------------------------------------------------------------------------------------

    def _position(self, gap: Gap) -> None:
        """Add bits and rows for a job among the fixed tasks of a resource."""
        job, resource = gap.job, gap.resource
        lane, hold, rows = self.work.lane(resource), job.holds[resource], self.rows
        bits = [rows.bit("position") for _ in range(gap.low, gap.high)]
        self.gaps.append((gap, bits))
        if gap.low:
            self._follows(job, lane.tasks[gap.low - 1], [(1.0, hold)])
        if gap.high < len(lane.tasks):
            self._precedes(job, lane.tasks[gap.high], [(1.0, hold)])
        for k, bit in enumerate(bits):
            task = lane.tasks[gap.low + k]
            first = {bit: 1.0}
            self._precedes(job, task, [(1.0, first)])
            self._follows(job, task, [(1.0, hold), (-1.0, first)])
            above = {bits[k + 1]: 1.0} if k + 1 < len(bits) else hold
            if above != SURE:
                rows.at_least("position", (1.0, above), (-1.0, first))
        if bits:
            self._bounds(gap, bits)

    def _follows(self, job: Job, task: int, need: list[Part]) -> None:
        ticks = self.ends[task] - job.head
        if ticks > 0:
            stop = {self.fixed(task): 1.0, ONE: self.ticks[task] / self.clock.unit}
            self._when("order", ticks, need, (1.0, {job.column: 1.0}), (-1.0, stop))

    def _precedes(self, job: Job, task: int, need: list[Part]) -> None:
        ticks = job.last - self.heads[task]
        if ticks > 0:
            self._when("order", ticks, need, (1.0, {self.fixed(task): 1.0}), *job.stop(-1.0))

    def _bounds(self, gap: Gap, bits: list[int]) -> None:
        """Bound a job's times by heads of tasks before it and latest starts of those after it."""
        job, lane, hold = gap.job, self.work.lane(gap.resource), gap.job.holds[gap.resource]
        unit = self.clock.unit
        low: dict[int, float] = {}
        reached = job.head
        for k, bit in enumerate(bits):
            step = lane.stops[gap.low + k] - reached
            if step > 0:
                reached += step
                low[bit] = step / unit
        if low:
            parts = (-(reached - job.head) / unit, hold), (1.0, low)
            head = self.clock.at(job.head)
            self.rows.row("position", head, inf, (1.0, {job.column: 1.0}), *parts)
        high: dict[int, float] = {}
        reached = job.last
        for k in range(len(bits) - 1, -1, -1):
            step = reached - lane.latest[gap.low + k]
            if step > 0:
                reached -= step
                high[bits[k]] = step / unit
        if high:
            last = self.clock.at(job.last)
            self.rows.row("position", -inf, last, *job.stop(), (1.0, high))

    def _order(self, meeting: Meeting) -> None:
        """Add bits and rows for two jobs that may compete for resources."""
        one, other, common = meeting
        ahead = any(self._may(one, other, r) for r in common)
        behind = any(self._may(other, one, r) for r in common)
        if ahead and behind and apart(one, other.begun, other.done) > self.far:
            ahead = one.begun + one.done <= other.begun + other.done
            behind = not ahead
        same = [r for r in common if one.holds[r] == other.holds[r]]
        sure = any(one.holds[r] == SURE for r in same) or (
            isinstance(one.name, int)
            and len(same) == len(one.holds) == len(other.holds)
            and isinstance(other.name, int)
            and self.view.unit[one.name] == self.view.unit[other.name]
        )
        first: int | None
        if sure and ahead and behind:
            first = self.rows.bit("before")
            self._before(one, other, {first: 1.0})
            self._before(other, one, {ONE: 1.0, first: -1.0})
        elif sure:
            self.impossible = self.impossible or not (ahead or behind)
            first = ONE if ahead else None
            self._before(*((one, other) if ahead else (other, one)), SURE)
        else:
            first = self._unsure(meeting, ahead, behind)
        self.decided.append(Decided(one, other, first, common))

    def _unsure(self, meeting: Meeting, ahead: bool, behind: bool) -> int | None:
        """Add bits for two jobs that may also be on different resources; return the first bit."""
        one, other, common = meeting
        rows = self.rows
        first = rows.bit("before") if ahead else None
        second = rows.bit("before") if behind else None
        if first is not None:
            self._before(one, other, {first: 1.0})
        if second is not None:
            self._before(other, one, {second: 1.0})
        either = dict.fromkeys((bit for bit in (first, second) if bit is not None), 1.0)
        for r in common:
            mine, theirs = one.holds[r], other.holds[r]
            if mine == theirs:
                rows.at_least("order", (1.0, either), (-1.0, mine))
            else:
                rows.at_least("order", (1.0, either), (-1.0, mine), (-1.0, theirs), (1.0, SURE))
        if len(either) == 2:
            rows.row("order", -inf, 1.0, (1.0, either))
        return first

    @staticmethod
    def _may(one: Job, other: Job, resource: int) -> bool:
        """Return whether one job can be on a resource before another."""
        return one.head + one.lasts[resource] <= other.last - other.lasts[resource]

    def _before(self, one: Job, other: Job, bit: Terms) -> None:
        ticks = one.last - other.head
        if ticks > 0:
            parts = (1.0, {other.column: 1.0}), *one.stop(-1.0)
            self._when("order", ticks, [(1.0, bit)], *parts)

    # -- fixed tasks -------------------------------------------------------------------------------

    def _chain(self) -> None:
        """Add rows between fixed tasks that have a column, and from all tasks to the end."""
        timeline, scope, rows = self.timeline, self.scope, self.rows
        marked = sorted(self.fixed_columns, key=lambda task: int(timeline.place[task]))
        number = np.full(timeline.num_tasks, -1, np.int64)
        number[marked] = np.arange(len(marked))
        gap = np.full((len(marked), len(marked)), -1, np.int64)
        tail = np.zeros(len(marked), np.int64)
        contract(
            timeline.order, timeline.place, scope.state, scope.length, timeline.arcs,
            scope.touched, timeline.held, np.array(marked, dtype=np.int64), number, gap, tail,
            np.zeros(self.view.num_resources, np.int64),
        )  # fmt: skip
        heads = self.heads
        for a, b in np.argwhere(gap >= 0).tolist():
            one, other, ticks = marked[a], marked[b], int(gap[a, b])
            if self.ends[one] - self.ticks[one] + ticks > heads[other]:
                between = {self.fixed(other): 1.0, self.fixed(one): -1.0}
                rows.row("chain", ticks / self.clock.unit, inf, (1.0, between))
        for task, rest in zip(marked, tail.tolist(), strict=True):
            if self.ends[task] + rest > scope.least:
                left = {self.makespan: 1.0, self.fixed(task): -1.0}
                rows.row("end", (self.ticks[task] + rest) / self.clock.unit, inf, (1.0, left))
        for operator, job in zip(scope.free, self.work.jobs, strict=True):
            if not self.view.successors[operator] and job.last > scope.least:
                rows.at_least("end", (1.0, {self.makespan: 1.0}), *job.stop(-1.0))
