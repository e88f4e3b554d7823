"""A problem under the serial law as a hypergraph: classes of operators, and costs of values.

A *class* is a colocation group, or an operator without one: it goes to one device. A *net* is a
value with its readers in other classes: each paying device that holds a part of a net but not all
of it is charged the net's cost, once if the producer is inside, once if it is outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import (
    BACKWARD_KINDS,
    Device,
    OperatorRun,
    Plan,
    PlanningProblem,
    SerialLaw,
    transfer_ticks,
)
from milp_plan.core.view import view

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def ragged(lists: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Return lists of numbers as pointers and entries, for compiled loops."""
    pointers = np.zeros(len(lists) + 1, dtype=np.int64)
    pointers[1:] = np.cumsum([len(entry) for entry in lists])
    entries = np.array([number for entry in lists for number in entry], dtype=np.int64)
    return pointers, entries


def depth_first_order(
    missing: list[int],
    after: Sequence[Sequence[int]],
    shuffle: Callable[[list[int]], None] = lambda _: None,
) -> list[int]:
    """Return a topological order in which the latest free node comes next.

    Parameters
    ----------
    missing
        Predecessors of each node; counted down to 0 here.
    after
        Successors of each node.
    shuffle
        Called with the nodes that become free together.
    """
    stack = [node for node in reversed(range(len(missing))) if not missing[node]]
    shuffle(stack)
    order = []
    while stack:
        order.append(stack.pop())
        free = []
        for other in after[order[-1]]:
            missing[other] -= 1
            if not missing[other]:
                free.append(other)
        shuffle(free)
        stack += free
    return order


@dataclass(frozen=True, slots=True)
class Net:
    """A value that leaves its class.

    Parameters
    ----------
    ticks
        Ticks that each end is charged.
    source
        Class of the producer.
    readers
        Other classes that read it, ascending, each once.
    backward
        Whether the producer belongs to the backward pass.
    """

    ticks: int
    source: int
    readers: tuple[int, ...]
    backward: bool


@dataclass(frozen=True)
class SerialGraph:
    """A hypergraph by class number. Devices are numbered payers first, then hosts.

    Parameters
    ----------
    problem
        The problem that was read.
    members
        Operator names of each class, in file order; classes are in order of their first operator.
    work, host_work
        Ticks of a class on a payer and on a host; ``None`` where it cannot run there.
    backward_work, backward_host_work
        The part of the work that belongs to the backward pass.
    size
        Bytes of a class on its device.
    nets
        Values between classes.
    arcs
        (before, after) pairs of classes that ``Contiguity.CHAIN`` keeps in order.
    payers, hosts
        Devices that pay for transfers, all alike; and those that do not, all alike.
    """

    problem: PlanningProblem
    members: tuple[tuple[str, ...], ...]
    work: tuple[int | None, ...]
    host_work: tuple[int | None, ...]
    backward_work: tuple[int, ...]
    backward_host_work: tuple[int, ...]
    size: tuple[int, ...]
    nets: tuple[Net, ...]
    arcs: tuple[tuple[int, int], ...]
    payers: tuple[Device, ...]
    hosts: tuple[Device, ...]

    def __len__(self) -> int:
        return len(self.members)

    @property
    def law(self) -> SerialLaw:
        """The serial law of the problem."""
        assert self.problem.serial is not None
        return self.problem.serial

    @property
    def memory(self) -> int | None:
        """Bytes of each payer."""
        return self.payers[0].memory_bytes

    @property
    def host_memory(self) -> int | None:
        """Bytes of each host; ``None`` also where there is no host."""
        return self.hosts[0].memory_bytes if self.hosts else None

    @property
    def limits(self) -> list[int | None]:
        """Bytes of each device, payers first; ``None`` without limit."""
        return [self.memory] * len(self.payers) + [self.host_memory] * len(self.hosts)

    @cached_property
    def class_of(self) -> dict[str, int]:
        """Operator -> its class."""
        return {name: number for number, names in enumerate(self.members) for name in names}

    @cached_property
    def scale(self) -> float:
        """Ticks per unit of the floating-point tables: those of the source's unit of time."""
        return float(self.problem.units.time_scale)

    @cached_property
    def float_work(self) -> Floats:
        """``work`` over ``scale``; infinite where a class cannot run."""
        return self._floats(self.work)

    @cached_property
    def float_host_work(self) -> Floats:
        """``host_work`` over ``scale``; infinite where a class cannot run."""
        return self._floats(self.host_work)

    @cached_property
    def float_costs(self) -> Floats:
        """``ticks`` of each net over ``scale``."""
        return self._floats([net.ticks for net in self.nets])

    def _floats(self, ticks: Sequence[int | None]) -> Floats:
        unit = self.problem.units.time_scale
        return np.array([np.inf if t is None else t / unit for t in ticks], dtype=np.float64)

    @cached_property
    def merged_nets(self) -> dict[tuple[int, ...], int]:
        """Ticks of the nets of the same classes together, by these classes; without free nets."""
        merged: dict[tuple[int, ...], int] = {}
        for net in self.nets:
            if net.ticks:
                pins = tuple(sorted((net.source, *net.readers)))
                merged[pins] = merged.get(pins, 0) + net.ticks
        return merged

    def pass_loads(self, places: Sequence[int]) -> list[list[int]]:
        """Return the exact forward and backward load of each device in ticks, payers first.

        Parameters
        ----------
        places
            Device number of each class, which must be able to run there.
        """
        count = len(self.payers)
        loads = [[0, 0] for _ in range(count + len(self.hosts))]
        for number, place in enumerate(places):
            on_payer = place < count
            ticks = (self.work if on_payer else self.host_work)[number]
            assert ticks is not None, "a class on a device that cannot run it"
            later = (self.backward_work if on_payer else self.backward_host_work)[number]
            loads[place][0] += ticks - later
            loads[place][1] += later
        for net in self.nets:
            touched = {places[number] for number in (net.source, *net.readers)}
            for place in touched if len(touched) > 1 else ():
                if place < count:
                    loads[place][net.backward] += net.ticks
        return loads

    def loads(self, places: Sequence[int]) -> list[int]:
        """Return the exact load of each device, payers first, both passes together."""
        return [sum(load) for load in self.pass_loads(places)]

    def plan(self, places: Sequence[int], planner: str = "") -> Plan:
        """Return the plan that puts each class on the device of that number (no calls)."""
        devices = (*self.payers, *self.hosts)
        graph = self.problem.graph
        runs = tuple(
            OperatorRun(
                op.name, op.options[0].name, (devices[places[self.class_of[op.name]]].name,)
            )
            for op in graph.operators
        )
        return Plan(self.problem.name, runs, fingerprint=self.problem.fingerprint, planner=planner)

    def places(self, plan: Plan) -> list[int]:
        """Return the device number of each class in a valid plan."""
        numbers = {device.name: i for i, device in enumerate((*self.payers, *self.hosts))}
        return [numbers[plan.run(names[0]).devices[0]] for names in self.members]


