"""Plans of jobs in the order they have: options, devices, loads and stores stay.

A plan says when runs, loads and stores start and not how long they took when it was made, so what
was held together is not known. Where memory or a host does not admit the earliest starts, more and
more is kept apart (:class:`Apart`).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise

from milp_plan.lp.network import Network

from .problem import Job, JobsPlan, JobsProblem, Option, Run, Weights

MOST_PAIRS = 4_000_000
"""Pairs of tasks of a device, and of jobs, that are kept apart."""


class Apart(IntEnum):
    """What waits for what, beside the orders of devices, lanes and jobs."""

    NOTHING = 0
    ENDED = 1
    """What comes to a device waits for what had ended by then, with the times of the problem."""
    LOADS = 2
    """A load waits for all weights that came to its device before to be stored."""
    JOBS = 3
    """A job waits until those that began before it are complete."""


@dataclass(slots=True)
class _Entry:
    """A run with what the problem says of it, and the numbers of its tasks."""

    run: Run
    job: Job
    option: Option
    weights: Weights | None
    task: int = -1
    load: int | None = None
    store: int | None = None

    @property
    def devices(self) -> list[tuple[str, int]]:
        """What it runs on."""
        return [(self.option.pool, device) for device in self.run.devices]

    @property
    def stop(self) -> int:
        """When it stopped by the times of the problem, started when the plan says."""
        return self.run.start + self.option.ticks


def retimed_jobs(problem: JobsProblem, plan: JobsPlan, apart: Apart) -> JobsPlan | None:
    """Return the plan with times of its own order; ``None`` where it names what is unknown.

    Also where tasks wait for each other in a circle.
    """
    entries = _entries(problem, plan)
    if entries is None:
        return None
    network = Network()
    for number, entry in enumerate(entries):
        _add(network, entry, number)
    _within_jobs(network, entries)
    if apart in (Apart.ENDED, Apart.LOADS):
        _within_devices(network, entries, apart)
    if apart is Apart.JOBS:
        _job_after_job(network, entries)
    starts = network.starts()
    if starts is None:
        return None

    def at(task: int | None) -> int | None:
        return None if task is None else starts[task]

    runs = [
        replace(e.run, start=starts[e.task], load=at(e.load), store=at(e.store)) for e in entries
    ]
    return JobsPlan(problem.name, tuple(runs), planner=plan.planner)


def _entries(problem: JobsProblem, plan: JobsPlan) -> list[_Entry] | None:
    found = []
    for run in plan.runs:
        if run.job not in problem.numbers:
            return None
        job = problem.jobs[problem.numbers[run.job]]
        if not 0 <= run.unit < len(job.units):
            return None
        options = job.units[run.unit].options
        if not 0 <= run.option < len(options):
            return None
        found.append(_Entry(run, job, options[run.option], job.weights_of(run.unit)))
    return found


def _add(network: Network, entry: _Entry, number: int) -> None:
    run, release = entry.run, entry.job.release
    key = (run.start, 1, entry.option.ticks > 0, number)
    entry.task = network.add(key, entry.option.ticks, entry.devices, release)
    moved = entry.weights
    if moved is not None and run.load is not None:
        lanes = [("in", *device) for device in entry.devices] if moved.load else []
        entry.load = network.add((run.load, 2, True, number), moved.load, lanes, release)
        network.precede(entry.load, entry.task)
    if moved is not None and run.store is not None:
        lanes = [("out", *device) for device in entry.devices] if moved.store else []
        entry.store = network.add((run.store, 0, True, number), moved.store, lanes)
        network.precede(entry.task, entry.store)


def _within_jobs(network: Network, entries: list[_Entry]) -> None:
    """Units in their order; weights are on the host before they are loaded again."""
    last: dict[str, _Entry] = {}
    users: dict[tuple[str, str], _Entry] = {}
    for entry in sorted(entries, key=lambda entry: entry.run.unit):
        if entry.job.name in last:
            network.precede(last[entry.job.name].task, entry.task)
        last[entry.job.name] = entry
        if entry.weights is not None:
            key = entry.job.name, entry.weights.name
            former = users.get(key)
            if former is not None and entry.load is not None:
                network.precede(former.task if former.store is None else former.store, entry.load)
            users[key] = entry


def _within_devices(network: Network, entries: list[_Entry], apart: Apart) -> None:
    """What had left a device before something came to it still does."""
    rows: dict[tuple[str, int], list[_Entry]] = defaultdict(list)
    for entry in entries:
        for device in entry.devices:
            rows[device].append(entry)
    for row in rows.values():
        begins = [(e.run.load, e.load) for e in row if e.load is not None]
        if apart is Apart.ENDED:
            begins += [(e.run.start, e.task) for e in row]
        ends = [(e.stop, e.task) for e in row if apart is Apart.ENDED]
        ends += [(_ended(e, apart), e.store) for e in row if e.store is not None]
        if len(begins) * len(ends) > MOST_PAIRS:
            continue
        for begin, later in begins:
            for end, earlier in ends:
                if end <= (begin or 0) and earlier != later and later is not None:
                    network.precede(earlier, later)


def _ended(entry: _Entry, apart: Apart) -> int:
    """When weights had left; where all wait, as soon as they had come."""
    if apart is Apart.LOADS:
        return entry.run.start
    return (entry.run.store or 0) + (0 if entry.weights is None else entry.weights.store)


def _job_after_job(network: Network, entries: list[_Entry]) -> None:
    """Each job waits for the one that began before it."""
    tasks: dict[str, list[int]] = defaultdict(list)
    first: dict[str, int] = {}
    for entry in entries:
        run = entry.run
        tasks[run.job] += [t for t in (entry.load, entry.task, entry.store) if t is not None]
        begin = run.start if run.load is None else min(run.load, run.start)
        first[run.job] = min(begin, first.get(run.job, begin))
    row = sorted(first, key=lambda name: (first[name], name))
    for before, after in pairwise(row):
        gate = network.add((first[after], -1, False, -1), 0)
        for earlier in tasks[before]:
            network.precede(earlier, gate)
        for later in tasks[after]:
            network.precede(gate, later)
