"""The jobs of a window: free operators, their transfers, and conflicts on resources."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from ..planners.indexed import Leg, Spot
from .jobs import Carried, Gap, Job, Lane, Meeting, Name, apart
from .placing import Placing
from .rows import SURE, Clock, Rows, Terms, total
from .scope import FIXED, Edge, Scope
from .timeline import Key

Copy = dict[Spot, tuple[Leg, dict[Edge, Terms]]]
"""Placement of the maker -> how a copy leaves from there, and where each reader needs it."""


class Work:
    """Jobs of an open window.

    Parameters
    ----------
    rows, placing, clock
        The model, its placement columns, and its unit of time.
    scope
        The window.

    Attributes
    ----------
    jobs, carried
        Free operators, and transfers of what they make or read.
    impossible
        Whether a job has no position on a resource.
    """

    def __init__(self, rows: Rows, placing: Placing, clock: Clock, scope: Scope) -> None:
        self.rows, self.placing, self.clock, self.scope = rows, placing, clock, scope
        self.timeline, self.view = scope.timeline, scope.view
        self.heads, self.ticks = scope.head.tolist(), scope.length.tolist()
        self.ends = (scope.horizon - scope.tail).tolist()
        self.before, self.after = scope.masks()
        self.impossible = False
        self._lanes: dict[int, Lane] = {}
        self.jobs = [self._operator(operator) for operator in scope.free]
        self.carried: list[Carried] = []
        if self.view.num_resources > self.view.num_devices:
            for value in scope.values:
                self.carried += self._transfers(value)

    @property
    def everything(self) -> list[Job]:
        """All jobs: operators and transfers."""
        return [*self.jobs, *(carried.job for carried in self.carried)]

    def _operator(self, operator: int) -> Job:
        spots = self.scope.spots[operator]
        holds: dict[int, Terms] = {}
        lasts: dict[int, int] = {}
        for spot in spots:
            where = {self.placing.column(operator, spot): 1.0}
            for device in spot.devices:
                holds[device] = total((1.0, holds.get(device, {})), (1.0, where))
                lasts[device] = min(spot.duration, lasts.get(device, spot.duration))
        length = total(
            *(
                (spot.duration / self.clock.unit, {self.placing.column(operator, spot): 1.0})
                for spot in spots
            )
        )
        last = self.ends[operator]
        masks = self.before[operator], self.after[operator]
        ticks = self.ticks[operator]
        times = self._interval(operator)
        return Job(
            operator, self.heads[operator], last, ticks, length, holds, lasts, *masks, *times
        )

    def _interval(self, task: int) -> tuple[int, int]:
        begun = int(self.timeline.start[task])
        return begun, begun + int(self.timeline.length[task])

    def _transfers(self, value: int) -> list[Carried]:
        """Return the transfers that may carry a touched value."""
        edges = [edge for edge in self.scope.edges if edge.value == value]
        if len(edges) == 1 and all(len(legs) <= 1 for legs in edges[0].legs.values()):
            edge = edges[0]
            uses = [
                ({self.placing.both(edge, *pair): 1.0}, leg)
                for pair, legs in edge.legs.items()
                for leg in legs
            ]
            return [self._carried((value, edge.reader), uses, {edge: SURE})] if uses else []
        copies: dict[Key, Copy] = {}
        for edge in edges:
            for (made, read), legs in edge.legs.items():
                column = self.placing.both(edge, made, read)
                for leg in legs:
                    copy = copies.setdefault((value, leg.target, leg.layout), {})
                    calls = copy.setdefault(made, (leg, {}))[1]
                    calls[edge] = total((1.0, calls.get(edge, {})), (1.0, {column: 1.0}))
        return [self._shared(key, copy) for key, copy in copies.items()]

    def _shared(self, key: Key, copy: Copy) -> Carried:
        """Return a copy that several readers may need."""
        uses: list[tuple[Terms, Leg]] = []
        needs: dict[Edge, Terms] = {}
        several = len({edge for _, calls in copy.values() for edge in calls}) > 1
        for made, (leg, calls) in copy.items():
            for edge, terms in calls.items():
                needs[edge] = total((1.0, needs.get(edge, {})), (1.0, terms))
            maker = next(iter(calls)).maker
            whole = {self.placing.column(maker, made): 1.0}
            needed = list(calls.values())
            if not several:
                uses.append((needed[0], leg))
            elif whole in needed:
                uses.append((whole, leg))
            else:
                use = self.rows.column("use", 0.0, 1.0)
                for terms in needed:
                    self.rows.at_least("use", (1.0, {use: 1.0}), (-1.0, terms))
                uses.append(({use: 1.0}, leg))
        if not several:
            needs = dict.fromkeys(needs, SURE)
        return self._carried(key, uses, needs)

    def _carried(
        self, name: Name, uses: Sequence[tuple[Terms, Leg]], needs: Mapping[Edge, Terms]
    ) -> Carried:
        holds: dict[int, Terms] = {}
        lasts: dict[int, int] = {}
        for terms, leg in uses:
            for resource in leg.resources:
                holds[resource] = total((1.0, holds.get(resource, {})), (1.0, terms))
                lasts[resource] = min(leg.duration, lasts.get(resource, leg.duration))
        length = total(*((leg.duration / self.clock.unit, terms) for terms, leg in uses))
        maker = next(iter(needs)).maker
        readers = [edge.reader for edge in needs]
        latest = [self.ends[r] - self.ticks[r] for r in readers]
        after = -1
        for reader in readers:
            after &= self.after[reader]
        head = self.heads[maker] + self.ticks[maker]
        masks = self.before[maker], after
        ticks = uses[0][1].duration if [terms for terms, _ in uses] == [SURE] else 0
        times = (self._interval(maker)[1],) * 2
        known = self._copy_in_plan(name)
        if known is not None:
            times = self._interval(known)
        job = Job(name, head, max(latest), ticks, length, holds, lasts, *masks, *times)
        return Carried(job, maker, dict(needs))

    def _copy_in_plan(self, name: Name) -> int | None:
        """Return the plan's transfer that a job stands for, if there is one."""
        assert not isinstance(name, int)
        n = self.view.num_operators
        for task in self.timeline.touching[name[0]]:
            reader, key = name[1], self.timeline.journeys[task - n].key
            if key == name or (
                isinstance(reader, int) and reader in self.timeline.readers[task - n]
            ):
                return task
        return None

    # -- conflicts on resources --------------------------------------------------------------------

    def meetings(self, most_bits: int) -> tuple[list[Gap], list[Meeting], int]:
        """Return gaps and pairs to decide, and the distance beyond which their order is fixed.

        Jobs in none of them need no start; the others get a column other than -1.
        """
        jobs = self.everything
        gaps = [gap for job in jobs for resource in job.holds if (gap := self._gap(job, resource))]
        there: dict[int, list[int]] = {}
        for number, job in enumerate(jobs):
            for resource in job.holds:
                there.setdefault(resource, []).append(number)
        common: dict[tuple[int, int], list[int]] = {}
        for resource, numbers in there.items():
            for pair in combinations(numbers, 2):
                common.setdefault(pair, []).append(resource)
        pairs = []
        for (one, other), resources in sorted(common.items()):
            a, b = jobs[one], jobs[other]
            if a.after & b.before or b.after & a.before:
                continue
            if a.last > b.head and b.last > a.head:
                pairs.append((a, b, tuple(resources)))
        far = self._threshold(gaps, pairs, most_bits)
        gaps = [gap.near(self.lane(gap.resource), far) for gap in gaps]
        for gap in gaps:
            gap.job.column = 0
        for a, b, _ in pairs:
            a.column = b.column = 0
        return gaps, pairs, far

    def _threshold(self, gaps: list[Gap], pairs: list[Meeting], most_bits: int) -> int:
        """Return the distance in ticks beyond which two tasks keep the plan's order."""
        far = [apart(a, b.begun, b.done) for a, b, _ in pairs]
        for gap in gaps:
            lane = self.lane(gap.resource)
            begun, done = lane.begun[gap.low : gap.high], lane.done[gap.low : gap.high]
            far += [apart(gap.job, *times) for times in zip(begun, done, strict=True)]
        if len(far) <= most_bits:
            return self.scope.horizon + self.timeline.makespan
        return int(np.partition(far, most_bits)[most_bits])

    def lane(self, resource: int) -> Lane:
        """Return the fixed tasks of a resource."""
        lane = self._lanes.get(resource)
        if lane is None:
            state = self.scope.state
            tasks = [task for task in self.timeline.chains[resource] if state[task] == FIXED]
            stops = [self.heads[task] + self.ticks[task] for task in tasks]
            latest = [self.ends[task] - self.ticks[task] for task in tasks]
            begun, length = self.timeline.start, self.timeline.length
            starts = [int(begun[task]) for task in tasks]
            ends = [int(begun[task] + length[task]) for task in tasks]
            lane = self._lanes[resource] = Lane(tasks, stops, latest, starts, ends)
        return lane

    def _gap(self, job: Job, resource: int) -> Gap | None:
        """Return the positions of a job on a resource; ``None`` where no fixed task conflicts."""
        lane, least = self.lane(resource), job.lasts[resource]
        low = bisect_left(lane.latest, job.head + least)
        high = bisect_right(lane.stops, job.last - least)
        for k in range(low, high):
            if job.after & self.before[lane.tasks[k]]:
                high = k
                break
        for k in range(high - 1, low - 1, -1):
            if job.before & self.after[lane.tasks[k]]:
                low = k + 1
                break
        if low > high:  # a task that the job can neither precede nor follow
            self.rows.at_least("never", (-1.0, job.holds[resource]))
            self.impossible = self.impossible or job.holds[resource] == SURE
            return None
        behind = low and self.ends[lane.tasks[low - 1]] > job.head
        ahead = high < len(lane.tasks) and self.heads[lane.tasks[high]] < job.last
        return Gap(job, resource, low, high) if behind or ahead or low < high else None
