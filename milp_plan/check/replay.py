"""Replays a plan: which values occupy how many bytes on each device, and when.

Every copy, workspace and persistent value becomes a holding with a device, a size and a half-open
interval; sorting the ends of the intervals as events gives each device's memory over time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from milp_plan.core import MemoryLaw

from .copies import Trail
from .reading import Distribution, Journey, Reading, Run, Times


@dataclass(frozen=True, slots=True)
class Holding:
    """Bytes in use on one device for some time.

    Parameters
    ----------
    device, name, kind
        The device, the operator or value, and ``persistent``, ``workspace``, ``native`` or
        ``copy``.
    num_bytes
        Bytes on this device.
    start_ticks, stop_ticks
        Half-open interval. No start: from before the first instant; no stop: to after the last.
        Persistent values and, under the static law, everything have neither; what is kept has no
        stop.
    """

    device: str
    name: str
    kind: str
    num_bytes: int
    start_ticks: int | None = None
    stop_ticks: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Memory of one device over time.

    Parameters
    ----------
    device, limit_bytes
        The device and its memory limit; ``None`` for no limit.
    persistent_bytes
        Bytes in use from the first to the last instant.
    peak_bytes, peak_ticks
        Largest sum, and the first time it is reached.
    steps
        (time, bytes): the sum from that time on, until the next step. The first is at time 0
        (earlier only in a plan that breaks that rule); each differs from the one before it.
    """

    device: str
    limit_bytes: int | None
    persistent_bytes: int
    peak_bytes: int
    peak_ticks: int
    steps: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Replay:
    """Memory of every device, in device order, up to the makespan (ticks)."""

    devices: Mapping[str, DeviceMemory]
    holdings: tuple[Holding, ...]
    makespan_ticks: int

    @property
    def peak_bytes(self) -> int:
        """Largest sum on any device at any instant."""
        return max(memory.peak_bytes for memory in self.devices.values())

    def holders(self, device: str, time_ticks: int) -> tuple[Holding, ...]:
        """Return the holdings of a device at an instant, largest first."""
        holdings = [
            holding
            for holding in self.holdings
            if holding.device == device
            and holding.num_bytes > 0
            and (holding.start_ticks is None or holding.start_ticks <= time_ticks)
            and (holding.stop_ticks is None or time_ticks < holding.stop_ticks)
        ]
        return tuple(sorted(holdings, key=lambda holding: (-holding.num_bytes, holding.name)))


_Held = tuple[str, str, str, int, int, int | None]
"""Fields of a ``Holding`` with times; plain tuples make the replay fast."""


