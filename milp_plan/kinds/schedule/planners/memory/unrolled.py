"""A plan's repeated runs and journeys as operators of their own, which any planner can place.

Which operators run again, which values come back from a host, and who reads what is taken from a
plan. What is left, where and when everything runs, is a problem in which each operator runs once. A
run again is an operator with the options and the group of the first; a journey from the host is an
operator without duration that only the host can run. Each waits for *signals*, values of no bytes,
from what came before it in the plan: a list schedule would run it at once and save nothing.

Why a plan of this problem is one of the original. Take the *versions* of a value in the order in
which the given plan completed them: runs of its producer and journeys. Each reader, journeys among
them, sends a signal to whatever makes a later version, so it has stopped before that begins, and
with it every transfer made for it. So wherever a reader looks, the copy completed last before it
starts is of its own version: earlier ones were complete before theirs began, later ones have not
begun. Sites, transfers and workspaces are the same in both; signals hold nothing; a store on the
host lasts no time and passes on what lies there. All journeys of a value carry one version, so
there is no other copy of it on a host.

Why there is no circle: along an input the first stops before the second starts, in the given plan,
and whoever sends a signal starts before its receiver stops. Around a circle of these, a start would
lie before itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from milp_plan.core import (
    FULL,
    ComputationGraph,
    Operator,
    OperatorRun,
    Option,
    Plan,
    PlanningProblem,
    Transfer,
    Value,
)

MARK = "~"
"""Between the name of an operator or value and the number of its run."""


class _Copy(NamedTuple):
    """A copy in the plan that is read; ``source`` is the number of the event it stems from."""

    devices: tuple[str, ...]
    layout: str
    begun: int
    done: int
    source: int


@dataclass(slots=True)
class _Event:
    """A run, or a journey from a host; ``reads``: value -> number of the event it is read from."""

    made: OperatorRun | Transfer
    name: str
    reads: dict[str, int] = field(default_factory=dict)

    @property
    def start(self) -> int:
        return self.made.start_ticks or 0

    @property
    def stop(self) -> int:
        return self.made.stop_ticks or 0


class Unrolled:
    """The problem in which the decisions of a plan are operators.

    Parameters
    ----------
    problem
        With operators that may run again, or hosts.
    plan
        With times. Of this problem, or of one with other devices and the same hosts.

    Attributes
    ----------
    problem
        Each operator runs once; ``None`` where the plan has no such problem: a reader reads copies
        of several versions, a value's journeys carry several, or nobody reads a version.
    at_home
        Whether the plan's devices are the problem's.
    """

    def __init__(self, problem: PlanningProblem, plan: Plan) -> None:
        self.original = problem
        self.given = plan
        used = {name for run in plan.runs for name in run.devices}
        self.at_home = used <= set(problem.cluster.device_names)
        position = {name: n for n, name in enumerate(problem.graph.topological_order)}
        runs = sorted(plan.runs, key=lambda r: (r.start_ticks, r.stop_ticks, position[r.operator]))
        hosts = problem.cluster.hosts
        trips = (trip for trip in plan.transfers if set(trip.source) & hosts)
        made: list[OperatorRun | Transfer] = [*runs, *trips]
        made.sort(key=lambda one: (one.start_ticks or 0, one.stop_ticks or 0))
        self._events = list(_named(made))
        self._number = {event.name: number for number, event in enumerate(self._events)}
        self._versions = self._versions_of()
        self._readers: dict[tuple[str, int], list[int]] = {}
        self.problem = self._problem() if self._read() else None

    def _makes(self, event: _Event) -> tuple[Value, ...]:
        graph = self.original.graph
        if isinstance(event.made, OperatorRun):
            return graph.outputs[event.made.operator]
        return (graph.value(event.made.value),)

    def _versions_of(self) -> dict[str, list[int]]:
        """Return value -> events that make it, in the order in which they were completed."""
        result: dict[str, list[int]] = {}
        for number in sorted(range(len(self._events)), key=self._end_of):
            for value in self._makes(self._events[number]):
                result.setdefault(value.name, []).append(number)
        return result

    # -- who reads what ----------------------------------------------------------------------------

    def _read(self) -> bool:
        """Find which version each event reads; whether all of them can be distinguished."""
        copies = self._copies()
        for number, event in enumerate(self._events):
            for name, layout, site in self._looks(event):
                sources = self._sources(copies[name], event, (site, layout))
                if len(sources) != 1:
                    return False
                source = self._latest(event, name, sources.pop())
                if source is None:
                    return False
                event.reads[name] = source
                self._readers.setdefault((name, source), []).append(number)
        return self._all_are_read() and self._one_on_hosts()

    def _looks(self, event: _Event) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Yield the values, layouts and places that an event reads."""
        graph = self.original.graph
        if isinstance(event.made, Transfer):
            yield event.made.value, FULL, event.made.source
            return
        option = graph.operator(event.made.operator).option(event.made.option)
        for value in graph.inputs[event.made.operator]:
            if value.producer is not None:
                yield value.name, option.layout_read(value.name), event.made.devices

    def _copies(self) -> dict[str, list[_Copy]]:
        """Return value -> its copies, those made by transfers behind those they are made from."""
        graph, hosts = self.original.graph, self.original.cluster.hosts
        result: dict[str, list[_Copy]] = {name: [] for name in self._versions}
        for number, event in enumerate(self._events):
            for value in self._makes(event):
                if isinstance(event.made, OperatorRun):
                    option = graph.operator(event.made.operator).option(event.made.option)
                    site, layout = event.made.devices, option.layout_written(value.name)
                else:
                    site, layout = event.made.target, FULL
                span = (event.start, event.stop)
                result[value.name].append(_Copy(site, layout, *span, number))
        native = {
            name: [copy for copy in copies if not self._is_journey(copy.source)]
            for name, copies in result.items()
        }
        for trip in self.given.transfers:
            if set(trip.source) & hosts:
                continue
            start, stop = trip.start_ticks or 0, trip.stop_ticks or 0
            there = [
                c for c in native[trip.value] if trip.source[0] in c.devices and c.done <= start
            ]
            source = max(there, key=_age).source
            result[trip.value].append(_Copy(trip.target, trip.layout, start, stop, source))
        return result

    def _is_journey(self, number: int) -> bool:
        return isinstance(self._events[number].made, Transfer)

    @staticmethod
    def _sources(
        copies: list[_Copy], event: _Event, here: tuple[tuple[str, ...], str]
    ) -> set[int | None]:
        """Return the events whose copies an event reads at a place, over its devices."""
        site, layout = here
        result: set[int | None] = set()
        for device in site:
            there = [
                copy
                for copy in copies
                if copy.layout == layout
                and copy.done <= event.start
                and (copy.devices == site or (layout == FULL and device in copy.devices))
            ]
            result.add(max(there, key=_age).source if there else None)
        return result

    def _latest(self, event: _Event, name: str, source: int | None) -> int | None:
        """Return the version an event is to read: no other one was complete when it started.

        A reader of an older copy on another device reads the newest run's instead.
        """
        done = [n for n in self._versions[name] if self._events[n].stop <= event.start]
        if source is None or source == done[-1]:
            return source
        return None if self._is_journey(done[-1]) else done[-1]

    def _all_are_read(self) -> bool:
        """Return whether somebody reads each journey, and each run of operators that run again."""
        times = Counter(e.made.operator for e in self._events if isinstance(e.made, OperatorRun))
        return all(
            any(
                (value.name, number) in self._readers or self._stays(value, number)
                for value in self._makes(event)
            )
            for number, event in enumerate(self._events)
            if isinstance(event.made, Transfer) or times[event.made.operator] > 1
        )

    def _stays(self, value: Value, number: int) -> bool:
        """Return whether what an event leaves of a value is its result: made by the last run."""
        runs = [n for n in self._versions[value.name] if not self._is_journey(n)]
        return value.is_kept and number == runs[-1]

    def _one_on_hosts(self) -> bool:
        """Return whether the journeys of a value carry one version of it, made by a run."""
        carried: dict[str, set[int]] = {}
        for event in self._events:
            if isinstance(event.made, Transfer):
                carried.setdefault(event.made.value, set()).add(event.reads[event.made.value])
        return all(
            len(versions) == 1 and not any(map(self._is_journey, versions))
            for versions in carried.values()
        )

    # -- the problem -------------------------------------------------------------------------------

    def _problem(self) -> PlanningProblem:
        values = [*self._persistent(), *self._values(), *self._signals()]
        operators = tuple(map(self._operator, self._events))
        cluster = self.original.cluster
        classes = tuple(replace(entry, host=False) for entry in cluster.device_classes)
        return replace(
            self.original,
            graph=ComputationGraph(operators, tuple(values)),
            cluster=replace(cluster, device_classes=classes),
            parent=None,
        )

    def _name(self, value: str, number: int) -> str:
        """Return the name of what an event leaves of a value."""
        event = self._events[number]
        if isinstance(event.made, Transfer):
            return event.name
        return value + event.name.removeprefix(event.made.operator)

    def _operator(self, event: _Event) -> Operator:
        if isinstance(event.made, Transfer):
            host = self.original.cluster.device(event.made.source[0]).device_class
            return Operator(event.name, (Option("store", {host: 0}),), kind="store")
        number = self._number[event.name]
        names = {value: self._name(value, source) for value, source in event.reads.items()}
        names |= {value.name: self._name(value.name, number) for value in self._makes(event)}
        origin = self.original.graph.operator(event.made.operator)
        options = tuple(
            replace(
                option,
                reads={names.get(name, name): layout for name, layout in option.reads.items()},
                writes={names[name]: layout for name, layout in option.writes.items()},
            )
            for option in origin.options
        )
        return replace(origin, name=event.name, options=options, recomputable=False)

    def _persistent(self) -> Iterator[Value]:
        runs: dict[str, list[str]] = {}
        for event in self._events:
            if isinstance(event.made, OperatorRun):
                runs.setdefault(event.made.operator, []).append(event.name)
        for value in self.original.graph.values:
            if value.producer is None:
                readers = tuple(name for reader in value.consumers for name in runs[reader])
                yield replace(value, consumers=readers)

    def _values(self) -> Iterator[Value]:
        for number, event in enumerate(self._events):
            for value in self._makes(event):
                readers = self._readers.get((value.name, number), ())
                yield replace(
                    value,
                    name=self._name(value.name, number),
                    producer=event.name,
                    consumers=tuple(self._events[reader].name for reader in readers),
                    kept=self._stays(value, number),
                )

    # -- what waits for what -----------------------------------------------------------------------

    def _signals(self) -> Iterator[Value]:
        """Yield the signals, without those that follow from others and from inputs."""
        known: list[int] = []  # bits of the events that come before, as far as it is told here
        receivers: dict[int, list[str]] = {}
        for number, event in enumerate(self._events):
            before = 0
            for source in event.reads.values():
                before |= known[source] | 1 << source
            for sender in sorted(self._senders(number), reverse=True):
                if not before >> sender & 1:
                    receivers.setdefault(sender, []).append(event.name)
                    before |= 1 << sender | (known[sender] if sender < number else 0)
            known.append(before)
        for sender, names in receivers.items():
            name = self._events[sender].name
            yield Value(f"signal{MARK}{name}", name, tuple(names), {FULL: 0})

    def _senders(self, number: int) -> set[int]:
        """Readers of older versions of what an event makes, and what came just before it."""
        result: set[int] = set()
        later = False
        for value in self._makes(self._events[number]):
            versions = self._versions[value.name]
            for older in versions[: versions.index(number)]:
                result.update(self._readers.get((value.name, older), ()))
                later = True
        return (result | self._before(number)) - {number} if later else result

    def _before(self, number: int) -> set[int]:
        """What its devices did last, or on other devices: what its first reader waits for."""
        event = self._events[number]
        done = {
            n: other.made
            for n, other in enumerate(self._events)
            if isinstance(other.made, OperatorRun) and other.stop <= event.start and n != number
        }
        if not self.at_home:
            inputs = self._awaited(number)
            return {max((n for n in done if n in inputs), default=max(done))} if done else set()
        sites = event.made.target if isinstance(event.made, Transfer) else event.made.devices
        last = ([n for n, run in done.items() if device in run.devices] for device in sites)
        return {max(numbers, key=self._end_of) for numbers in last if numbers}

    def _end_of(self, number: int) -> tuple[int, int]:
        return self._events[number].stop, self._events[number].start

    def _awaited(self, number: int) -> set[int]:
        """Return the inputs of the first readers of a version that are no runs again."""
        readers = [
            reader
            for value in self._makes(self._events[number])
            for reader in self._readers.get((value.name, number), ())
        ]
        first = min(readers)
        event = self._events[first]
        again = isinstance(event.made, OperatorRun) and event.name != event.made.operator
        return self._awaited(first) if again else set(event.reads.values())

    # -- there and back ----------------------------------------------------------------------------

    def start(self) -> Plan:
        """Return the given plan's runs as a plan of this problem, without transfers."""
        return Plan(
            self.original.name,
            tuple(
                replace(event.made, operator=event.name)
                if isinstance(event.made, OperatorRun)
                else OperatorRun(event.name, "store", event.made.source, event.start, event.start)
                for event in self._events
            ),
        )

    def restored(self, plan: Plan) -> Plan:
        """Return a plan of this problem as one of the original."""
        origins = {
            self._name(value.name, number): value.name
            for number, event in enumerate(self._events)
            for value in self._makes(event)
        }
        made = ((run, self._events[self._number[run.operator]].made) for run in plan.runs)
        return Plan(
            self.original.name,
            tuple(
                replace(run, operator=origin.operator)
                for run, origin in made
                if isinstance(origin, OperatorRun)
            ),
            tuple(
                replace(trip, value=origins[trip.value])
                for trip in plan.transfers
                if trip.value in origins
            ),
        )


def _named(made: Iterable[OperatorRun | Transfer]) -> Iterator[_Event]:
    """Events; the first run of an operator has its name, later ones and journeys a number."""
    times: Counter[str] = Counter()
    for one in made:
        name = one.operator if isinstance(one, OperatorRun) else f"{one.value}{MARK}host"
        number = times[name]
        times[name] += 1
        plain = isinstance(one, OperatorRun) and not number
        yield _Event(one, name if plain else f"{name}{MARK}{number}")


def _age(copy: _Copy) -> tuple[int, int]:
    return copy.done, copy.begun
