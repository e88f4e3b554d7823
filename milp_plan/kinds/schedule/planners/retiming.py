"""New times for a plan's orders: options, devices and sources stay.

Tasks keep their order on every device, channel and port. Where memory asks for more, what had left
a memory before something came to it still does: then whatever lies there at one instant lay there
at one instant of the old plan (intervals that overlap in pairs have a point in common), and limits
hold as long as sizes are what they were and nothing lasts no time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from milp_plan.core import FULL, OperatorRun, Option, Placement, Plan, PlanningProblem, Transfer
from milp_plan.core.schedule import transfer_resources
from milp_plan.cost.routes import route_between, routes
from milp_plan.lp.network import Network

Key = tuple[float, float, int, int]


@dataclass(slots=True)
class _Run:
    """A run, its option, its place in the old plan (start, stop, ...) and its task."""

    made: OperatorRun
    option: Option
    key: Key
    ticks: int
    task: int = -1


@dataclass(slots=True)
class _Trip:
    """A transfer, its place in the old plan, its task, and who needs it (where that is known)."""

    made: Transfer
    key: Key
    ticks: int
    task: int = -1
    readers: list[str] = field(default_factory=list)


class Retiming:
    """A plan of a problem whose times may be another problem's, or missing.

    Parameters
    ----------
    problem
        The problem that the new plan is for.
    plan
        It names only what the problem has, and every operator.
    """

    def __init__(self, problem: PlanningProblem, plan: Plan) -> None:
        self.problem, self.plan = problem, plan
        self.timed = plan.has_schedule
        self.several = len(plan.runs) > len({run.operator for run in plan.runs})
        hosts = problem.cluster.hosts
        self.waits = any(hosts & {*trip.source, *trip.target} for trip in plan.transfers)
        self.sound = True
        self.runs = [self._run(number, run) for number, run in enumerate(plan.runs)]
        self.placed = self.sound
        self.trips = list(self._trips()) if self.sound else []

    def earliest(self, *, memory: bool) -> Plan | None:
        """Return the plan in which everything starts as early as its orders allow.

        ``None`` where a run or a transfer is not possible at all.

        Parameters
        ----------
        memory
            Whether what had left a memory before something came to it still does.
        """
        if not self.sound:
            return None
        network = Network()
        for run in self.runs:
            run.task = network.add(run.key, run.ticks, run.made.devices)
        for trip in self.trips:
            held = transfer_resources(self.problem.cluster, trip.made.source, trip.made.target)
            trip.task = network.add(trip.key, trip.ticks, held)
        for before, after in self._reads():
            network.precede(before, after)
        if memory:
            for before, after in self._releases():
                network.precede(before, after)
        starts = network.starts()
        return None if starts is None else self._plan(starts)

    @property
    def order(self) -> list[str]:
        """Operators in the order of the plan, made to fit precedence."""
        position: dict[str, int] = {}
        for run in sorted(self.runs, key=lambda run: run.key):
            position.setdefault(run.made.operator, len(position))
        network = Network()
        numbers = {name: network.add(place, 1, ("all",)) for name, place in position.items()}
        for name, followers in self.problem.graph.successors.items():
            for follower in followers:
                network.precede(numbers[name], numbers[follower])
        starts = network.starts() or []
        return sorted(numbers, key=lambda name: starts[numbers[name]])

    @property
    def placements(self) -> dict[str, Placement]:
        """Where each operator runs first."""
        return {run.operator: run.placement for run in reversed(self.plan.runs)}

    def different(self, made: Plan) -> int:
        """Return the durations of the old plan that are others now."""
        old = Counter(_spans(self.plan))
        return (Counter(_spans(made)) - old).total()

    # -- tasks -------------------------------------------------------------------------------------

    def _run(self, number: int, run: OperatorRun) -> _Run:
        option = self.problem.graph.operator(run.operator).option(run.option)
        classes = [self.problem.cluster.device(name).device_class for name in run.devices]
        if not set(classes) <= set(option.duration_ticks) or not classes:
            self.sound = False
            return _Run(run, option, (0, 0, 1, number), 0)
        ticks = max(option.duration_ticks[name] for name in classes)
        return _Run(run, option, self._key(run, 1, number), ticks)

    def _key(self, entry: OperatorRun | Transfer, sort: int, number: int) -> Key:
        if self.timed and entry.start_ticks is not None and entry.stop_ticks is not None:
            return (entry.start_ticks, entry.stop_ticks, sort, number)
        return (number, number, sort, number)

    def _trips(self) -> Iterator[_Trip]:
        if self.problem.serial is not None:
            return
        if self.several or self.waits:
            yield from self._listed()
        else:
            yield from self._needed()

    def _needed(self) -> Iterator[_Trip]:
        """Transfers that placements call for; source and order as the plan has them, if it does."""
        known = {(t.value, t.target, t.layout): (n, t) for n, t in enumerate(self.plan.transfers)}
        of = {run.made.operator: run for run in self.runs}
        result: dict[tuple[str, tuple[str, ...], str], _Trip] = {}
        for value in self.problem.graph.values:
            for reader in value.consumers if value.producer is not None else ():
                maker, user = of[str(value.producer)], of[reader]
                made = maker.made.placement
                ways = routes(self.problem, value, made, reader, user.made.placement)
                if ways is None:
                    self.sound = False
                    return
                for way in ways:
                    number, old = known.get(way.key, (len(known), None))
                    trip = Transfer(value.name, way.source, way.target, way.layout)
                    ticks = way.duration_ticks
                    if old is not None and len(way.source) == 1 and len(old.source) == 1:
                        other = self._ticks(value.name, old)
                        if old.source[0] in made.devices and other is not None:
                            trip, ticks = replace(trip, source=old.source), other
                    timed = old is not None and old.start_ticks is not None and self.timed
                    key = self._key(old, 0, number) if old and timed else (*user.key[:2], 0, number)
                    readers = result[way.key].readers if way.key in result else []
                    if way.key not in result or (not timed and key < result[way.key].key):
                        result[way.key] = _Trip(trip, key, ticks, readers=readers)
                    readers.append(reader)
        yield from result.values()

    def _listed(self) -> Iterator[_Trip]:
        """Yield the transfers of the plan, where values are made again or wait on a host."""
        for number, trip in enumerate(self.plan.transfers):
            ticks = self._ticks(trip.value, trip)
            if ticks is None or not self.timed:
                self.sound = False
                return
            yield _Trip(trip, self._key(trip, 0, number), ticks)

    def _ticks(self, name: str, trip: Transfer) -> int | None:
        value = self.problem.graph.value(name)
        if len(trip.source) == len(trip.target) == 1 and trip.layout == FULL:
            channel = self.problem.cluster.channel(trip.source[0], trip.target[0])
            if channel is not None:
                return channel.transfer_ticks(value.payload(FULL), value.messages)
        made = [run for run in self.runs if run.made.operator == value.producer]
        for run in made:
            if run.made.devices == trip.source:
                here = (trip.source, run.option.layout_written(name))
                ways = route_between(self.problem, value, here, (trip.target, trip.layout))
                if ways is not None and len(ways) == 1:
                    return ways[0].duration_ticks
        return None

    # -- what precedes what ------------------------------------------------------------------------

    def _reads(self) -> Iterator[tuple[int, int]]:
        """(task that makes a copy, task that reads one like it)."""
        runs: dict[str, list[_Run]] = defaultdict(list)
        for run in self.runs:
            runs[run.made.operator].append(run)
        trips: dict[str, list[_Trip]] = defaultdict(list)
        for trip in self.trips:
            trips[trip.made.value].append(trip)
        for value in self.problem.graph.values:
            makers, sent = runs.get(value.producer or "", []), trips[value.name]
            readers = [run for name in value.consumers for run in runs[name]]
            for maker, reader in chain(
                self._sent(makers, sent),
                ((maker, reader) for maker in makers for reader in readers),
                ((t, reader) for t in sent for reader in readers if self._brings(t, reader)),
            ):
                if self._follows(maker, reader):
                    yield maker.task, reader.task

    def _sent(
        self, makers: Sequence[_Run], sent: Sequence[_Trip]
    ) -> Iterator[tuple[_Run | _Trip, _Run | _Trip]]:
        """Transfers with what may have made what they bring: runs, or what went to the host."""
        hosts = self.problem.cluster.hosts
        for trip in sent:
            back = bool(hosts & set(trip.made.source))
            away = [other for other in sent if hosts & set(other.made.target)]
            yield from ((maker, trip) for maker in (away if back else makers))

    def _follows(self, maker: _Run | _Trip, reader: _Run | _Trip) -> bool:
        """Whether a copy was complete before its reader began; with one copy it has to be."""
        if not (self.several or self.waits):
            return True
        return maker.key[1] <= reader.key[0]

    def _brings(self, trip: _Trip, reader: _Run) -> bool:
        """Return whether a run may read what a transfer brings."""
        if trip.readers:
            return reader.made.operator in trip.readers
        return bool(set(trip.made.target) & set(reader.made.devices))

    def _releases(self) -> Iterator[tuple[int, int]]:
        """(task that was the last to hold something in a memory, task that came there later).

        Runs of a device follow each other anyway: of what had left before something came, the last
        run counts, and transfers that had not stopped when it started.
        """
        limited = [d.name for d in self.problem.cluster.devices if d.memory_bytes is not None]
        for device in limited if self.timed else ():
            runs = [run for run in self.runs if device in run.made.devices]
            trips = [t for t in self.trips if device in (*t.made.source, *t.made.target)]
            runs.sort(key=lambda run: run.key[1])
            trips.sort(key=lambda trip: trip.key[1])
            stops, ends = [run.key[1] for run in runs], [trip.key[1] for trip in trips]
            comes: list[_Run | _Trip] = [*runs, *(t for t in trips if device in t.made.target)]
            for later in comes:
                place = bisect_right(stops, later.key[0])
                former = runs[place - 1] if place else None
                least = 0 if former is None else bisect_right(ends, former.key[0])
                left: list[_Run | _Trip] = [*trips[least : bisect_right(ends, later.key[0])]]
                for earlier in left if former is None else [former, *left]:
                    if earlier.key < later.key:
                        yield earlier.task, later.task

    def _plan(self, starts: list[int]) -> Plan:
        runs = tuple(
            replace(
                run.made,
                start_ticks=starts[run.task],
                stop_ticks=starts[run.task] + run.ticks,
                call=None,
            )
            for run in self.runs
        )
        trips = tuple(
            replace(t.made, start_ticks=starts[t.task], stop_ticks=starts[t.task] + t.ticks)
            for t in self.trips
        )
        return Plan(self.problem.name, runs, trips, planner=self.plan.planner)


def _spans(plan: Plan) -> Iterator[tuple[object, ...]]:
    """Each run and transfer with how long it takes."""
    for run in plan.runs:
        yield run.operator, run.option, run.devices, (run.stop_ticks or 0) - (run.start_ticks or 0)
    for trip in plan.transfers:
        ticks = (trip.stop_ticks or 0) - (trip.start_ticks or 0)
        yield trip.value, trip.source, trip.target, trip.layout, ticks
