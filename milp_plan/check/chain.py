"""The chain of tasks that a schedule's makespan hangs on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from milp_plan.core import Plan, PlanningProblem

from .facts import Facts
from .reading import Reading


@dataclass(frozen=True, slots=True)
class Link:
    """One task of the chain.

    Parameters
    ----------
    name
        Operator, or value that travels.
    resources
        Devices, channels or ports it holds.
    start_ns, stop_ns
        Its time.
    waited_ns
        Ticks between the stop of the link before it (or time 0) and its start.
    """

    name: str
    resources: tuple[str, ...]
    start_ns: int
    stop_ns: int
    waited_ns: int


class _Tasks:
    """Timed tasks of a reading, with what each of them has to wait for."""

    def __init__(self, reading: Reading) -> None:
        self.names: list[str] = []
        self.resources: list[tuple[str, ...]] = []
        self.times: list[tuple[int, int]] = []
        self.inputs: list[list[int]] = []
        tasks: dict[int, int] = {}
        for run in reading.counted:
            if run.times is not None:
                tasks[id(run)] = self._add(run.operator, run.site, run.times)
        self.runs = list(tasks.values())
        self._link(reading, tasks)
        self._link_trails(reading, tasks)
        self.users: dict[str, list[int]] = {}
        for task, resources in enumerate(self.resources):
            for name in resources:
                self.users.setdefault(name, []).append(task)

    def _add(self, name: str, resources: tuple[str, ...], times: tuple[int, int]) -> int:
        self.names.append(name)
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
                    held = reading.facts.held(journey.source, journey.target)
                    task = self._add(entry.value.name, held, journey.times)
                    self.inputs[task].append(producer)
                    for run in entry.deliveries.get((journey.target, journey.layout), ()):
                        if run.times is not None:
                            self.inputs[runs[id(run)]].append(task)

    def _link_trails(self, reading: Reading, tasks: dict[int, int]) -> None:
        """Values that are made again or wait on a host: readers wait for what they read."""
        for trail in reading.trails:
            for sending, _ in trail.sent:
                held = reading.facts.held(sending.source, sending.target)
                times = (sending.task.start_ns, sending.task.stop_ns)
                tasks[id(sending.task.entry)] = self._add(trail.value.name, held, times)
            for copy in trail.copies:
                for reader in copy.readers:
                    self.inputs[tasks[id(reader.entry)]].append(tasks[id(copy.maker.entry)])

    def before(self, task: int) -> Iterable[int]:
        """Tasks that this one may wait for: its inputs first, then its resources' other users."""
        yield from self.inputs[task]
        for name in self.resources[task]:
            yield from self.users[name]


def critical_chain(problem: PlanningProblem, plan: Plan) -> tuple[Link, ...]:
    """Walk back from a last operator, each time to the latest task it has to wait for.

    Returns the chain in order of time; empty for a plan without a schedule. A wait inside it is
    time that neither inputs nor resources account for: memory, or slack.
    """
    tasks = _Tasks(Reading(Facts(problem), plan))
    if not tasks.runs:
        return ()
    task: int | None = max(tasks.runs, key=lambda index: tasks.times[index][1])
    links: list[Link] = []
    seen: set[int] = set()
    while task is not None:
        seen.add(task)
        start, stop = tasks.times[task]
        earlier = [t for t in tasks.before(task) if t not in seen and tasks.times[t][1] <= start]
        latest = max(earlier, key=lambda index: tasks.times[index][1], default=None)
        waited = start - (0 if latest is None else tasks.times[latest][1])
        links.append(Link(tasks.names[task], tasks.resources[task], start, stop, waited))
        task = latest
    return tuple(reversed(links))
