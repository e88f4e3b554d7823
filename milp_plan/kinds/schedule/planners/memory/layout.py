"""A plan in which operators run once, plus decisions about single reads.

A *place* is where a reader finds a value: (value, site, layout). A decision is about one reader at
one place: the value's producer runs again just before it, or the value is brought back from a host.
All else keeps the order it has in the plan. Readers of what was decided before are runs as well, so
decisions build on each other: a run again may have its own inputs made again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from milp_plan.core import FULL, OperatorRun, Option, Plan, PlanningProblem, Transfer
from milp_plan.core.schedule import transfer_resources
from milp_plan.cost.routes import routes

AGAIN, AWAY = "again", "away"
"""What is decided of a read: the producer runs again, or the value waits on a host."""

Place = tuple[str, tuple[str, ...], str]
"""Value, devices, layout."""

Decisions = Mapping[tuple[Place, int], str]
"""(Place, number of the reading run) -> :data:`AGAIN` or :data:`AWAY`."""

BASE = -1
"""Parent of runs that the plan has already."""


@dataclass(slots=True)
class Task:
    """A run or transfer to be timed.

    Parameters
    ----------
    made
        The run or transfer in a plan, without times.
    ticks, resources
        How long it takes; what a transfer holds.
    before
        Tasks that stop before it starts.
    anchor, lag
        Task that has started that many ticks before it starts; -1 for none.
    urgency
        Transfers that wait for one resource go in this order.
    number
        Number of a run (see :meth:`Base.number`); -1 for transfers.
    """

    made: OperatorRun | Transfer
    ticks: int
    resources: tuple[str, ...]
    before: list[int]
    anchor: int = -1
    lag: int = 0
    urgency: float = 0.0
    number: int = -1


@dataclass(slots=True)
class StoredCopy:
    """A copy, on each device of its place from its maker's start to its last reader's stop.

    One that ``stays`` is held to the end.
    """

    place: Place
    bytes: int
    maker: int
    readers: list[int] = field(default_factory=list)
    stays: bool = False

    @property
    def serves(self) -> bool:
        """Whether it is read, or stays as a result."""
        return self.stays or bool(self.readers)


class Base:
    """A plan to which decisions are added.

    Parameters
    ----------
    problem
        With hosts and recomputable operators.
    plan
        A plan with times, of the problem without decisions.
    """

    def __init__(self, problem: PlanningProblem, plan: Plan) -> None:
        self.problem, self.plan = problem, plan
        position = {name: i for i, name in enumerate(problem.graph.topological_order)}
        self.runs = sorted(
            plan.runs, key=lambda r: (r.start_ticks or 0, r.stop_ticks or 0, position[r.operator])
        )
        self.run = {run.operator: run for run in plan.runs}
        self.needs = {run.operator: self._needs(run) for run in self.runs}
        """Operator -> places of what it reads."""
        self.natives = {
            run.operator: [
                (v.name, run.devices, self._option(run).layout_written(v.name))
                for v in problem.graph.outputs[run.operator]
            ]
            for run in self.runs
        }
        self.sends: dict[str, list[Transfer]] = {}
        for trip in plan.transfers:
            producer = problem.graph.value(trip.value).producer
            self.sends.setdefault(str(producer), []).append(trip)
        self.turns = self._turns()
        """Pairs of transfers that hold the same channel or port one after the other."""
        self.wanted: dict[Place, int] = {}
        """Place -> when it is first read in the plan."""
        for run in reversed(self.runs):
            for place in self.needs[run.operator]:
                self.wanted[place] = run.start_ticks or 0
        self.ticks = {
            run.operator: (run.stop_ticks or 0) - (run.start_ticks or 0) for run in self.runs
        }
        self.host = next(iter(sorted(problem.cluster.hosts)), None)
        self._numbers: dict[tuple[str, int], int] = {}
        self.parents: list[tuple[str, int]] = []
        for run in self.runs:
            self.number(run.operator, BASE)

    def _turns(self) -> list[tuple[Place, Place]]:
        rows: dict[str, list[Transfer]] = {}
        for trip in sorted(
            self.plan.transfers, key=lambda t: (t.start_ticks or 0, t.stop_ticks or 0)
        ):
            for name in transfer_resources(self.problem.cluster, trip.source, trip.target):
                rows.setdefault(name, []).append(trip)
        pairs = [pair for row in rows.values() for pair in pairwise(row)]
        return [((a.value, a.target, a.layout), (b.value, b.target, b.layout)) for a, b in pairs]

    def number(self, operator: str, parent: int) -> int:
        """Return the number of the run of an operator that the run ``parent`` calls for."""
        key = operator, parent
        if key not in self._numbers:
            self._numbers[key] = len(self.parents)
            self.parents.append(key)
        return self._numbers[key]

    def _option(self, run: OperatorRun) -> Option:
        return self.problem.graph.operator(run.operator).option(run.option)

    def _needs(self, run: OperatorRun) -> list[Place]:
        result: list[Place] = []
        for value in self.problem.graph.inputs[run.operator]:
            if value.producer is None:
                continue
            maker = self.run[value.producer]
            ways = routes(self.problem, value, maker.placement, run.operator, run.placement)
            assert ways is not None
            result += [way.key for way in ways]
            layout = self._option(maker).layout_written(value.name)
            if not ways or (layout == FULL and set(run.devices) & set(maker.devices)):
                result.append((value.name, maker.devices, layout))
        return result

    @cached_property
    def workspace_bytes(self) -> dict[str, int]:
        """Bytes of the workspace of each operator that has one."""
        result = {run.operator: self._option(run).workspace_bytes for run in self.runs}
        return {operator: size for operator, size in result.items() if size}

    @cached_property
    def persistent_bytes(self) -> dict[str, int]:
        """Bytes of persistent values on every device; runs again lie where the first ones do."""
        problem = self.problem
        result = dict.fromkeys(problem.cluster.device_names, 0)
        lying: set[tuple[str, str, str]] = set()
        for run in self.runs:
            option = self._option(run)
            for value in problem.graph.inputs[run.operator]:
                read = option.layout_read(value.name)
                for device in run.devices:
                    if value.producer is None and (value.name, device, read) not in lying:
                        lying.add((value.name, device, read))
                        result[device] += value.bytes[read]
        return result

    def may_run_again(self, place: Place) -> bool:
        """Return whether the value of a place can be made there again."""
        producer = str(self.problem.graph.value(place[0]).producer)
        again = self.problem.graph.operator(producer).recomputable
        return again and place in self.natives[producer]

    def may_wait(self, place: Place) -> bool:
        """Return whether the value of a place can be brought there from the host."""
        name, site, layout = place
        if self.host is None or layout != FULL or len(site) != 1:
            return False
        maker = self.run[str(self.problem.graph.value(name).producer)]
        native = self._option(maker).layout_written(name)
        return (
            native == FULL
            and self.trip_ticks(name, maker.devices[0], self.host) is not None
            and self.trip_ticks(name, self.host, site[0]) is not None
        )

    def trip_ticks(self, name: str, source: str, target: str) -> int | None:
        """Return the ticks of a send; ``None`` without a channel."""
        value, channel = (
            self.problem.graph.value(name),
            self.problem.cluster.channel(source, target),
        )
        return (
            None if channel is None else channel.transfer_ticks(value.payload(FULL), value.messages)
        )


class Layout:
    """Tasks and copies that follow from a base and decisions; see the module."""

    def __init__(self, base: Base, decisions: Decisions) -> None:
        self.base, self.decisions = base, decisions
        self.tasks: list[Task] = []
        self.copies: list[StoredCopy] = []
        self.of_place: dict[Place, list[int]] = {}
        """Place -> its copies, in order."""
        self._last: dict[str, int] = {}
        self._rows: dict[str, list[int]] = {}
        self._out: dict[str, int] = {}
        self._made: set[int] = set()
        self._sent: dict[Place, int] = {}
        self._reloads: list[int] = []
        for run in base.runs:
            self._run(base.number(run.operator, BASE), run)
        for first, then in base.turns:
            self.tasks[self._sent[then]].before.append(self._sent[first])
        for places in base.natives.values():
            for place in places:
                if base.problem.graph.value(place[0]).is_kept:
                    self.copies[self.of_place[place][-1]].stays = True

    def _run(self, number: int, run: OperatorRun) -> None:
        base, operator = self.base, run.operator
        self._made.add(number)
        for place in base.needs[operator]:
            decided = self.decisions.get((place, number))
            if decided == AGAIN:
                producer = str(base.problem.graph.value(place[0]).producer)
                again = base.number(producer, number)
                if again not in self._made:
                    self._run(again, base.run[producer])
            elif decided == AWAY:
                self._bring(place, run.start_ticks or 0)
        task = self._add(Task(run, base.ticks[operator], (), [], number=number))
        for device in run.devices:
            if device in self._last:
                self.tasks[task].before.append(self._last[device])
            self._last[device] = task
            self._rows.setdefault(device, []).append(task)
        for place in base.needs[operator]:
            self._read(self.copies[self.of_place[place][-1]], task)
        for place in base.natives[operator]:
            self._leave(place, task)
        if base.parents[number][1] == BASE:
            for trip in base.sends.get(operator, ()):
                self._send(trip)

    def _add(self, task: Task) -> int:
        self.tasks.append(task)
        return len(self.tasks) - 1

    def _leave(self, place: Place, maker: int) -> None:
        size = self.base.problem.graph.value(place[0]).bytes[place[2]]
        self.of_place.setdefault(place, []).append(len(self.copies))
        self.copies.append(StoredCopy(place, size, maker))

    def _read(self, copy: StoredCopy, reader: int) -> None:
        copy.readers.append(reader)
        self.tasks[reader].before.append(copy.maker)

    def _send(self, trip: Transfer) -> None:
        place = (trip.value, trip.target, trip.layout)
        ticks = (trip.stop_ticks or 0) - (trip.start_ticks or 0)
        native, wanted = self._native(trip.value), self.base.wanted.get(place, 0)
        self._sent[place] = self._travel(trip, ticks, native, wanted)
        self._leave(place, len(self.tasks) - 1)

    def _native(self, name: str) -> StoredCopy:
        producer = str(self.base.problem.graph.value(name).producer)
        place = next(place for place in self.base.natives[producer] if place[0] == name)
        return self.copies[self.of_place[place][0]]

    def _travel(self, trip: Transfer, ticks: int, copy: StoredCopy, urgency: float) -> int:
        held = transfer_resources(self.base.problem.cluster, trip.source, trip.target)
        task = self._add(Task(trip, ticks, held, [], urgency=urgency))
        self._read(copy, task)
        return task

    def _bring(self, place: Place, urgency: int) -> None:
        """Bring a value from the host, where it went when it was made.

        It is not there before those are done that read the copy before it: whoever starts later
        would read this one, and the other would be for nobody.
        """
        base, name, host = self.base, place[0], str(self.base.host)
        if name not in self._out:
            native = self._native(name)
            source = native.place[1][0]
            ticks = base.trip_ticks(name, source, host) or 0
            trip = Transfer(name, (source,), (host,), FULL)
            task = self._travel(trip, ticks, native, base.wanted.get(place, 0))
            self._out[name] = len(self.copies)
            self._leave((name, (host,), FULL), task)
        trip = Transfer(name, (host,), place[1], FULL)
        ticks = base.trip_ticks(name, host, place[1][0]) or 0
        task = self._travel(trip, ticks, self.copies[self._out[name]], urgency)
        for former in self.of_place.get(place, ())[-1:]:
            readers = self.copies[former].readers
            self.tasks[task].before += [r for r in readers if self.tasks[r].number >= 0]
        self._reloads.append(len(self.copies))
        self._leave(place, task)

    @cached_property
    def wasteful(self) -> bool:
        """Whether a transfer is for nobody, or a run of an operator that has several."""
        used = {copy.maker for copy in self.copies if copy.serves}
        if any(self.copies[number].maker not in used for number in self._reloads):
            return True
        again = {self.base.parents[number][0] for number in self._made}
        if len(again) == len(self._made):
            return False
        runs = Counter(self.base.parents[number][0] for number in self._made)
        several = {name for name, times in runs.items() if times > 1}
        return any(
            self.base.parents[task.number][0] in several and number not in used
            for number, task in enumerate(self.tasks)
            if task.number >= 0
        )

    def bring_late(self, start: list[int]) -> None:
        """Delay reloads until just before their readers, by known starts of all tasks.

        On each device from the last reader back: a reload ends where its reader or the next
        reload begins. It is tied to the task of the device that has started last by then.
        """
        of_device: dict[str, list[tuple[int, int]]] = {}
        for number in self._reloads:
            copy = self.copies[number]
            if copy.readers:
                of_device.setdefault(copy.place[1][0], []).append((copy.maker, min(copy.readers)))
        for device, trips in of_device.items():
            row = self._rows[device]
            begins = [start[task] for task in row]
            free = begins[-1]
            for trip, reader in sorted(trips, key=lambda pair: -start[pair[1]]):
                free = min(free, start[reader]) - self.tasks[trip].ticks
                at = bisect_right(begins, free) - 1
                while at >= 0 and row[at] >= reader:
                    at -= 1
                if at >= 0:
                    self.tasks[trip].anchor = row[at]
                    self.tasks[trip].lag = free - begins[at]
