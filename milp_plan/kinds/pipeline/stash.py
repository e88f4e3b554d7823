"""Problems with hosts or recomputation, read as pipelines whose activations need not stay.

A *stash* is what a step leaves on its device for later steps of the same device, such as the
activations of a forward pass for its two gradients. Until the first of its readers it may stay, be
dropped and *recomputed* by a second run of its maker, or *leave* to a host and come back. This
adds no law: a plan is a list of runs and transfers (see docs/laws.md, "Runs again, and
hosts"), and problems of another form are refused with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from milp_plan.core import (
    FULL,
    Channel,
    CommunicationModel,
    Device,
    DeviceClass,
    MemoryLaw,
    Objective,
    OperatorRun,
    Plan,
    PlanningProblem,
    Transfer,
    Value,
)
from milp_plan.core.amounts import size_text
from milp_plan.core.view import view
from milp_plan.cost.routes import routes

from .shop import Journey

HOST = "host-"
"""Prefix of the host of a device."""

_INSTANT = 10**18
"""Bandwidth of lanes that carry no payload: only their latency counts."""


@dataclass(frozen=True, slots=True)
class StashStep:
    """An operator on its device; ``ticks`` is positive."""

    name: str
    device: str
    ticks: int


@dataclass(frozen=True, slots=True)
class StashValue:
    """A value on the device of its maker, and its travel times to the host and back.

    ``out_ticks`` and ``back_ticks`` are ``None`` where it cannot travel.
    """

    value: str
    bytes: int
    maker: str
    last: str
    out_ticks: int | None = None
    back_ticks: int | None = None


@dataclass(frozen=True, slots=True)
class Stash:
    """Values of one maker that need not stay until ``first`` reads them.

    ``first`` precedes all other readers; ``again`` says whether the maker may run again; ``host``
    is where the values may wait, ``None`` where they cannot leave.
    """

    maker: str
    first: str
    values: tuple[StashValue, ...]
    again: bool
    host: str | None

    @property
    def bytes(self) -> int:
        """Bytes of all its values."""
        return sum(value.bytes for value in self.values)


Trips = Mapping[str, tuple[int, int]]
"""Value -> starts of its journeys to the host and back, ticks."""


@dataclass(frozen=True)
class StashShop:
    """A problem as steps, arcs, values on devices, and the stashes among these values.

    Parameters
    ----------
    problem
        The problem that was read.
    steps
        By name, topologically sorted.
    arcs
        (before, after, lag): ``after`` starts at least ``lag`` ticks after ``before`` stops.
    values
        Every value that has bytes.
    stashes
        Values that need not stay, by maker.
    limits
        Device -> memory left by persistent values, bytes; devices without a limit are missing.
    sent
        Transfers between steps.
    """

    problem: PlanningProblem
    steps: Mapping[str, StashStep]
    arcs: tuple[tuple[str, str, int], ...]
    values: tuple[StashValue, ...]
    stashes: tuple[Stash, ...]
    limits: Mapping[str, int]
    sent: tuple[Journey, ...]

    @cached_property
    def on_device(self) -> dict[str, tuple[str, ...]]:
        """Device -> its steps, in topological order."""
        rows: dict[str, list[str]] = {}
        for step in self.steps.values():
            rows.setdefault(step.device, []).append(step.name)
        return {device: tuple(names) for device, names in rows.items()}

    def plan(
        self, starts: Mapping[str, int], again: Mapping[str, int], trips: Trips, planner: str = ""
    ) -> Plan:
        """Return the plan of starts of steps, of second runs by operator, and of journeys."""
        hosts = {k.value: s.host for s in self.stashes for k in s.values if s.host is not None}
        timed = [*starts.items(), *again.items()]
        runs = tuple(
            OperatorRun(
                name, self.problem.graph.operator(name).options[0].name,
                (self.steps[name].device,), start, start + self.steps[name].ticks,
            )
            for name, start in timed
        )  # fmt: skip
        transfers = []
        for way in self.sent:
            begin = starts[way.producer] + self.steps[way.producer].ticks
            transfers.append(
                Transfer(way.value, way.source, way.target, way.layout, begin, begin + way.ticks)
            )
        for value in self.values:
            if value.value in trips:
                out, back = trips[value.value]
                here, there = (self.steps[value.maker].device,), (hosts[value.value] or "",)
                assert value.out_ticks is not None
                assert value.back_ticks is not None
                gone = out + value.out_ticks
                transfers.append(Transfer(value.value, here, there, FULL, out, gone))
                transfers.append(
                    Transfer(value.value, there, here, FULL, back, back + value.back_ticks)
                )
        name, mark = self.problem.name, self.problem.fingerprint
        return Plan(name, runs, tuple(transfers), fingerprint=mark, planner=planner)


def with_hosts(problem: PlanningProblem, ticks: int) -> PlanningProblem:
    """Give every device a host of its own without limit, and two lanes of ``ticks`` ticks.

    A lane carries one value at a time, whatever its bytes; transfers hold their channels.
    """
    cluster, devices = problem.cluster, problem.cluster.device_names
    sizes = (replace(v, transfer_bytes=dict.fromkeys(v.bytes, 0)) for v in problem.graph.values)
    ends = [pair for d in devices for pair in ((d, HOST + d), (HOST + d, d))]
    lanes = tuple(Channel(a, b, ticks, _INSTANT) for a, b in ends)
    return replace(
        problem,
        graph=replace(problem.graph, values=tuple(sizes)),
        cluster=replace(
            cluster,
            device_classes=(
                *cluster.device_classes, *(DeviceClass(HOST + d, None, host=True) for d in devices)
            ),
            devices=(*cluster.devices, *(Device(HOST + d, HOST + d, None) for d in devices)),
            channels=(*cluster.channels, *lanes),
            communication=CommunicationModel.CHANNEL,
        ),
    )  # fmt: skip


class _NotStashes(Exception):
    """Reason why a problem cannot be read."""


@view
def read_stashes(problem: PlanningProblem) -> StashShop | str:
    """Return a problem as a pipeline of stashes, or the reason why it is not one."""
    try:
        return _Reader(problem).read()
    except _NotStashes as reason:
        return str(reason)


class _Reader:
    def __init__(self, problem: PlanningProblem) -> None:
        self.problem, self.graph, self.cluster = problem, problem.graph, problem.cluster
        self.steps: dict[str, StashStep] = {}
        self.arcs: dict[tuple[str, str], int] = {}
        self.values: list[StashValue] = []
        self.sent: list[Journey] = []
        self.hosts = self.hosts_of_devices()

    def read(self) -> StashShop:
        problem = self.problem
        if not problem.allows_memory_saving:
            raise _NotStashes("nothing may run again or wait on a host")
        if problem.objective is not Objective.MAKESPAN:
            raise _NotStashes(f"the objective is {problem.objective.value}, not makespan")
        if problem.memory_law is not MemoryLaw.INSTANT:
            raise _NotStashes("memory is counted without a clock")
        if self.cluster.communication is CommunicationModel.ENDPOINT:
            raise _NotStashes("transfers hold ports of two devices")
        for name in self.graph.topological_order:
            self.step(name)
        self.before = self.graph.ancestors
        for value in self.graph.values:
            if value.producer is not None:
                self.value(value)
        self.check_channels()
        stashes = tuple(stash for name in self.steps if (stash := self.stash(name)) is not None)
        self.check_hosts(stashes)
        arcs = tuple((a, b, lag) for (a, b), lag in self.arcs.items())
        return StashShop(
            problem, self.steps, arcs, tuple(self.values), stashes, self.limits(), tuple(self.sent)
        )

    def hosts_of_devices(self) -> dict[str, str]:
        """Return device -> the first host with a channel each way."""
        ends = {(c.source, c.target) for c in self.cluster.channels}
        hosts: dict[str, str] = {}
        for device in self.cluster.device_names:
            for host in self.cluster.device_names:
                both = (device, host) in ends and (host, device) in ends
                if host in self.cluster.hosts and device not in hosts and both:
                    hosts[device] = host
        return hosts

    def step(self, name: str) -> None:
        places = self.problem.placements(name)
        if len(places) != 1 or len(places[0].devices) != 1:
            text = f"{len(places)} placements" if len(places) != 1 else "several devices"
            raise _NotStashes(f"operator {name!r} has {text}, not one device")
        ticks = self.problem.duration_ticks(name, places[0])
        if not ticks:
            raise _NotStashes(f"operator {name!r} takes no time")
        option = self.graph.operator(name).options[0]
        if option.workspace_bytes or {*option.reads.values(), *option.writes.values()} - {FULL}:
            raise _NotStashes(f"operator {name!r} has a workspace or shards")
        self.steps[name] = StashStep(name, places[0].devices[0], ticks)

    # -- values ------------------------------------------------------------------------------

    def value(self, value: Value) -> None:
        """Add arcs, transfers and bytes of a value."""
        assert value.producer is not None
        made = self.problem.placements(value.producer)[0]
        device, targets = made.devices[0], {}
        for reader in value.consumers:
            place = self.problem.placements(reader)[0]
            ways = routes(self.problem, value, made, reader, place)
            if ways is None or len(ways) > 1 or (ways and len(ways[0].resources) > 1):
                raise _NotStashes(f"value {value.name!r} has no single route to {reader!r}")
            lag = ways[0].duration_ticks if ways else 0
            key = (value.producer, reader)
            self.arcs[key] = max(lag, self.arcs.get(key, 0))
            targets.update({way.target: way for way in ways})
        for way in targets.values():
            self.sent.append(
                Journey(
                    value.name, value.producer, way.source, way.target, FULL, way.duration_ticks
                )
            )
        size = value.bytes[FULL]
        if targets and size:
            raise _NotStashes(f"value {value.name!r} takes memory on two devices")
        if value.is_kept and size and self.cluster.device(device).memory_bytes is not None:
            raise _NotStashes(f"value {value.name!r} is kept to the end")
        if size:
            last = self.extreme(value, last=True) or value.producer
            host = self.hosts.get(device)
            trip: Sequence[int | None] = (None, None)
            if host is not None and value.consumers:
                trip = self.lane(value, device, host), self.lane(value, host, device)
            self.values.append(StashValue(value.name, size, value.producer, last, *trip))

    def lane(self, value: Value, source: str, target: str) -> int:
        channel = self.cluster.channel(source, target)
        assert channel is not None
        return channel.transfer_ticks(value.payload(FULL), value.messages)

    def extreme(self, value: Value, *, last: bool) -> str | None:
        """Return the reader before all others, or with ``last`` the one after all others."""
        names = set(value.consumers)
        if not names:
            return None
        for name in names:
            others = names - {name}
            if last and others <= self.before[name]:
                return name
            if not last and all(name in self.before[o] for o in others):
                return name
        raise _NotStashes(f"the readers of {value.name!r} are not ordered")

    def stash(self, name: str) -> Stash | None:
        """Return the values of a step that need not stay; ``None`` if there are none."""
        values = tuple(
            k for k in self.values if k.maker == name and self.graph.value(k.value).consumers
        )
        if not values:
            return None
        firsts = [self.extreme(self.graph.value(k.value), last=False) for k in values]
        first = next(
            (f for f in firsts if f and all(f == o or f in self.before[o or f] for o in firsts)),
            None,
        )
        if first is None:
            raise _NotStashes(f"the readers of what {name!r} makes are not ordered")
        again = self.graph.operator(name).recomputable
        if again:
            self.check_inputs(name)
        names = {k.value for k in values}
        others = any(
            reader in self.before[first]
            for v in self.graph.outputs[name]
            if v.name not in names
            for reader in v.consumers
        )  # the outputs of the first run must be read, too
        host = self.hosts.get(self.steps[name].device)
        timed = all(k.out_ticks and k.back_ticks for k in values)
        stash = Stash(name, first, values, again and others, host if timed else None)
        return stash if stash.again or stash.host else None

    def check_inputs(self, name: str) -> None:
        """Check that a recomputed step finds its inputs, which must have no bytes."""
        for value in self.graph.inputs[name]:
            if not value.persistent and any(value.bytes.values()):
                raise _NotStashes(f"{name!r} may run again and its input {value.name!r} has bytes")

    # -- the rest ----------------------------------------------------------------------------

    def check_channels(self) -> None:
        """Check that transfers between steps never collide.

        Each must be no longer than the next step of its device. Runs of one device stop at least a
        step apart, so transfers of equal time, no longer than the shortest of those steps, can all
        leave at once and never wait. Recomputation changes nothing: nothing leaves after it.
        """
        if self.cluster.communication is CommunicationModel.DELAY:
            return
        by_channel: dict[tuple[str, ...], list[Journey]] = {}
        for way in self.sent:
            by_channel.setdefault((*way.source, *way.target), []).append(way)
        for channel, transfers in by_channel.items():
            apart = min(self.steps[way.producer].ticks for way in transfers)
            lengths = {way.ticks for way in transfers}
            twice = len({way.producer for way in transfers}) < len(transfers)
            if max(lengths) and (len(lengths) > 1 or max(lengths) > apart or twice):
                raise _NotStashes(f"transfers on {channel} may delay each other")

    def check_hosts(self, stashes: Sequence[Stash]) -> None:
        """Check that a host has room for everything that could wait on it."""
        for host in set(self.hosts.values()):
            limit = self.cluster.device(host).memory_bytes
            most = sum(stash.bytes for stash in stashes if stash.host == host)
            if limit is not None and most > limit:
                room, needed = (size_text(self.problem.units, size) for size in (limit, most))
                raise _NotStashes(f"host {host!r} holds {room}, {needed} may have to wait")

    def limits(self) -> dict[str, int]:
        """Return device -> memory left by persistent values, bytes."""
        used: dict[str, int] = {}
        for value in self.graph.values:
            if value.persistent:
                for place in {self.steps[c].device for c in value.consumers}:
                    used[place] = used.get(place, 0) + value.bytes[FULL]
        return {
            device.name: device.memory_bytes - used.get(device.name, 0)
            for device in self.cluster.devices
            if device.memory_bytes is not None and device.name not in self.cluster.hosts
        }
