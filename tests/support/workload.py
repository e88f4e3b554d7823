"""What a joint placement leaves to schedule: tasks, what they hold, and which buffers they fill.

This is the oracle's own reading of the supply and memory laws (docs/laws.md). It shares no code
with ``milp_plan.cost`` or ``milp_plan.check``, so that agreement between them means something.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from operator import or_
from typing import NamedTuple

from milp_plan.core import (
    FULL,
    CommunicationModel,
    OperatorRun,
    Option,
    Placement,
    Plan,
    PlanningProblem,
    Transfer,
    Value,
)

Site = tuple[str, ...]


class Strategy(NamedTuple):
    """One source from which a copy can be made, and the ticks that takes."""

    source: Site
    ticks: int


class Journey(NamedTuple):
    """A copy that a transfer has to make, and every way to make it."""

    value: str
    target: Site
    layout: str
    ways: tuple[Strategy, ...]


class Route(NamedTuple):
    """How one consumer is served: devices that read the native copy, and copies to be made."""

    native: Site
    journeys: tuple[Journey, ...]


class Buffer(NamedTuple):
    """Bytes on a device, from its maker's start until the last of its readers has stopped."""

    device: int
    bytes: int
    maker: int
    readers: int
    """Mask of tasks; the maker is one of them. With a bit beyond the tasks it is never released."""
    workspace: bool = False


class Workload(NamedTuple):
    """Tasks of one joint placement, with a source chosen for every transfer.

    Tasks are the operators in file order, then the transfers. Masks of tasks have bit ``i`` for
    task ``i``; masks of resources have a bit for each device, channel or port.
    """

    problem: PlanningProblem
    placement: Mapping[str, Placement]
    transfers: tuple[Transfer, ...]
    durations: tuple[int, ...]
    resources: tuple[int, ...]
    before: tuple[int, ...]
    buffers: tuple[Buffer, ...]
    persistent: tuple[int, ...]
    limits: tuple[int | None, ...]

    @property
    def everything(self) -> int:
        """Mask of all tasks."""
        return (1 << len(self.durations)) - 1

    def usage(self, started: int, done: int) -> list[int]:
        """Bytes on each device while the tasks that are started and not done run."""
        used = list(self.persistent)
        for device, size, maker, readers, _ in self.buffers:
            if started >> maker & 1 and readers & ~done:
                used[device] += size
        return used

    def static_usage(self) -> list[int]:
        """Bytes on each device under the static law: every copy, and the largest workspace."""
        used = list(self.persistent)
        largest = [0] * len(used)
        for buffer in self.buffers:
            if buffer.workspace:
                largest[buffer.device] = max(largest[buffer.device], buffer.bytes)
            else:
                used[buffer.device] += buffer.bytes
        return [held + workspace for held, workspace in zip(used, largest, strict=True)]

    def fits(self, used: Sequence[int]) -> bool:
        """Whether no device holds more than its memory."""
        return all(
            limit is None or held <= limit for held, limit in zip(used, self.limits, strict=True)
        )

    def lasting(self) -> list[int]:
        """Bytes on each device at the end: persistent values and results."""
        return self.usage(self.everything, self.everything)

    @property
    def devices(self) -> int:
        """Mask of the resources that are devices."""
        return (1 << len(self.limits)) - 1

    def busiest(self, among: int = -1) -> int:
        """Return the largest sum of task lengths on any device, channel or port of a mask."""
        kinds = (reduce(or_, self.resources) & among).bit_length()
        return max(
            sum(
                ticks
                for held, ticks in zip(self.resources, self.durations, strict=True)
                if held >> bit & 1
            )
            for bit in range(kinds)
        )

    def plan(self, starts: Sequence[int | None]) -> Plan:
        """Return the plan that starts each task when told; ``None`` for one without a schedule."""
        stops = [
            None if start is None else start + ticks
            for start, ticks in zip(starts, self.durations, strict=True)
        ]
        operators = self.problem.graph.operators
        runs = tuple(
            OperatorRun(op.name, *self.placement[op.name], starts[i], stops[i])
            for i, op in enumerate(operators)
        )
        transfers = tuple(
            replace(transfer, start_ticks=starts[i], stop_ticks=stops[i])
            for i, transfer in enumerate(self.transfers, len(operators))
        )
        return Plan(self.problem.name, runs, transfers)


