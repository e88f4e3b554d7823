"""The critical chain of tasks of a schedule, which ends at its makespan."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter

from milp_plan.core import Plan, PlanningProblem

from .facts import Facts
from .reading import Reading
from .replay import Tape


@dataclass(frozen=True, slots=True)
class Link:
    """One task of the chain.

    Parameters
    ----------
    name
        Operator, or value that is transferred.
    resources
        Devices, channels or ports that it occupies.
    start_ticks, stop_ticks
        Its times.
    waited_ticks
        Ticks between the stop of the task before it (or time 0) and its start.
    cause
        What it waited for: ``value`` (an input), ``device``, ``channel`` (or port), ``memory`` (it
        would not have fitted an instant earlier), ``start`` (nothing), ``unknown`` (slack).
    behind
        Name of the task before it; empty for none.
    """

    name: str
    resources: tuple[str, ...]
    start_ticks: int
    stop_ticks: int
    waited_ticks: int
    cause: str
    behind: str


class _Tasks:
    """Timed tasks of a reading, and the tasks that each of them waits for."""

    def __init__(self, reading: Reading) -> None:
        self.devices = set(reading.facts.limits)
        self.names: list[str] = []
        self.sites: list[tuple[str, ...]] = []
        self.resources: list[tuple[str, ...]] = []
        self.times: list[tuple[int, int]] = []
        self.inputs: list[list[int]] = []
        tasks: dict[int, int] = {}
        for run in reading.counted:
            if run.times is not None:
                tasks[id(run)] = self._add(run.operator, run.site, run.times, run.site)
        self.runs = list(tasks.values())
        self._link(reading, tasks)
        self._link_trails(reading, tasks)
        self.users: dict[str, list[int]] = {}
        for task, resources in enumerate(self.resources):
            for name in resources:
                self.users.setdefault(name, []).append(task)

    def _add(
        self,
        name: str,
        resources: tuple[str, ...],
        times: tuple[int, int],
        site: tuple[str, ...],
    ) -> int:
        """Add a task and return its number; ``site`` are the devices on which it needs memory."""
        self.names.append(name)
        self.sites.append(site)
        self.resources.append(resources)
        self.times.append(times)
        self.inputs.append([])
        return len(self.names) - 1

    def _link(self, reading: Reading, runs: dict[int, int]) -> None:
        for entry in reading.distributions:
            if entry.producer.times is None:
                continue
            producer = runs[id(entry.producer)]
            for run, _ in entry.native:
                if run.times is not None:
                    self.inputs[runs[id(run)]].append(producer)
            for journey in reading.journeys_of.get(entry.value.name, ()):
                if journey.times is not None:
                    resources = reading.facts.occupied(journey.source, journey.target)
                    task = self._add(entry.value.name, resources, journey.times, journey.target)
                    self.inputs[task].append(producer)
                    for run in entry.deliveries.get((journey.target, journey.layout), ()):
                        if run.times is not None:
                            self.inputs[runs[id(run)]].append(task)

    def _link_trails(self, reading: Reading, tasks: dict[int, int]) -> None:
        """Add transfers of values that are made again or stored on a host, and readers' inputs."""
        for trail in reading.trails:
            for sending, _ in trail.sent:
                resources = reading.facts.occupied(sending.source, sending.target)
                times = (sending.task.start_ticks, sending.task.stop_ticks)
                tasks[id(sending.task.entry)] = self._add(
                    trail.value.name, resources, times, sending.target
                )
            for copy in trail.copies:
                for reader in copy.readers:
                    self.inputs[tasks[id(reader.entry)]].append(tasks[id(copy.maker.entry)])

    def before(self, task: int) -> Iterable[int]:
        """Yield tasks that this one may wait for: its inputs, then other tasks on its resources."""
        yield from self.inputs[task]
        for name in self.resources[task]:
            yield from self.users[name]


class _Memory:
    """Memory at the instants at which tasks start."""

    def __init__(self, reading: Reading) -> None:
        tape = Tape(reading)
        self._memories = {} if tape.static else tape.memories()
        self._outputs = reading.facts.problem.graph.outputs
        self._taken: dict[tuple[str, int], list[tuple[str, int]]] = {}
        for device, name, _, num_bytes, start, _ in tape.timed:
            self._taken.setdefault((device, start), []).append((name, num_bytes))

    def lacking(self, name: str, site: tuple[str, ...], start: int) -> bool:
        """Return whether a task needs memory that was not free just before it started."""
        names = {name, *(value.name for value in self._outputs.get(name, ()))}
        return any(self._lacks(device, names, start) for device in site)

    def _lacks(self, device: str, names: set[str], start: int) -> bool:
        memory = self._memories.get(device)
        if memory is None or memory.limit_bytes is None:
            return False
        taken = self._taken.get((device, start), ())
        needed = sum(num_bytes for name, num_bytes in taken if name in names)
        place = bisect_left(memory.steps, start, key=itemgetter(0)) - 1
        used = memory.steps[place][1] if place >= 0 else 0
        return needed > 0 and used + needed > memory.limit_bytes


def critical_chain(problem: PlanningProblem, plan: Plan) -> tuple[Link, ...]:
    """Return the chain from the last operator back, each time to the latest task it waited for.

    It is in order of time, and empty for a plan without a schedule. A wait inside it is time that
    neither inputs nor resources explain: memory, or slack.
    """
    reading = Reading(Facts(problem), plan)
    tasks = _Tasks(reading)
    if not tasks.runs:
        return ()
    memory_at = _Memory(reading)
    task: int | None = max(tasks.runs, key=lambda index: tasks.times[index][1])
    links: list[Link] = []
    seen: set[int] = set()
    while task is not None:
        seen.add(task)
        start, stop = tasks.times[task]
        earlier = [t for t in tasks.before(task) if t not in seen and tasks.times[t][1] <= start]
        latest = max(earlier, key=lambda index: tasks.times[index][1], default=None)
        waited = start - (0 if latest is None else tasks.times[latest][1])
        name, resources = tasks.names[task], tasks.resources[task]
        cause = _cause(tasks, task, latest)
        if waited:
            lacking = memory_at.lacking(name, tasks.sites[task], start)
            cause = "memory" if lacking else "unknown"
        behind = "" if latest is None else tasks.names[latest]
        links.append(Link(name, resources, start, stop, waited, cause, behind))
        task = latest
    return tuple(reversed(links))


def _cause(tasks: _Tasks, task: int, latest: int | None) -> str:
    """Return why a task cannot start before another one has ended."""
    if latest is None:
        return "start"
    if latest in tasks.inputs[task]:
        return "value"
    shared = set(tasks.resources[task]) & set(tasks.resources[latest])
    return "device" if shared & tasks.devices else "channel"