class Tape:
    """The holdings of a reading, and the memory use over time."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.static = reading.facts.problem.memory_law is MemoryLaw.STATIC
        self.persistent = list(_persistent(reading))
        self.timed = [] if self.static else list(_timed(reading))
        self.charged = list(_charged(reading)) if self.static else []

    def memories(self) -> dict[str, DeviceMemory]:
        """Memory of every device, in device order."""
        limits = self.reading.facts.limits
        fixed = dict.fromkeys(limits, 0)
        for holding in self.persistent:
            fixed[holding.device] += holding.num_bytes
        always = dict(fixed)
        for holding in self.charged:
            always[holding.device] += holding.num_bytes
        events: dict[str, list[tuple[int, int]]] = {device: [] for device in limits}
        for device, _, _, num_bytes, start, stop in self.timed:
            events[device].append((start, num_bytes))
            if stop is not None:
                events[device].append((stop, -num_bytes))
        memory_of = {}
        for device, limit in limits.items():
            steps = _steps(always[device], events[device])
            peak_ticks, peak = max(steps, key=itemgetter(1))
            memory_of[device] = DeviceMemory(device, limit, fixed[device], peak, peak_ticks, steps)
        return memory_of

    def holdings(self) -> tuple[Holding, ...]:
        """All holdings, persistent values first."""
        return (*self.persistent, *self.charged, *(Holding(*entry) for entry in self.timed))


def replay_of(reading: Reading) -> Replay:
    """Return memory use over time, as far as the plan is meaningful."""
    tape = Tape(reading)
    stops = [run.times[1] for run in reading.counted if run.times is not None]
    return Replay(tape.memories(), tape.holdings(), max(stops, default=0))


def _steps(always: int, events: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    events.sort()
    used = always
    steps: list[tuple[int, int]] = []
    if not events or events[0][0] > 0:
        steps.append((0, always))
    for time, changes in groupby(events, key=itemgetter(0)):
        used += sum(change for _, change in changes)
        if not steps or used != steps[-1][1]:
            steps.append((time, used))
    return tuple(steps)


def _persistent(reading: Reading) -> Iterator[Holding]:
    for value in reading.facts.persistent:
        lying: set[tuple[str, str]] = set()
        for run in (run for name in value.consumers for run in reading.runs_of.get(name, ())):
            layout = run.option.layout_read(value.name)
            for device in run.site:
                if (device, layout) not in lying:
                    lying.add((device, layout))
                    yield Holding(device, value.name, "persistent", value.bytes[layout])


def _charged(reading: Reading) -> Iterator[Holding]:
    """Yield every copy that is ever stored and the largest workspace, for the static law."""
    largest: dict[str, Run] = {}
    for run in reading.runs.values():
        for device in run.site:
            best = largest.get(device)
            if best is None or run.option.workspace_bytes > best.option.workspace_bytes:
                largest[device] = run
    for device, run in largest.items():
        yield Holding(device, run.operator, "workspace", run.option.workspace_bytes)
    for distribution in reading.distributions:
        name, num_bytes = distribution.value.name, distribution.value.bytes
        for device in distribution.producer.site:
            yield Holding(device, name, "native", num_bytes[distribution.layout])
        for journey in reading.journeys_of.get(name, ()):
            for device in journey.target:
                yield Holding(device, name, "copy", num_bytes[journey.layout])


def _timed(reading: Reading) -> Iterator[_Held]:
    for run in reading.counted:
        if run.times is not None and run.option.workspace_bytes and run.times[0] < run.times[1]:
            for device in run.site:
                yield (device, run.operator, "workspace", run.option.workspace_bytes, *run.times)
    for distribution in reading.distributions:
        journeys = reading.journeys_of.get(distribution.value.name, [])
        if distribution.producer.times is not None:
            yield from _native(distribution, journeys, distribution.producer.times)
        for journey in journeys:
            if journey.times is not None:
                yield from _copy(distribution, journey, journey.times)
    for trail in reading.trails:
        yield from _trailed(trail)


def _trailed(trail: Trail) -> Iterator[_Held]:
    for copy in trail.copies:
        kind = "native" if copy.native else "copy"
        num_bytes = trail.value.bytes[copy.layout]
        for device, end in copy.until.items():
            if copy.stays or copy.maker.start_ticks < end:
                until = None if copy.stays else end
                yield (device, trail.value.name, kind, num_bytes, copy.maker.start_ticks, until)


def _native(distribution: Distribution, journeys: list[Journey], times: Times) -> Iterator[_Held]:
    value, (start, stop) = distribution.value, times
    num_bytes = value.bytes[distribution.layout]
    if value.is_kept:
        for device in distribution.producer.site:
            yield (device, value.name, "native", num_bytes, start, None)
        return
    until = dict.fromkeys(distribution.producer.site, stop)
    for run, devices in distribution.native:
        if run.times is not None:
            for device in devices:
                until[device] = max(until[device], run.times[1])
    for journey in journeys:
        if journey.times is not None:
            for device in journey.source:
                if device in until:
                    until[device] = max(until[device], journey.times[1])
    for device, end in until.items():
        if start < end:
            yield (device, value.name, "native", num_bytes, start, end)


def _copy(distribution: Distribution, journey: Journey, times: Times) -> Iterator[_Held]:
    value, (start, stop) = distribution.value, times
    for run in distribution.deliveries.get((journey.target, journey.layout), ()):
        if run.times is not None:
            stop = max(stop, run.times[1])
    if start < stop:
        for device in journey.target:
            yield (device, value.name, "copy", value.bytes[journey.layout], start, stop)