def is_result(value: Value) -> bool:
    """Whether the law keeps the copy that the value's producer leaves to the end."""
    return not value.consumers if value.kept is None else value.kept


def joint_placements(problem: PlanningProblem) -> Iterator[dict[str, Placement]]:
    """Yield every choice of one placement per operator that keeps groups together."""
    units: list[list[dict[str, Placement]]] = []
    for operator in problem.graph.operators:
        if operator.group is None:
            units.append([{operator.name: p} for p in problem.placements(operator.name)])
    for members in problem.graph.groups.values():
        tables = [problem.placements(name) for name in members]
        together = [
            dict(zip(members, choice, strict=True))
            for choice in product(*tables)
            if len({placement.devices for placement in choice}) == 1
        ]
        units.append(together)
    for choice in product(*units):
        yield {name: placement for part in choice for name, placement in part.items()}


class Expander:
    """Turns joint placements of one problem into workloads; remembers routes between sites."""

    def __init__(self, problem: PlanningProblem) -> None:
        self.problem = problem
        self._index = {op.name: i for i, op in enumerate(problem.graph.operators)}
        self._device = {name: i for i, name in enumerate(problem.cluster.device_names)}
        self._bits = {name: 1 << i for name, i in self._device.items()}
        self._limits = tuple(device.memory_bytes for device in problem.cluster.devices)
        self._made = [value for value in problem.graph.values if value.producer is not None]
        self._kept = [value for value in problem.graph.values if value.producer is None]
        self._routes: dict[tuple[str, Site, str, Site, str], Route | None] = {}

    def __call__(self, placement: Mapping[str, Placement]) -> Iterator[Workload]:
        """Yield one workload per choice of sources; none if a value cannot reach a reader."""
        options = {
            name: self.problem.graph.operator(name).option(chosen.option)
            for name, chosen in placement.items()
        }
        native: dict[tuple[str, str], int] = {}
        journeys: dict[Journey, int] = {}
        for value in self._made:
            producer = str(value.producer)
            site, have = placement[producer].devices, options[producer].layout_written(value.name)
            for device in site:
                native[value.name, device] = 1 << self._index[producer]
            for consumer in value.consumers:
                reader = placement[consumer].devices
                want = options[consumer].layout_read(value.name)
                route = self._route(value, site, have, reader, want)
                if route is None:
                    return
                bit = 1 << self._index[consumer]
                for device in route.native:
                    native[value.name, device] |= bit
                for journey in route.journeys:
                    journeys[journey] = journeys.get(journey, 0) | bit
        for ways in product(*(journey.ways for journey in journeys)):
            yield self._workload(placement, options, native, journeys, ways)

    def _route(self, value: Value, site: Site, have: str, reader: Site, want: str) -> Route | None:
        key = (value.name, site, have, reader, want)
        if key not in self._routes:
            self._routes[key] = self._find_route(value, site, have, reader, want)
        return self._routes[key]

    def _find_route(
        self, value: Value, site: Site, have: str, reader: Site, want: str
    ) -> Route | None:
        if have == want and (site == reader or (want == FULL and set(reader) <= set(site))):
            return Route(reader, ())
        if have == want == FULL:
            sends = []
            for device in reader:
                if device in site:
                    continue
                ways = [
                    Strategy((a,), t)
                    for a in site
                    if (t := self._wire(value, a, device, FULL)) >= 0
                ]
                if not ways:
                    return None
                sends.append(Journey(value.name, (device,), FULL, tuple(ways)))
            return Route(tuple(d for d in reader if d in site), tuple(sends))
        ticks = self._reshard(value, site, have, reader, want)
        if ticks is None:
            return None
        return Route((), (Journey(value.name, reader, want, (Strategy(site, ticks),)),))

    def _wire(self, value: Value, source: str, target: str, layout: str) -> int:
        """Ticks on the channel; -1 where there is none."""
        channel = self.problem.cluster.channel(source, target)
        return (
            -1 if channel is None else channel.transfer_ticks(value.payload(layout), value.messages)
        )

    def _reshard(self, value: Value, site: Site, have: str, reader: Site, want: str) -> int | None:
        if have == want:
            moves = [
                self._wire(value, a, b, want) for a, b in zip(site, reader, strict=True) if a != b
            ]
            return None if min(moves) < 0 else max(moves)
        change = value.reshard_ticks.get((have, want))
        if change is None:
            return None
        slowest = 0
        for b in reader:
            if b not in site:
                found = [t for a in site if (t := self._wire(value, a, b, want)) >= 0]
                if not found:
                    return None
                slowest = max(slowest, min(found))
        return change + slowest

    def _bit(self, resource: str) -> int:
        return self._bits.setdefault(resource, 1 << len(self._bits))

    def _held(self, source: Site, target: Site) -> int:
        """Mask of what a transfer holds while it runs (law of exclusion)."""
        mask = 0
        for a, b in product(source, target):
            if a == b:
                continue
            if self.problem.cluster.communication is CommunicationModel.CHANNEL:
                mask |= self._bit(f"{a}->{b}")
            elif self.problem.cluster.communication is CommunicationModel.ENDPOINT:
                mask |= self._bit(f"{a} sends") | self._bit(f"{b} receives")
        return mask

    def _workload(
        self,
        placement: Mapping[str, Placement],
        options: Mapping[str, Option],
        native: Mapping[tuple[str, str], int],
        journeys: Mapping[Journey, int],
        ways: tuple[Strategy, ...],
    ) -> Workload:
        names = [operator.name for operator in self.problem.graph.operators]
        before = [0] * len(names)
        durations = [self.problem.duration_ticks(name, placement[name]) for name in names]
        resources = [sum(self._bits[d] for d in placement[name].devices) for name in names]
        buffers = [
            Buffer(self._device[d], options[name].workspace_bytes, i, 1 << i, workspace=True)
            for i, name in enumerate(names)
            for d in placement[name].devices
        ]
        for value in self._made:
            for consumer in value.consumers:
                before[self._index[consumer]] |= 1 << self._index[str(value.producer)]
        readers = dict(native)
        transfers = []
        for task, ((journey, served), way) in enumerate(
            zip(journeys.items(), ways, strict=True), len(names)
        ):
            value = self.problem.graph.value(journey.value)
            transfers.append(Transfer(journey.value, way.source, journey.target, journey.layout))
            durations.append(way.ticks)
            resources.append(self._held(way.source, journey.target))
            before.append(1 << self._index[str(value.producer)])
            for i in range(len(names)):
                if served >> i & 1:
                    before[i] |= 1 << task
            for d in way.source:
                readers[value.name, d] |= 1 << task
            size = value.bytes[journey.layout]
            buffers += [
                Buffer(self._device[d], size, task, served | 1 << task) for d in journey.target
            ]
        for (name, d), mask in readers.items():
            value = self.problem.graph.value(name)
            maker = str(value.producer)
            size = value.bytes[options[maker].layout_written(name)]
            readers_or_end = mask | is_result(value) << len(durations)
            buffers.append(Buffer(self._device[d], size, self._index[maker], readers_or_end))
        return Workload(
            self.problem,
            placement,
            tuple(transfers),
            tuple(durations),
            tuple(resources),
            tuple(before),
            tuple(buffer for buffer in buffers if buffer.bytes),
            self._persistent(placement, options),
            self._limits,
        )

    def _persistent(
        self,
        placement: Mapping[str, Placement],
        options: Mapping[str, Option],
    ) -> tuple[int, ...]:
        """Bytes that stay for the whole horizon."""
        held = {
            (value.name, options[consumer].layout_read(value.name), d): value
            for value in self._kept
            for consumer in value.consumers
            for d in placement[consumer].devices
        }
        used = [0] * len(self._device)
        for (_, layout, d), value in held.items():
            used[self._device[d]] += value.bytes[layout]
        return tuple(used)
