"""Any problem under the serial law by places: operators, single devices, and scores of plans.

Where :func:`.graph.read_serial` requires alike devices whose bytes add up, this reads everything
that the law allows: devices of all kinds, workspaces, persistent values that several classes share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from milp_plan.core import (
    BACKWARD_KINDS,
    Contiguity,
    Device,
    OperatorRun,
    Passes,
    Plan,
    PlanningProblem,
    transfer_ticks,
)
from milp_plan.core.view import view

from .graph import arcs_of, classes_of

Place = tuple[int, int]
"""Number of a device, and of its call; 0 where calls do not count."""


class PlaceValue(NamedTuple):
    """A value that other operators read: the charge of each end, its maker, its readers."""

    ticks: int
    source: int
    readers: tuple[int, ...]
    backward: bool


class Score(NamedTuple):
    """Score of a placement: the amount of violations (0: none), then its value in ticks."""

    broken: float
    value: int


@dataclass(frozen=True)
class PlaceTables:
    """Tables by number of operator, class and device.

    Parameters
    ----------
    problem
        The problem that was read.
    members, class_of
        Operators of each class (colocation group, or operator without one), and the inverse.
    devices, pays
        All devices, and whether each is charged for transfers.
    work
        Ticks of each operator on each device; ``None`` where it cannot run.
    backward
        Whether each operator belongs to the backward pass.
    values
        Values with readers, in file order.
    held, workspace
        Bytes of each class alone on its device, and its largest workspace.
    shared
        Persistent bytes that count once per device, for any number of these classes.
    arcs
        (before, after) pairs of classes that ``Contiguity.CHAIN`` keeps in order; none otherwise.
    """

    problem: PlanningProblem
    members: tuple[tuple[int, ...], ...]
    class_of: tuple[int, ...]
    devices: tuple[Device, ...]
    pays: tuple[bool, ...]
    work: tuple[tuple[int | None, ...], ...]
    backward: tuple[bool, ...]
    values: tuple[PlaceValue, ...]
    held: tuple[int, ...]
    workspace: tuple[int, ...]
    shared: tuple[tuple[int, tuple[int, ...]], ...]
    arcs: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        return len(self.class_of)

    @property
    def latency(self) -> bool:
        """Whether the time of one sample counts, by calls."""
        return self.problem.serial is not None and self.problem.serial.calls is not None

    @property
    def apart(self) -> bool:
        """Whether each pass has its own largest load."""
        return self.problem.serial is not None and self.problem.serial.passes is Passes.SEPARATE

    def calls(self, device: int) -> int:
        """Return the number of calls of a device."""
        assert self.problem.serial is not None
        return (self.problem.serial.calls or 1) if self.pays[device] else 1

    @cached_property
    def homes(self) -> tuple[tuple[int, ...], ...]:
        """Devices that can run all operators of a class."""
        return tuple(
            tuple(
                d
                for d in range(len(self.devices))
                if all(self.work[i][d] is not None for i in numbers)
            )
            for numbers in self.members
        )

    def plan(self, places: Sequence[Place], planner: str = "") -> Plan:
        """Return the plan with each operator at its place."""
        runs = tuple(
            OperatorRun(
                operator.name,
                operator.options[0].name,
                (self.devices[device].name,),
                call=call if self.latency and self.pays[device] else None,
            )
            for operator, (device, call) in zip(self.problem.graph.operators, places, strict=True)
        )
        return Plan(self.problem.name, runs, fingerprint=self.problem.fingerprint, planner=planner)

    def places(self, plan: Plan) -> list[Place]:
        """Return the place of each operator in a valid plan."""
        number = {device.name: d for d, device in enumerate(self.devices)}
        runs = [plan.run(operator.name) for operator in self.problem.graph.operators]
        return [(number[run.devices[0]], run.call or 0) for run in runs]

    def excess(self, on: Sequence[int]) -> float:
        """Return the bytes above the memories of devices, as shares of these memories."""
        total = 0.0
        for d, device in enumerate(self.devices):
            limit = device.memory_bytes
            here = [c for c, home in enumerate(on) if home == d]
            if limit is None or not here:
                continue
            held = sum(self.held[c] for c in here) + max(self.workspace[c] for c in here)
            held += sum(size for size, readers in self.shared if any(on[c] == d for c in readers))
            total += max(0, held - limit) / max(limit, 1)
        return total

    def loads(self, places: Sequence[Place]) -> dict[Place, list[int]]:
        """Return forward and backward ticks of every place that runs anything."""
        loads: dict[Place, list[int]] = {place: [0, 0] for place in places}
        for i, place in enumerate(places):
            loads[place][self.backward[i]] += self.work[i][place[0]] or 0
        for value in self.values:
            home = places[value.source]
            away = {places[reader] for reader in value.readers} - {home}
            for place in (*away, home) if away else ():
                if self.pays[place[0]]:
                    loads[place][value.backward] += value.ticks
        return loads

    def score(self, places: Sequence[Place]) -> Score:
        """Return exact value and violations of a placement of operators, classes on one device."""
        on = [places[numbers[0]][0] for numbers in self.members]
        broken = self.excess(on)
        loads = self.loads(places)
        if self.latency:
            ends = self.ends(places)
            late = sum(1 for end in ends if end is None)
            return Score(broken + late, max((end for end in ends if end is not None), default=0))
        carried = {(on[a], on[b]) for a, b in self.arcs if on[a] != on[b]}
        broken += _circling(carried)
        if self.apart:
            return Score(broken, sum(max(load[q] for load in loads.values()) for q in (0, 1)))
        return Score(broken, max(sum(load) for load in loads.values()))

    def ends(self, places: Sequence[Place]) -> list[int | None]:
        """Return the end of each operator; ``None`` behind calls that wait for each other."""
        loads, tasks = self.loads(places), self.tasks(places)
        needs: dict[tuple[int, ...], set[tuple[int, ...]]] = {task: set() for task in tasks}
        for value in self.values:
            for reader in value.readers:
                if tasks[reader] != tasks[value.source]:
                    needs[tasks[reader]].add(tasks[value.source])
        for device, call in [task for task in needs if len(task) == 2]:
            needs[device, call] |= {
                task for task in needs if len(task) == 2 and task[0] == device and task[1] < call
            }
        length: dict[tuple[int, ...], int] = {}
        for i, task in enumerate(tasks):
            alone = len(task) == 3
            length[task] = (self.work[i][places[i][0]] or 0) if alone else sum(loads[places[i]])
        end: dict[tuple[int, ...], int] = {}
        waiting = list(needs)
        while waiting:
            ready = [task for task in waiting if all(before in end for before in needs[task])]
            if not ready:
                break
            for task in ready:
                end[task] = length[task] + max((end[b] for b in needs[task]), default=0)
            waiting = [task for task in waiting if task not in end]
        return [end.get(task) for task in tasks]

    def tasks(self, places: Sequence[Place]) -> list[tuple[int, ...]]:
        """Return the task of each operator: its call, or itself where devices do not pay."""
        return [
            place if self.pays[place[0]] else (place[0], place[1], i)
            for i, place in enumerate(places)
        ]


def _circling(carried: set[tuple[int, int]]) -> int:
    """Return the number of devices on a cycle of arrows, or behind one."""
    left = {device for pair in carried for device in pair}
    while True:
        free = {d for d in left if not any(a in left and b == d for a, b in carried)}
        if not free:
            return len(left)
        left -= free


@view
def read_places(problem: PlanningProblem) -> PlaceTables:
    """Return any problem under the serial law by places."""
    assert problem.serial is not None
    graph, devices = problem.graph, problem.cluster.devices
    names, class_of = classes_of(problem)
    number = {operator.name: i for i, operator in enumerate(graph.operators)}
    options = [operator.options[0] for operator in graph.operators]
    shared, held = [], [0] * len(names)
    for size, classes in _bytes(problem, class_of):
        if len(classes) > 1:
            shared.append((size, classes))
        else:
            held[classes[0]] += size
    chain = problem.serial.contiguity is Contiguity.CHAIN
    backward = {operator.name for operator in graph.operators if operator.kind in BACKWARD_KINDS}
    return PlaceTables(
        problem,
        tuple(tuple(number[name] for name in members) for members in names),
        tuple(class_of[operator.name] for operator in graph.operators),
        devices,
        tuple(device.device_class in problem.serial.payers for device in devices),
        tuple(tuple(o.duration_ticks.get(d.device_class) for d in devices) for o in options),
        tuple(operator.name in backward for operator in graph.operators),
        tuple(
            PlaceValue(
                transfer_ticks(problem.cluster, value),
                number[value.producer],
                tuple(sorted({number[name] for name in value.consumers})),
                value.producer in backward,
            )
            for value in graph.values
            if value.producer is not None and value.consumers
        ),
        tuple(held),
        tuple(max(options[number[name]].workspace_bytes for name in members) for members in names),
        tuple(shared),
        tuple(sorted(arcs_of(problem, names, class_of, backward))) if chain else (),
    )


def _bytes(
    problem: PlanningProblem, class_of: dict[str, int]
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield bytes that count once per device, with the classes of which one must be there."""
    graph = problem.graph
    for value in graph.values:
        if value.producer is not None:
            layout = graph.operator(value.producer).options[0].layout_written(value.name)
            yield value.bytes[layout], (class_of[value.producer],)
            continue
        readers: dict[str, set[int]] = {}
        for name in value.consumers:
            layout = graph.operator(name).options[0].layout_read(value.name)
            readers.setdefault(layout, set()).add(class_of[name])
        for layout, classes in readers.items():
            yield value.bytes[layout], tuple(sorted(classes))