@view
def read_serial(problem: PlanningProblem) -> SerialGraph | str:
    """Return a problem as a hypergraph of classes, or the reason why it is none."""
    if problem.serial is None:
        return "the problem is not under the serial law"
    devices = problem.cluster.devices
    payers = tuple(d for d in devices if d.device_class in problem.serial.payers)
    hosts = tuple(d for d in devices if d.device_class not in problem.serial.payers)
    if not payers:
        return "no device pays for transfers"
    for alike, verb in ((payers, "pay"), (hosts, "do not pay")):
        if len({(d.device_class, d.memory_bytes) for d in alike}) > 1:
            return f"devices that {verb} differ in class or memory"
    reason = _uncountable(problem)
    return reason or _tables(problem, payers, hosts)


def _uncountable(problem: PlanningProblem) -> str | None:
    """Explain why the bytes of a device are not the sum over its operators."""
    class_of = classes_of(problem)[1]
    for value in problem.graph.values:
        if value.persistent and len({class_of[name] for name in value.consumers}) > 1:
            return f"persistent value {value.name!r} is shared by several colocation groups"
    if any(op.options[0].workspace_bytes for op in problem.graph.operators):
        return "operators need workspace"
    return None


def classes_of(problem: PlanningProblem) -> tuple[list[list[str]], dict[str, int]]:
    """Return the operators of each class, in order of its first, and the class of each operator."""
    members: list[list[str]] = []
    known: dict[str, int] = {}
    class_of: dict[str, int] = {}
    for op in problem.graph.operators:
        key = f"operator {op.name}" if op.group is None else f"group {op.group}"
        if key not in known:
            known[key] = len(members)
            members.append([])
        members[known[key]].append(op.name)
        class_of[op.name] = known[key]
    return members, class_of


def _tables(
    problem: PlanningProblem, payers: tuple[Device, ...], hosts: tuple[Device, ...]
) -> SerialGraph:
    graph = problem.graph
    members, class_of = classes_of(problem)
    backward = {op.name for op in graph.operators if op.kind in BACKWARD_KINDS}

    def ticks(names: Sequence[str], devices: tuple[Device, ...]) -> int | None:
        if not devices:
            return None
        kind = devices[0].device_class
        each = [graph.operator(name).options[0].duration_ticks.get(kind) for name in names]
        return None if None in each else sum(t for t in each if t is not None)

    def later(names: Sequence[str]) -> list[str]:
        return [name for name in names if name in backward]

    size = [0] * len(members)
    nets = []
    for value in graph.values:
        if value.producer is None:
            layout = graph.operator(value.consumers[0]).options[0].layout_read(value.name)
            size[class_of[value.consumers[0]]] += value.bytes[layout]
            continue
        source = class_of[value.producer]
        layout = graph.operator(value.producer).options[0].layout_written(value.name)
        size[source] += value.bytes[layout]
        readers = sorted({class_of[name] for name in value.consumers} - {source})
        if readers:
            cost = transfer_ticks(problem.cluster, value)
            nets.append(Net(cost, source, tuple(readers), value.producer in backward))
    return SerialGraph(
        problem,
        tuple(tuple(names) for names in members),
        tuple(ticks(names, payers) for names in members),
        tuple(ticks(names, hosts) for names in members),
        tuple(ticks(later(names), payers) or 0 for names in members),
        tuple(ticks(later(names), hosts) or 0 for names in members),
        tuple(size),
        tuple(nets),
        tuple(sorted(arcs_of(problem, members, class_of, backward))),
        payers,
        hosts,
    )


def arcs_of(
    problem: PlanningProblem,
    members: list[list[str]],
    class_of: dict[str, int],
    backward: set[str],
) -> set[tuple[int, int]]:
    """Return the order of the forward pass; classes without a forward part in reverse."""
    late = {number for number, names in enumerate(members) if backward.issuperset(names)}
    arcs = set()
    for value in problem.graph.values:
        for name in value.consumers if value.producer is not None else ():
            assert value.producer is not None
            before, after = class_of[value.producer], class_of[name]
            if value.producer not in backward and name not in backward:
                arcs.add((before, after))
            elif value.producer in backward and name in backward and {before, after} & late:
                arcs.add((after, before))
    return {(before, after) for before, after in arcs if before != after}
