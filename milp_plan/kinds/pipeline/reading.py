"""Reads a problem as a :class:`.Shop`, or explains why it is not one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from milp_plan.core import (
    CommunicationModel,
    MemoryLaw,
    Objective,
    Operator,
    PlanningProblem,
    Value,
)
from milp_plan.core.view import view
from milp_plan.cost.routes import Route, routes

from .shop import TRANSFER, Journey, Kind, Shop


def shop_of(problem: PlanningProblem) -> Shop | None:
    """Return the problem as a shop, or ``None`` where it is not one (see :func:`read_shop`)."""
    shop = read_shop(problem)
    return shop if isinstance(shop, Shop) else None


@view
def read_shop(problem: PlanningProblem) -> Shop | str:
    """Return a problem as a shop of identical micro-batches, or the reason why it is not one."""
    try:
        return _Reader(problem).read()
    except _NotAShop as reason:
        return str(reason)


class _NotAShop(Exception):
    """Reason why a problem is not a job shop of identical jobs."""


@dataclass
class _Job:
    """One micro-batch: tasks are kinds with one member; ``holders`` are (producer, readers, bytes).

    ``members`` are the operators and values that differ between jobs that are alike.
    """

    tasks: list[tuple[str, str, str, str, int, int]] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    arcs: list[tuple[int, int, int]] = field(default_factory=list)
    holders: list[tuple[int, tuple[int, ...], int]] = field(default_factory=list)
    journeys: list[Journey] = field(default_factory=list)

    @property
    def signature(self) -> tuple[object, ...]:
        """Return the part of a job that is equal for jobs that are alike."""
        return (tuple(self.tasks), tuple(self.arcs), tuple(self.holders))


class _Reader:
    def __init__(self, problem: PlanningProblem) -> None:
        self.problem = problem
        self.graph = problem.graph
        self.machines = list(problem.cluster.device_names)
        self.number = {name: index for index, name in enumerate(self.machines)}
        self.kinds: list[Kind] = []
        self.arcs: list[tuple[int, int, int]] = []
        self.journeys: list[Journey] = []

    def read(self) -> Shop:
        self.check_settings()
        batches: dict[int, list[Operator]] = {}
        for operator in self.graph.operators:
            if operator.micro_batch is None:
                raise _NotAShop(f"operator {operator.name!r} belongs to no micro-batch")
            batches.setdefault(operator.micro_batch, []).append(operator)
        alike: dict[tuple[object, ...], list[_Job]] = {}
        for batch in sorted(batches):
            job = self.job(batch, batches[batch])
            alike.setdefault(job.signature, []).append(job)
        for route, jobs in enumerate(alike.values()):
            self.add_route(route, jobs)
        return Shop(
            self.problem,
            tuple(self.machines),
            tuple(self.kinds),
            tuple(self.arcs),
            self.limits(),
            tuple(self.journeys),
        )

    def check_settings(self) -> None:
        problem = self.problem
        if problem.objective not in (Objective.MAKESPAN, Objective.SPAN):
            raise _NotAShop(f"the objective is {problem.objective.value}, not makespan or span")
        if problem.memory_law is not MemoryLaw.INSTANT:
            raise _NotAShop("memory is counted without a clock")
        if problem.cluster.communication is CommunicationModel.ENDPOINT:
            raise _NotAShop("transfers hold ports of two devices")

    # -- one micro-batch ---------------------------------------------------------------------

    def job(self, batch: int, operators: list[Operator]) -> _Job:
        """Read one micro-batch."""
        suffix = f"@{batch}"
        job = _Job()
        position: dict[str, int] = {}
        for operator in sorted(operators, key=lambda entry: entry.name.removesuffix(suffix)):
            places = self.problem.placements(operator.name)
            if len(places) != 1 or len(places[0].devices) != 1:
                text = f"{len(places)} placements" if len(places) != 1 else "several devices"
                raise _NotAShop(f"operator {operator.name!r} has {text}, not one device")
            position[operator.name] = len(job.tasks)
            base = operator.name.removesuffix(suffix)
            ticks = self.problem.duration_ticks(operator.name, places[0])
            extra = operator.options[0].workspace_bytes
            label = operator.block or ""
            job.tasks.append((base, operator.kind, label, places[0].devices[0], ticks, extra))
            job.members.append(operator.name)
        for name in list(position):
            for value in self.graph.outputs[name]:
                self.value(job, position, value, suffix)
        return job

    def value(self, job: _Job, position: dict[str, int], value: Value, suffix: str) -> None:
        """Add arcs, memory and transfers of one value."""
        assert value.producer is not None
        producer = position[value.producer]
        made = self.problem.placements(value.producer)[0]
        here: list[int] = []
        sends: dict[tuple[str, ...], tuple[Route, list[int]]] = {}
        for consumer in value.consumers:
            if consumer not in position:
                raise _NotAShop(f"value {value.name!r} passes between micro-batches")
            reader = self.problem.placements(consumer)[0]
            ways = routes(self.problem, value, made, consumer, reader)
            if ways is None:
                raise _NotAShop(f"value {value.name!r} cannot reach {consumer!r}")
            if not ways:
                here.append(position[consumer])
                job.arcs.append((producer, position[consumer], 0))
            for way in ways:
                sends.setdefault(way.target, (way, []))[1].append(position[consumer])
        layout = self.graph.operator(value.producer).options[0].layout_written(value.name)
        if sends and (value.bytes[layout] or any(value.bytes[w.layout] for w, _ in sends.values())):
            raise _NotAShop(f"value {value.name!r} takes memory on two devices")
        if value.bytes[layout] and value.is_kept and self.limited(made.devices[0]):
            raise _NotAShop(f"value {value.name!r} is kept to the end")
        if value.bytes[layout]:
            job.holders.append((producer, tuple(here), value.bytes[layout]))
        for way, readers in sends.values():
            self.send(job, producer, way, readers, suffix)

    def limited(self, device: str) -> bool:
        """Return whether memory of a device is limited."""
        return self.problem.cluster.device(device).memory_bytes is not None

    def send(self, job: _Job, producer: int, way: Route, readers: list[int], suffix: str) -> None:
        """Add a delay on arcs, or a task on the channel that the transfer holds."""
        if not way.resources:
            job.arcs += [(producer, reader, way.duration_ticks) for reader in readers]
            made = job.members[producer]
            job.journeys.append(
                Journey(way.value, made, way.source, way.target, way.layout, way.duration_ticks)
            )
            return
        if len(way.resources) > 1:
            raise _NotAShop(f"a transfer of {way.value!r} holds several channels")
        base = f"{way.value.removesuffix(suffix)} to {way.target[0]}"
        task = len(job.tasks)
        job.tasks.append((base, TRANSFER, "", way.resources[0], way.duration_ticks, 0))
        job.members.append(way.value)
        job.arcs.append((producer, task, 0))
        job.arcs += [(task, reader, 0) for reader in readers]

    # -- one route ---------------------------------------------------------------------------

    def add_route(self, route: int, jobs: list[_Job]) -> None:
        """Add the kinds of jobs that are alike, topologically sorted."""
        first = jobs[0]
        order = _topological(len(first.tasks), first.arcs)
        rank = {task: len(self.kinds) + index for index, task in enumerate(order)}
        for task in order:
            base, role, block, place, ticks, extra = first.tasks[task]
            members = tuple(job.members[task] for job in jobs)
            machine = self.machine(place)
            self.kinds.append(Kind(base, role, route, block, machine, ticks, extra, extra, members))
        ancestors = _ancestors(order, first.arcs)
        for producer, readers, size in first.holders:
            last = next(
                (r for r in readers or (producer,) if all(ancestors[r] >> o & 1 for o in readers)),
                producer if not readers else None,
            )
            if last is None:
                raise _NotAShop(f"two readers of {first.members[producer]!r} are not ordered")
            self.change(rank[producer], alloc=size)
            self.change(rank[last], free=size)
        arcs = {(rank[a], rank[b]): 0 for a, b, _ in first.arcs}
        for a, b, lag in first.arcs:
            arcs[rank[a], rank[b]] = max(arcs[rank[a], rank[b]], lag)
        self.arcs += [(a, b, lag) for (a, b), lag in arcs.items()]
        for job in jobs:
            self.journeys += job.journeys

    def change(self, kind: int, alloc: int = 0, free: int = 0) -> None:
        old = self.kinds[kind]
        self.kinds[kind] = replace(old, alloc=old.alloc + alloc, free=old.free + free)

    def machine(self, name: str) -> int:
        if name not in self.number:
            self.number[name] = len(self.machines)
            self.machines.append(name)
        return self.number[name]

    def limits(self) -> tuple[int | None, ...]:
        """Return memory limits less the bytes of persistent values."""
        persistent = dict.fromkeys(self.problem.cluster.device_names, 0)
        for value in self.graph.values:
            if not value.persistent:
                continue
            sites = set()
            for consumer in value.consumers:
                device = self.problem.placements(consumer)[0].devices[0]
                layout = self.graph.operator(consumer).options[0].layout_read(value.name)
                sites.add((device, layout))
            for place, layout in sites:
                persistent[place] += value.bytes[layout]
        limits: list[int | None] = [None] * len(self.machines)
        for index, entry in enumerate(self.problem.cluster.devices):
            if entry.memory_bytes is not None:
                limits[index] = entry.memory_bytes - persistent[entry.name]
        return tuple(limits)


def _topological(count: int, arcs: list[tuple[int, int, int]]) -> list[int]:
    missing = [0] * count
    after: list[list[int]] = [[] for _ in range(count)]
    for a, b, _ in arcs:
        missing[b] += 1
        after[a].append(b)
    order = [task for task in range(count) if not missing[task]]
    for task in order:  # grows while it is read
        for b in after[task]:
            missing[b] -= 1
            if not missing[b]:
                order.append(b)
    return order


def _ancestors(order: list[int], arcs: list[tuple[int, int, int]]) -> dict[int, int]:
    """Return task -> bit mask of itself and everything before it."""
    masks = {task: 1 << task for task in order}
    before: dict[int, list[int]] = {task: [] for task in order}
    for a, b, _ in arcs:
        before[b].append(a)
    for task in order:
        for a in before[task]:
            masks[task] |= masks[a]
    return masks
