"""A problem read as a job shop of identical jobs: the input of every pipeline planner.

Micro-batches that take the same route are identical jobs. Each runs every *kind* of task once, on
a known machine; machines are devices, and channels where transfers hold them. Since jobs are
identical, some optimal plan runs the tasks of each kind in micro-batch order (exchange argument:
renaming the tasks of a kind by start time keeps every precedence, and memory only counts tasks).
So a plan is one *word* of kinds per machine, and because copies are allocated and released by
tasks of their own device, whether memory suffices depends on each device's word alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd

from milp_plan.core import FULL, Objective, OperatorRun, Plan, PlanningProblem, Transfer

TRANSFER = "transfer"
"""Role of kinds that are transfers holding a channel."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A task that every micro-batch of a route runs once.

    Parameters
    ----------
    name
        Name of the operator without its micro-batch, for example ``F3``.
    role
        Kind of the operator (``forward``, ``backward-input``, ``backward-weight``, ``backward``),
        or :data:`TRANSFER`.
    route
        Index of the group of identical micro-batches.
    block
        The operator's block (``stage 3``); empty where it has none.
    machine
        Index into :attr:`Shop.machines`.
    duration
        Ticks.
    alloc, free
        Bytes allocated on the machine at the task's start, and released there at its end.
    members
        Operator (or transferred value) per micro-batch, in micro-batch order.
    """

    name: str
    role: str
    route: int
    block: str
    machine: int
    duration: int
    alloc: int
    free: int
    members: tuple[str, ...]

    @property
    def count(self) -> int:
        """Number of micro-batches on its route."""
        return len(self.members)

    @property
    def is_transfer(self) -> bool:
        """Whether it is a transfer that holds a channel."""
        return self.role == TRANSFER


@dataclass(frozen=True, slots=True)
class Journey:
    """A transfer that holds no channel: it leaves when its producer stops, and takes ``ticks``."""

    value: str
    producer: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    layout: str
    ticks: int


@dataclass(frozen=True)
class Shop:
    """The problem as machines, kinds and arcs.

    Parameters
    ----------
    problem
        The problem that was read.
    machines
        Names of devices in device order, then of channels that transfers hold.
    kinds
        Tasks of all routes, topologically sorted within each route.
    arcs
        (before, after, lag): in every micro-batch, ``after`` starts at least ``lag`` ticks after
        ``before`` stops; ``lag`` is the time of a transfer that holds nothing.
    limits
        Bytes free for copies per machine; ``None`` is without limit (channels always).
    journeys
        Transfers that hold no channel.
    """

    problem: PlanningProblem
    machines: tuple[str, ...]
    kinds: tuple[Kind, ...]
    arcs: tuple[tuple[int, int, int], ...]
    limits: tuple[int | None, ...]
    journeys: tuple[Journey, ...]

    @property
    def objective(self) -> Objective:
        """Objective of the problem: makespan or span."""
        return self.problem.objective

    @cached_property
    def num_devices(self) -> int:
        """Number of machines that are devices."""
        return len(self.problem.cluster.devices)

    @cached_property
    def tick(self) -> int:
        """Common divisor of all durations and lags: some best plan starts only at its multiples."""
        return max(1, gcd(*(kind.duration for kind in self.kinds), *(lag for *_, lag in self.arcs)))

    def in_ticks(self) -> Shop:
        """Return the shop with times in units of :attr:`tick`, which have no common divisor."""
        if self.tick == 1:
            return self
        kinds = tuple(replace(kind, duration=kind.duration // self.tick) for kind in self.kinds)
        arcs = tuple((a, b, lag // self.tick) for a, b, lag in self.arcs)
        return replace(self, kinds=kinds, arcs=arcs)

    @cached_property
    def num_tasks(self) -> int:
        """Number of tasks of all kinds and micro-batches."""
        return sum(kind.count for kind in self.kinds)

    @cached_property
    def before(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Kind -> (predecessor, lag) pairs."""
        predecessors: list[list[tuple[int, int]]] = [[] for _ in self.kinds]
        for a, b, lag in self.arcs:
            predecessors[b].append((a, lag))
        return tuple(tuple(entries) for entries in predecessors)

    @cached_property
    def after(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Kind -> (successor, lag) pairs."""
        successors: list[list[tuple[int, int]]] = [[] for _ in self.kinds]
        for a, b, lag in self.arcs:
            successors[a].append((b, lag))
        return tuple(tuple(entries) for entries in successors)

    @cached_property
    def above(self) -> tuple[int, ...]:
        """Kind -> bits of all kinds before it in its micro-batch."""
        above = [0] * len(self.kinds)
        for k, before in enumerate(self.before):
            for a, _ in before:
                above[k] |= above[a] | 1 << a
        return tuple(above)

    @cached_property
    def heads(self) -> tuple[int, ...]:
        """Kind -> earliest start in an empty shop."""
        heads = [0] * len(self.kinds)
        for k in range(len(self.kinds)):
            for a, lag in self.before[k]:
                heads[k] = max(heads[k], heads[a] + self.kinds[a].duration + lag)
        return tuple(heads)

    @cached_property
    def tails(self) -> tuple[int, ...]:
        """Kind -> least time from its stop to the end of its micro-batch."""
        tails = [0] * len(self.kinds)
        for k in reversed(range(len(self.kinds))):
            for b, lag in self.after[k]:
                tails[k] = max(tails[k], lag + self.kinds[b].duration + tails[b])
        return tuple(tails)

    @cached_property
    def on_machine(self) -> tuple[tuple[int, ...], ...]:
        """Machine -> its kinds."""
        rows: list[list[int]] = [[] for _ in self.machines]
        for k, kind in enumerate(self.kinds):
            rows[kind.machine].append(k)
        return tuple(tuple(kinds) for kinds in rows)

    @cached_property
    def work(self) -> tuple[int, ...]:
        """Machine -> total ticks of its tasks."""
        return tuple(
            sum(self.kinds[k].duration * self.kinds[k].count for k in kinds)
            for kinds in self.on_machine
        )

    def plan(self, starts: Iterable[Iterable[int]], planner: str) -> Plan:
        """Return the plan with these start times, ``starts[kind][position]`` in ticks."""
        devices = set(self.problem.cluster.device_names)
        runs: list[OperatorRun] = []
        transfers: list[Transfer] = []
        stops: dict[str, int] = {}
        for kind, row in zip(self.kinds, starts, strict=True):
            place = self.machines[kind.machine]
            for member, start in zip(kind.members, row, strict=True):
                stop = start + kind.duration
                if kind.is_transfer and place not in devices:
                    source, target = place.split("->")
                    transfers.append(Transfer(member, (source,), (target,), FULL, start, stop))
                else:
                    option = self.problem.graph.operator(member).options[0].name
                    runs.append(OperatorRun(member, option, (place,), start, stop))
                    stops[member] = stop
        for way in self.journeys:
            begin = stops[way.producer]
            end = begin + way.ticks
            transfers.append(Transfer(way.value, way.source, way.target, way.layout, begin, end))
        return Plan(self.problem.name, tuple(runs), tuple(transfers), planner=planner)
