"""Lists of jobs that are single units: greedy starts, and annealing from the best of them.

Sources of the starts: Saturn (Nagrecha and Kumar, 2023) compares with jobs that take all devices
one after the other, with least devices, with a greedy allocation of devices by marginal gain, and
with random choices; the least device time for a makespan is the allotment of Turek et al. (1992).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
from numpy.typing import NDArray

from ..problem import JobsObjective, JobsPlan, JobsProblem, Option, Run
from . import loops

Integers = NDArray[np.int64]

ANNEALING = "annealing of lists"

HOT, COLD = 0.02, 0.0002
"""Part of the value by which a change may be worse, at the beginning and at the end."""

PARTS = 24
"""Makespans, from the longest fast job to all work, for which least device time is tried."""


@dataclass(frozen=True)
class Listing:
    """An order of jobs, and a number of an option in :class:`JobTables` for each, or -1."""

    order: Sequence[int]
    choice: Sequence[int]


@dataclass
class JobTables:
    """A problem of single units as arrays.

    Parameters
    ----------
    problem
        Plain, and each unit has an option that fits.
    """

    problem: JobsProblem
    rows: list[tuple[int, Option]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        problem = self.problem
        places = problem.pool_numbers
        firsts = [0]
        for (unit,) in problem.fits:
            self.rows += unit
            firsts.append(len(self.rows))
        columns = [(places[o.pool], o.devices, o.ticks) for _, o in self.rows]
        self.options: Integers = np.ascontiguousarray(np.array(columns, np.int64).T)
        self.first: Integers = np.array(firsts, np.int64)
        self.release: Integers = np.array([job.release for job in problem.jobs], np.int64)
        self.weight: Integers = np.array([job.weight for job in problem.jobs], np.int64)
        counts = [pool.devices for pool in problem.pools]
        self.bases: Integers = np.array([0, *np.cumsum(counts)], np.int64)
        makespan = problem.objective is JobsObjective.MAKESPAN
        self.objective = loops.MAKESPAN if makespan else loops.COMPLETION

    def of(self, job: int) -> range:
        """Numbers of the options of a job."""
        return range(int(self.first[job]), int(self.first[job + 1]))

    def _run(self, listing: Listing) -> tuple[Integers, Integers]:
        """Start and option of each job of a list."""
        jobs = len(self.problem.jobs)
        free = np.zeros(self.bases[-1], np.int64)
        start, taken = np.zeros(jobs, np.int64), np.zeros(jobs, np.int64)
        order, choice = (np.array(part, np.int64) for part in (listing.order, listing.choice))
        loops.starts_of(
            self.options, self.first, self.release, self.bases, order, choice, free, start, taken
        )
        return start, taken

    def spans(self, listing: Listing) -> list[tuple[int, int, int]]:
        """Return the option, start and stop of each job of a list."""
        start, taken = self._run(listing)
        return [
            (self.rows[option][0], begin, begin + self.rows[option][1].ticks)
            for option, begin in zip(taken.tolist(), start.tolist(), strict=True)
        ]

    def makespan(self, listing: Listing) -> int:
        """Return when the last job of a list stops."""
        start, taken = self._run(listing)
        return int((start + self.options[loops.TICKS, taken]).max())

    def plan(self, listing: Listing, planner: str) -> JobsPlan:
        """Return the plan of a list."""
        spans = self.spans(listing)
        starts = [(job, 0, option, start) for job, (option, start, _) in enumerate(spans)]
        return placed(self.problem, starts, planner)

    def listing(self, plan: JobsPlan) -> Listing:
        """Return the list of a plan: jobs in the order of their starts."""
        numbers = self.problem.numbers
        choice = [-1] * len(numbers)
        for run in plan.runs:
            job = numbers[run.job]
            choice[job] = next(o for o in self.of(job) if self.rows[o][0] == run.option)
        runs = sorted(plan.runs, key=lambda run: run.start)
        return Listing([numbers[run.job] for run in runs], choice)

    def anneal(self, listing: Listing, rounds: int, seed: int) -> Listing:
        """Return a list that is better, or as good, after a number of changes."""
        order, choice = (np.array(part, np.int64) for part in (listing.order, listing.choice))
        loops.anneal(
            self.options,
            self.first,
            self.release,
            self.weight,
            self.bases,
            self.objective,
            order,
            choice,
            rounds,
            HOT,
            COLD,
            seed,
        )
        return Listing(order.tolist(), choice.tolist())


def placed(
    problem: JobsProblem, starts: Sequence[tuple[int, int, int, int]], planner: str
) -> JobsPlan:
    """Return the plan of runs without weights, any devices that are free for each.

    Parameters
    ----------
    problem
        What they are of.
    starts
        Job, unit, option and start of each; at each instant no pool has fewer devices than they
        hold. Then devices can be distinguished: whoever starts finds enough that are free.
    planner
        Who made it.
    """
    free = {pool.name: list(range(pool.devices)) for pool in problem.pools}
    held: list[tuple[int, int, str, tuple[int, ...]]] = []
    runs = []

    def ticks(entry: tuple[int, int, int, int]) -> int:
        return problem.jobs[entry[0]].units[entry[1]].options[entry[2]].ticks

    for number, entry in enumerate(sorted(starts, key=lambda e: (e[3], ticks(e), e[0], e[1]))):
        job, unit, place, start = entry
        option = problem.jobs[job].units[unit].options[place]
        while held and held[0][0] <= start:
            _, _, pool, devices = heapq.heappop(held)
            for device in devices:
                heapq.heappush(free[pool], device)
        taken = tuple(heapq.heappop(free[option.pool]) for _ in range(option.devices))
        heapq.heappush(held, (start + option.ticks, number, option.pool, taken))
        runs.append(Run(problem.jobs[job].name, unit, place, taken, start))
    return JobsPlan(problem.name, tuple(runs), problem.fingerprint, planner=planner)


# -- greedy starts ---------------------------------------------------------------------------------


def _ticks(tables: JobTables, option: int) -> int:
    return int(tables.options[loops.TICKS, option])


def _work(tables: JobTables, option: int) -> int:
    return int(tables.options[loops.DEVICES, option]) * _ticks(tables, option)


def longest_first(tables: JobTables, choice: Sequence[int]) -> Listing:
    """Jobs of long options first; of the weighted objective, those of most weight per work."""
    jobs = range(len(choice))
    if tables.objective == loops.MAKESPAN:
        order = sorted(jobs, key=lambda j: (tables.release[j], -_ticks(tables, choice[j])))
    else:
        order = sorted(
            jobs,
            key=lambda j: (
                tables.release[j] + _work(tables, choice[j]) / max(1e-9, float(tables.weight[j]))
            ),
        )
    return Listing(order, choice)


def one_by_one(tables: JobTables, _seed: int = 0) -> Listing:
    """All devices, or as many as the job can use, one job after the other: current practice."""
    choice = [
        max(tables.of(job), key=lambda o: (tables.options[loops.DEVICES, o], -_ticks(tables, o)))
        for job in range(len(tables.problem.jobs))
    ]
    return Listing(range(len(choice)), choice)


def fewest_devices(tables: JobTables, _seed: int = 0) -> Listing:
    """The fewest devices a job can run on, longest first."""
    choice = [
        min(tables.of(job), key=lambda o: (tables.options[loops.DEVICES, o], _ticks(tables, o)))
        for job in range(len(tables.problem.jobs))
    ]
    return longest_first(tables, choice)


def marginal_gain(tables: JobTables, _seed: int = 0) -> Listing:
    """Give devices to the job that gains most ticks by more of them, while there are any left."""
    jobs = range(len(tables.problem.jobs))
    ladders = [sorted(tables.of(job), key=lambda o: _devices(tables, o)) for job in jobs]
    rung = [0] * len(ladders)
    left = int(tables.bases[-1]) - sum(_devices(tables, ladder[0]) for ladder in ladders)
    while True:
        best, gain = -1, 0.0
        for job, ladder in enumerate(ladders):
            if rung[job] + 1 == len(ladder):
                continue
            now, then = ladder[rung[job]], ladder[rung[job] + 1]
            more = max(1, _devices(tables, then) - _devices(tables, now))
            faster = (_ticks(tables, now) - _ticks(tables, then)) / more
            if more <= max(left, 0) and faster > gain:
                best, gain = job, faster
        if best < 0:
            return longest_first(tables, [row[at] for row, at in zip(ladders, rung, strict=True)])
        before = _devices(tables, ladders[best][rung[best]])
        rung[best] += 1
        left -= max(1, _devices(tables, ladders[best][rung[best]]) - before)


def _devices(tables: JobTables, option: int) -> int:
    return int(tables.options[loops.DEVICES, option])


def drawn(tables: JobTables, seed: int = 0) -> Listing:
    """Any order and any options."""
    rng = Random(seed)
    jobs = list(range(len(tables.problem.jobs)))
    choice = [rng.choice(tables.of(job)) for job in jobs]
    rng.shuffle(jobs)
    return Listing(jobs, choice)


def soonest_end(tables: JobTables, _seed: int = 0) -> Listing:
    """Each job by the option that ends first when its turn comes; those of most work first."""
    least = [
        min(tables.of(job), key=lambda o: _work(tables, o)) for job in range(len(tables.weight))
    ]
    return Listing(longest_first(tables, least).order, [-1] * len(least))


def least_work(tables: JobTables, limit: int) -> Listing:
    """The options of least device time that end by a limit, longest first."""
    choice = []
    for job in range(len(tables.problem.jobs)):
        spare = limit - int(tables.release[job])
        own = [o for o in tables.of(job) if _ticks(tables, o) <= spare]
        fast = min(tables.of(job), key=lambda o: _ticks(tables, o))
        choice.append(min(own or [fast], key=lambda o: (_work(tables, o), _ticks(tables, o))))
    return longest_first(tables, choice)


STARTS: Mapping[str, Callable[[JobTables, int], Listing]] = {
    "one by one": one_by_one,
    "fewest devices": fewest_devices,
    "marginal gain": marginal_gain,
    "random": drawn,
    "soonest end": soonest_end,
}
"""Greedy starts by name."""


def allotments(tables: JobTables, lower: int) -> Iterator[Listing]:
    """Least device time for makespans from a bound up to twice as much."""
    for part in range(PARTS):
        yield least_work(tables, lower + lower * part // PARTS)
