"""A latency problem under the serial law, operator by operator, and the latency of placements.

A *place* numbers a call: ``device * calls + call`` on a payer, ``HOST`` on the first host. Hosts
run any number of operators at once and pay nothing, so a second host can only add memory; it is
not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from milp_plan.core import OperatorRun, Plan, transfer_ticks

from .graph import Floats, Ints, SerialGraph, depth_first_order

HOST = -1
"""Place of operators on a host."""


@dataclass(frozen=True)
class OperatorValue:
    """A value that another operator reads: the charge of each end, its maker, its readers."""

    ticks: int
    source: int
    readers: tuple[int, ...]


@dataclass(frozen=True)
class OperatorTables:
    """Tables by operator number of a latency problem.

    Operators that an optimal plan may group (see :mod:`.atoms`) can be one entry.

    Parameters
    ----------
    graph
        The problem by classes.
    work, host_work
        Ticks on a payer and on a host; ``None`` where an operator cannot run there.
    class_of
        Class of each operator.
    values
        Values with readers, in file order.
    size
        Bytes of each class on its device.
    parts
        Numbers in the file of the operators that each entry stands for.
    hosted
        Operators that are on the first host in every plan that is considered.
    """

    graph: SerialGraph
    work: tuple[int | None, ...]
    host_work: tuple[int | None, ...]
    class_of: tuple[int, ...]
    values: tuple[OperatorValue, ...]
    size: tuple[int, ...]
    parts: tuple[tuple[int, ...], ...]
    hosted: tuple[int, ...] = ()

    @property
    def calls(self) -> int:
        """Number of calls of each payer."""
        return self.graph.law.calls or 1

    @property
    def num_places(self) -> int:
        """Number of calls of all payers together."""
        return self.calls * len(self.graph.payers)

    def __len__(self) -> int:
        return len(self.work)

    @cached_property
    def made_by(self) -> tuple[tuple[int, ...], ...]:
        """Values that each operator makes."""
        rows: list[list[int]] = [[] for _ in self.work]
        for number, value in enumerate(self.values):
            rows[value.source].append(number)
        return tuple(tuple(numbers) for numbers in rows)

    @cached_property
    def before(self) -> tuple[tuple[int, ...], ...]:
        """Operators whose values each operator reads."""
        rows: list[set[int]] = [set() for _ in self.work]
        for value in self.values:
            for reader in value.readers:
                rows[reader].add(value.source)
        return tuple(tuple(sorted(entry)) for entry in rows)

    @cached_property
    def after(self) -> tuple[tuple[int, ...], ...]:
        """Operators that read what each operator makes."""
        rows: list[set[int]] = [set() for _ in self.work]
        for number, entry in enumerate(self.before):
            for source in entry:
                rows[source].add(number)
        return tuple(tuple(sorted(entry)) for entry in rows)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Operators, each after those it reads from; chains stay together (depth first)."""
        missing = [len(sources) for sources in self.before]
        return tuple(depth_first_order(missing, [readers[::-1] for readers in self.after]))

    @cached_property
    def closures(self) -> tuple[list[int], list[int]]:
        """Bit sets of the operators before each operator, and of those after it."""
        before, after = [0] * len(self), [0] * len(self)
        for i in self.order:
            for source in self.before[i]:
                before[i] |= before[source] | 1 << source
        for i in reversed(self.order):
            for reader in self.after[i]:
                after[i] |= after[reader] | 1 << reader
        return before, after

    @cached_property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """Operators of each class; none where all joined operators of other classes."""
        rows: list[list[int]] = [[] for _ in range(len(self.graph))]
        for number, kind in enumerate(self.class_of):
            rows[kind].append(number)
        return tuple(tuple(numbers) for numbers in rows)

    @cached_property
    def float_work(self) -> Floats:
        """``work`` in the unit of the source; infinite where an operator cannot run."""
        return self.floats(self.work)

    @cached_property
    def float_host_work(self) -> Floats:
        """``host_work`` in the unit of the source; infinite where an operator cannot run."""
        return self.floats(self.host_work)

    @cached_property
    def float_costs(self) -> Floats:
        """Cost of each value in the unit of the source."""
        return self.floats([value.ticks for value in self.values])

    def floats(self, ticks: Sequence[int | None]) -> Floats:
        """Return ticks in the unit of the source."""
        unit = self.graph.problem.units.time_scale
        return np.array([np.inf if t is None else t / unit for t in ticks], dtype=np.float64)

    def plan(self, places: Sequence[int] | Ints, planner: str = "") -> Plan:
        """Return the plan with each operator at its place; calls are numbered from 0 on."""
        problem, calls = self.graph.problem, self.calls
        rank: dict[int, int] = {}
        for place in sorted({int(place) for place in places if place != HOST}):
            rank[place] = sum(1 for other in rank if other // calls == place // calls)
        names = [op.name for op in problem.graph.operators]
        runs: list[OperatorRun | None] = [None] * len(names)
        for part, raw in zip(self.parts, places, strict=True):
            place = int(raw)
            payer = self.graph.hosts[0] if place == HOST else self.graph.payers[place // calls]
            call = None if place == HOST else rank[place]
            for number in part:
                option = problem.graph.operators[number].options[0].name
                runs[number] = OperatorRun(names[number], option, (payer.name,), call=call)
        for number in self.hosted:
            option = problem.graph.operators[number].options[0].name
            runs[number] = OperatorRun(names[number], option, (self.graph.hosts[0].name,))
        every = tuple(run for run in runs if run is not None)
        return Plan(problem.name, every, fingerprint=problem.fingerprint, planner=planner)

    def places(self, plan: Plan) -> Ints:
        """Return the place of each entry in a valid plan, that of its first operator."""
        number = {device.name: i for i, device in enumerate(self.graph.payers)}
        places = np.full(len(self), HOST, dtype=np.int64)
        operators = self.graph.problem.graph.operators
        for i, part in enumerate(self.parts):
            run = plan.run(operators[part[0]].name)
            if run.devices[0] in number:
                places[i] = number[run.devices[0]] * self.calls + (run.call or 0)
        return places

    def device_bytes(self, places: Sequence[int] | Ints) -> list[int]:
        """Return the bytes on each payer."""
        sizes = [0] * len(self.graph.payers)
        for kind, numbers in enumerate(self.members):
            place = int(places[numbers[0]]) if numbers else HOST
            if place != HOST:
                sizes[place // self.calls] += self.size[kind]
        return sizes

    def fits(self, places: Sequence[int] | Ints) -> bool:
        """Return whether every class is on one device that runs it, and memory suffices."""
        memory, calls = self.graph.memory, self.calls
        both = zip(self.host_work, places, strict=True)
        if any(place == HOST and work is None for work, place in both):
            return False
        for numbers in self.members:
            devices = {HOST if places[i] == HOST else int(places[i]) // calls for i in numbers}
            if len(devices) > 1:
                return False
        if memory is not None and max(self.device_bytes(places)) > memory:
            return False
        held = sum(
            size
            for size, numbers in zip(self.size, self.members, strict=True)
            if numbers and places[numbers[0]] == HOST
        )
        return self.graph.host_memory is None or held <= self.graph.host_memory

    def loads(self, places: Sequence[int] | Ints) -> list[int]:
        """Return the ticks of each call: its operators, what it reads and what it sends."""
        loads = [0] * self.num_places
        for number, place in enumerate(places):
            if place != HOST:
                ticks = self.work[number]
                assert ticks is not None, "an operator on a device that cannot run it"
                loads[place] += ticks
        for value in self.values:
            home = places[value.source]
            away = {int(places[reader]) for reader in value.readers} - {int(home)}
            for place in away:
                if place != HOST:
                    loads[place] += value.ticks
            if away and home != HOST:
                loads[home] += value.ticks
        return loads

    def latency(self, places: Sequence[int] | Ints) -> int | None:
        """Return the exact latency, ticks; ``None`` when calls wait in a circle."""
        ends = self.ends(places)
        return None if ends is None else max(ends, default=0)

    def ends(self, places: Sequence[int] | Ints) -> list[int] | None:
        """Return the exact end of each operator, ticks; ``None`` when calls wait in a circle."""
        loads, first = self.loads(places), self.num_places
        task = [first + i if place == HOST else int(place) for i, place in enumerate(places)]
        needs: list[set[int]] = [set() for _ in range(first + len(self))]
        for place in range(first):
            if place % self.calls:
                needs[place].add(place - 1)
        for reader, sources in enumerate(self.before):
            needs[task[reader]] |= {task[s] for s in sources} - {task[reader]}
        ends: dict[int, int] = {}
        for number in _any_order(needs):
            length = loads[number] if number < first else self.host_work[number - first]
            if number >= first and task[number - first] != number:
                continue
            assert length is not None, "an operator on a host that cannot run it"
            ends[number] = max((ends[other] for other in needs[number]), default=0) + length
        if any(number not in ends for number in task):
            return None
        return [ends[number] for number in task]


def operator_tables(graph: SerialGraph) -> OperatorTables:
    """Read a problem with objective latency operator by operator."""
    problem = graph.problem
    operators = problem.graph.operators
    number = {op.name: i for i, op in enumerate(operators)}

    def ticks(kinds: Sequence[str]) -> tuple[int | None, ...]:
        if not kinds:
            return (None,) * len(operators)
        return tuple(op.options[0].duration_ticks.get(kinds[0]) for op in operators)

    values = tuple(
        OperatorValue(
            transfer_ticks(problem.cluster, value),
            number[value.producer],
            tuple(sorted({number[name] for name in value.consumers})),
        )
        for value in problem.graph.values
        if value.producer is not None and value.consumers
    )
    return OperatorTables(
        graph,
        ticks([device.device_class for device in graph.payers]),
        ticks([device.device_class for device in graph.hosts]),
        tuple(graph.class_of[op.name] for op in operators),
        values,
        graph.size,
        tuple((number,) for number in range(len(operators))),
    )


def _any_order(needs: Sequence[set[int]]) -> Iterator[int]:
    """Yield numbers, each after all it needs; those on a cycle and behind one are left out."""
    missing = [len(entry) for entry in needs]
    after: list[list[int]] = [[] for _ in needs]
    for number, entry in enumerate(needs):
        for other in entry:
            after[other].append(number)
    ready = [number for number, count in enumerate(missing) if count == 0]
    for number in ready:  # grows while it is read
        yield number
        for other in after[number]:
            missing[other] -= 1
            if missing[other] == 0:
                ready.append(other)
