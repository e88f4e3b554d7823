"""Reading a problem with offload lanes: steps on devices, and holds that stay or travel.

Where every step knows its device, an activation that may be offloaded has four moments: its
producer starts (allocated), the outbound journey stops (released), the inbound journey starts
(allocated again), its last reader stops (released). A hold that stays has the first and the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from milp_plan.core import (
    FULL,
    CommunicationModel,
    MemoryLaw,
    Operator,
    OperatorRun,
    Placement,
    Plan,
    PlanningProblem,
    Transfer,
    Value,
)
from milp_plan.core.view import view
from milp_plan.cost.routes import Route, routes


@dataclass(frozen=True, slots=True)
class Step:
    """An operator on the one device that can run it; ``ticks`` are positive."""

    name: str
    device: str
    ticks: int
    micro_batch: int | None


@dataclass(frozen=True, slots=True)
class Item:
    """Bytes on a device from the start of ``producer`` to the stop of ``last``."""

    device: str
    bytes: int
    producer: str
    last: str


@dataclass(frozen=True, slots=True)
class Held:
    """One value of a hold.

    Parameters
    ----------
    value, copy
        Before and after the hold.
    device, bytes
        Where it lies, and what it takes there.
    producer, near
        Step that makes it; steps that read it before any travelling can matter.
    readers, last
        Steps that read the copy; the one that all others precede.
    out_ns, back_ns
        Ticks on the lanes.
    lanes
        Names of the channels, outbound and inbound.
    layout
        Of what travels out: another one than ``full`` where the host has the value anyway.
    """

    value: str
    copy: str
    device: str
    bytes: int
    producer: str
    near: tuple[str, ...]
    readers: tuple[str, ...]
    last: str
    out_ns: int
    back_ns: int
    lanes: tuple[str, str]
    layout: str


@dataclass(frozen=True, slots=True)
class Hold:
    """An operator of no length that keeps values on the device or sends them to the host."""

    name: str
    micro_batch: int | None
    stay: Placement
    leave: Placement
    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class Passing:
    """A transfer between steps that nothing can get in the way of."""

    value: str
    producer: str
    route: Route


Trips = Mapping[str, tuple[int, int]]
"""Held value -> start of its outbound and of its inbound journey; a value that stays has none."""


@dataclass(frozen=True)
class OffloadShop:
    """A problem whose only choices are orders, times, and which holds travel.

    Parameters
    ----------
    problem
        Where it was read from.
    steps
        By name, in topological order.
    holds
        In file order.
    items
        Bytes that cannot travel.
    arcs
        (before, after, lag): ``after`` starts at least ``lag`` ticks after ``before`` stops. A
        hold that stays adds no lag, so its arc has none.
    limits
        Device -> bytes beside persistent values; devices without a limit are missing.
    journeys
        Transfers between steps.
    """

    problem: PlanningProblem
    steps: Mapping[str, Step]
    holds: tuple[Hold, ...]
    items: tuple[Item, ...]
    arcs: tuple[tuple[str, str, int], ...]
    limits: Mapping[str, int]
    journeys: tuple[Passing, ...]

    @cached_property
    def held(self) -> dict[str, Held]:
        """Every value that may travel, by name."""
        return {held.value: held for hold in self.holds for held in hold.held}

    @cached_property
    def on_device(self) -> dict[str, tuple[str, ...]]:
        """Device -> its steps, in topological order."""
        found: dict[str, list[str]] = {}
        for step in self.steps.values():
            found.setdefault(step.device, []).append(step.name)
        return {device: tuple(names) for device, names in found.items()}

    @cached_property
    def alone(self) -> frozenset[str]:
        """Values whose hold has no other."""
        return frozenset(h.held[0].value for h in self.holds if len(h.held) == 1)

    @cached_property
    def before(self) -> dict[str, frozenset[str]]:
        """Step -> steps that precede it."""
        found: dict[str, frozenset[str]] = {}
        direct: dict[str, list[str]] = {name: [] for name in self.steps}
        for before, after, _ in self.arcs:
            direct[after].append(before)
        for name in self.steps:
            found[name] = frozenset(direct[name]).union(*(found[b] for b in direct[name]))
        return found

    def first_reader(self, held: Held) -> str | None:
        """Reader that precedes all others; ``None`` where there is no such one."""
        names = set(held.readers)
        first = [n for n in names if all(o == n or n in self.before[o] for o in names)]
        return first[0] if first else None

    @cached_property
    def beginnings(self) -> tuple[str, ...]:
        """One step for each class of :attr:`alike`: the first of its first micro-batch."""
        return tuple(
            next(n for n, step in self.steps.items() if step.micro_batch == members[0])
            for members in self.alike
        )

    @cached_property
    def alike(self) -> tuple[tuple[int, ...], ...]:
        """Classes of micro-batches that may be renamed into each other, names included."""
        found: dict[object, list[int]] = {}
        for batch in sorted(
            {s.micro_batch for s in self.steps.values() if s.micro_batch is not None}
        ):
            found.setdefault(self._signature(batch), []).append(batch)
        return tuple(tuple(members) for members in found.values() if len(members) > 1)

    def _signature(self, batch: int) -> object:
        """Equal for micro-batches with the same steps, holds, bytes and arcs."""
        suffix = f"@{batch}"

        def base(name: str) -> str:
            return name.removesuffix(suffix) if name.endswith(suffix) else f"\0{name}"

        own = {name for name, step in self.steps.items() if step.micro_batch == batch}
        parts: list[object] = [
            sorted((base(n), self.steps[n].device, self.steps[n].ticks) for n in own),
            sorted((base(a), base(b), lag) for a, b, lag in self.arcs if {a, b} & own),
            sorted(
                (base(i.producer), base(i.last), i.bytes)
                for i in self.items if {i.producer, i.last} & own
            ),
            sorted((base(j.value), *j.route.source) for j in self.journeys if j.producer in own),
        ]  # fmt: skip
        for hold in self.holds:
            for h in hold.held:
                if {h.producer, *h.near, *h.readers} & own or hold.micro_batch == batch:
                    names = map(base, (hold.name, h.value, h.copy, h.producer, *h.near, *h.readers))
                    parts.append((tuple(names), h.bytes, h.out_ns, h.back_ns, h.lanes))
        return repr(parts)

    def plan(self, starts: Mapping[str, int], trips: Trips, planner: str | None = None) -> Plan:
        """Plan from starts of steps and of journeys.

        A hold that stays runs when the last step that reads its value before it has stopped.
        """
        stops = {name: starts[name] + step.ticks for name, step in self.steps.items()}
        runs = []
        transfers = []
        for name, step in self.steps.items():
            option = self.problem.graph.operator(name).options[0].name
            runs.append(OperatorRun(name, option, (step.device,), starts[name], stops[name]))
        for hold in self.holds:
            place, moments = hold.stay, []
            for held in hold.held:
                if held.value in trips:
                    place = hold.leave
                    out, back = trips[held.value]
                    here, there = (held.device,), place.devices
                    gone = out + held.out_ns
                    transfers.append(Transfer(held.value, here, there, held.layout, out, gone))
                    transfers.append(
                        Transfer(held.copy, there, here, FULL, back, back + held.back_ns)
                    )
                    moments.append(gone)
                else:
                    moments += [stops[n] for n in (held.producer, *held.near)]
            moment = max(moments)
            runs.append(OperatorRun(hold.name, place.option, place.devices, moment, moment))
        for journey in self.journeys:
            way, begin = journey.route, stops[journey.producer]
            end = begin + way.duration_ns
            transfers.append(Transfer(way.value, way.source, way.target, way.layout, begin, end))
        return Plan(
            self.problem.name, tuple(runs), tuple(transfers),
            fingerprint=self.problem.fingerprint, planner=planner or "",
        )  # fmt: skip

    def trips_of(self, plan: Plan) -> dict[str, tuple[int, int]]:
        """Journeys of the values that travel in a plan."""
        copies = {held.copy: held.value for held in self.held.values()}
        outs = {t.value: t.start_ns or 0 for t in plan.transfers if t.value in self.held}
        backs = {copies[t.value]: t.start_ns or 0 for t in plan.transfers if t.value in copies}
        return {value: (outs[value], backs[value]) for value in outs}


class NotAnOffloadShop(Exception):
    """Why a problem cannot be read, in words."""


@view
def read_offload(problem: PlanningProblem) -> OffloadShop | str:
    """Read a problem, or say in words why its form is another one."""
    try:
        return _Reader(problem).read()
    except NotAnOffloadShop as reason:
        return str(reason)


class _Reader:
    def __init__(self, problem: PlanningProblem) -> None:
        self.problem, self.graph = problem, problem.graph
        self.steps: dict[str, Step] = {}
        self.places: dict[str, tuple[Placement, ...]] = {}
        self.arcs: dict[tuple[str, str], int] = {}
        self.items: list[Item] = []
        self.journeys: list[Passing] = []
        self.taken: set[str] = set()

    def read(self) -> OffloadShop:
        """Read everything."""
        self.check_settings()
        holds = []
        for name in self.graph.topological_order:
            operator = self.graph.operator(name)
            if self.is_hold(operator):
                holds.append(operator)
            else:
                self.add_step(operator)
        self.before = self.graph.ancestors
        found = tuple(self.hold(operator) for operator in holds)
        for value in self.graph.values:
            if value.producer in self.steps:
                self.value(value)
        self.check_channels()
        arcs = tuple((a, b, lag) for (a, b), lag in self.arcs.items())
        return OffloadShop(
            self.problem, self.steps, found, tuple(self.items), arcs, self.limits(),
            tuple(self.journeys),
        )  # fmt: skip

    def check_settings(self) -> None:
        problem = self.problem
        if problem.memory_law is not MemoryLaw.INSTANT:
            raise NotAnOffloadShop("memory is counted without a clock")
        if problem.cluster.communication is not CommunicationModel.CHANNEL:
            raise NotAnOffloadShop("transfers do not hold their channels, as lanes do")

    def is_hold(self, operator: Operator) -> bool:
        """Two places, no length; anything else must be a step."""
        places = self.problem.placements(operator.name)
        self.places[operator.name] = places
        if len(places) != 2:
            return False
        return all(self.problem.duration_ns(operator.name, p) == 0 for p in places)

    def add_step(self, operator: Operator) -> None:
        places = self.places[operator.name]
        if len(places) != 1 or len(places[0].devices) != 1:
            found = f"{len(places)} placements" if len(places) != 1 else "several devices"
            raise NotAnOffloadShop(f"operator {operator.name!r} has {found}, not one device")
        ticks = self.problem.duration_ns(operator.name, places[0])
        if not ticks:
            raise NotAnOffloadShop(f"operator {operator.name!r} takes no time")
        option = operator.options[0]
        if option.workspace_bytes or option.reads or option.writes:
            raise NotAnOffloadShop(f"operator {operator.name!r} has a workspace or layouts")
        self.steps[operator.name] = Step(
            operator.name, places[0].devices[0], ticks, operator.micro_batch
        )

    def last_of(self, value: Value, readers: Iterable[str]) -> str:
        """Return the reader that all others precede."""
        names = set(readers)
        for name in names:
            if names <= self.before[name] | {name}:
                return name
        raise NotAnOffloadShop(f"the readers of {value.name!r} have no last one")

    # -- holds -------------------------------------------------------------------------------

    def hold(self, operator: Operator) -> Hold:
        """Read a hold: where it may be, and what it holds."""
        name = operator.name
        ways: dict[tuple[str, ...], Placement] = {p.devices: p for p in self.places[name]}
        inputs, outputs = self.graph.inputs[name], self.graph.outputs[name]
        if len(ways) < 2 or len(inputs) != len(outputs) or not inputs:
            raise NotAnOffloadShop(f"operator {name!r} is no hold: one copy for each value")
        home = {self.steps[v.producer].device for v in inputs if v.producer in self.steps}
        if len(home) != 1 or (next(iter(home)),) not in ways:
            raise NotAnOffloadShop(f"operator {name!r} cannot run where its inputs are made")
        stay = ways.pop((next(iter(home)),))
        leave = next(iter(ways.values()))
        host = self.problem.cluster.device(leave.devices[0])
        if host.memory_bytes is not None or host.name in {s.device for s in self.steps.values()}:
            raise NotAnOffloadShop(f"device {host.name!r} is no host without limit and steps")
        if any(option.workspace_bytes or option.writes for option in operator.options):
            raise NotAnOffloadShop(f"operator {name!r} has a workspace or layouts of its own")
        if graph_reads := self.graph.operator(name).option(stay.option).reads:
            raise NotAnOffloadShop(f"operator {name!r} reads {graph_reads} where it stays")
        pairs = zip(inputs, outputs, strict=True)
        held = tuple(self.held(name, stay, leave, *pair) for pair in pairs)
        return Hold(name, operator.micro_batch, stay, leave, held)

    def held(self, name: str, stay: Placement, leave: Placement, value: Value, copy: Value) -> Held:
        near = tuple(c for c in value.consumers if c != name)
        device = stay.devices[0]
        for reader in (*near, *copy.consumers):
            if reader not in self.steps or self.steps[reader].device != device:
                raise NotAnOffloadShop(f"{reader!r} reads {name!r} away from {device!r}")
        if value.is_kept or copy.is_kept:
            raise NotAnOffloadShop(f"value {value.name!r} is kept to the end")
        if not copy.consumers or value.producer not in self.steps:
            raise NotAnOffloadShop(f"value {copy.name!r} has no reader or no step that makes it")
        if value.bytes[FULL] != copy.bytes[FULL]:
            raise NotAnOffloadShop(f"{value.name!r} and its copy differ in bytes")
        if any(n not in self.before[r] for n in near for r in copy.consumers):
            raise NotAnOffloadShop(f"readers of {value.name!r} and of its copy are not ordered")
        self.taken.add(value.name)
        out = self.route(value, self.places[value.producer][0], name, leave)
        back = self.route(copy, leave, copy.consumers[0], self.places[copy.consumers[0]][0])
        if not back.duration_ns:
            raise NotAnOffloadShop(f"value {copy.name!r} travels in no time")
        for reader in copy.consumers:
            self.arc(value.producer, reader, 0)
        for reader in near:
            self.arc(value.producer, reader, 0)
        return Held(
            value.name, copy.name, device, value.bytes[FULL], value.producer, near,
            tuple(copy.consumers), self.last_of(copy, copy.consumers),
            out.duration_ns, back.duration_ns, (out.resources[0], back.resources[0]), out.layout,
        )  # fmt: skip

    def route(self, value: Value, made: Placement, consumer: str, reader: Placement) -> Route:
        ways = routes(self.problem, value, made, consumer, reader)
        if ways is None or len(ways) != 1 or len(ways[0].resources) != 1:
            raise NotAnOffloadShop(f"value {value.name!r} has no lane")
        return ways[0]

    # -- values between steps ----------------------------------------------------------------

    def value(self, value: Value) -> None:
        """Arcs, bytes and journeys of a value that a step makes and no hold takes."""
        producer = value.producer
        assert producer is not None
        readers = [c for c in value.consumers if c in self.steps]
        if value.name in self.taken:
            return
        if len(readers) < len(value.consumers):
            raise NotAnOffloadShop(f"value {value.name!r} is read by a hold that does not take it")
        made = self.places[producer][0]
        sends: dict[tuple[str, ...], Route] = {}
        for reader in readers:
            ways = routes(self.problem, value, made, reader, self.places[reader][0])
            if ways is None:
                raise NotAnOffloadShop(f"value {value.name!r} cannot reach {reader!r}")
            self.arc(producer, reader, max((way.duration_ns for way in ways), default=0))
            sends.update({way.target: way for way in ways})
        size = max(value.bytes.values())
        if sends and size:
            raise NotAnOffloadShop(f"value {value.name!r} takes memory on two devices")
        limit = self.problem.cluster.device(self.steps[producer].device).memory_bytes
        if size and value.is_kept and limit is not None:
            raise NotAnOffloadShop(f"value {value.name!r} is kept to the end")
        self.journeys += [Passing(value.name, producer, way) for way in sends.values()]
        if size:
            last = self.last_of(value, readers or [producer])
            self.items.append(Item(self.steps[producer].device, size, producer, last))

    def arc(self, before: str, after: str, lag: int) -> None:
        self.arcs[before, after] = max(lag, self.arcs.get((before, after), 0))

    def check_channels(self) -> None:
        """Journeys on one channel never meet: each is no longer than what its device does next.

        Producers of one device stop at least a step apart, so journeys that take equal time, no
        more than the shortest of those steps, can all leave at once and never wait.
        """
        by_channel: dict[str, list[Passing]] = {}
        for journey in self.journeys:
            if len(journey.route.resources) != 1:
                raise NotAnOffloadShop(f"value {journey.value!r} holds several channels")
            by_channel.setdefault(journey.route.resources[0], []).append(journey)
        for channel, found in by_channel.items():
            lengths = {journey.route.duration_ns for journey in found}
            apart = min(self.steps[journey.producer].ticks for journey in found)
            twice = len({journey.producer for journey in found}) < len(found)
            if max(lengths) and (len(lengths) > 1 or max(lengths) > apart or twice):
                raise NotAnOffloadShop(f"transfers on {channel} may get in each other's way")

    def limits(self) -> dict[str, int]:
        """Bytes beside persistent values."""
        used: dict[str, int] = {}
        for value in self.graph.values:
            if value.persistent:
                if any(c not in self.steps for c in value.consumers):
                    raise NotAnOffloadShop(f"a hold reads {value.name!r}, which is persistent")
                for place in {self.steps[c].device for c in value.consumers}:
                    used[place] = used.get(place, 0) + value.bytes[FULL]
        return {
            device.name: device.memory_bytes - used.get(device.name, 0)
            for device in self.problem.cluster.devices
            if device.memory_bytes is not None
        }
