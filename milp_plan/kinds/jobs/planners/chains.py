"""Chains of units on one device each: Hydra's list scheduling, with spilling and prefetching.

Whenever a device has to know what it runs next, the job of highest rank among those that run
nowhere is taken; sharded longest remaining time first is one such rank (Nagrecha, 2021). Where
weights come from a host, a device decides one unit ahead, when it starts one: the weights of the
next come while it computes, as far as memory and the lane in admit it. Nothing is written here
about double buffering: with memory for one shard, a load waits until the one before is stored.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from math import inf
from random import Random

from ..problem import JobsObjective, JobsPlan, JobsProblem, Option, Run, Weights

Rank = Callable[[int, int], float]
"""Job and unit -> rank; the highest is taken first."""

LRTF = "longest remaining time first"


@dataclass
class _Device:
    """A device: its last run, what is held, and when its lanes are free."""

    pool: str
    number: int
    run: Run | None = None
    stop: int = 0
    weights: Weights | None = None
    held: list[tuple[int, int]] = field(default_factory=list)
    lane_in: int = 0
    lane_out: int = 0
    settled: bool = True


@dataclass
class _Job:
    """A job: what is next, from when on, and when each of its weights is on the host."""

    unit: int = 0
    ready: int = 0
    home: dict[str, int] = field(default_factory=dict)
    last: int = 0
    at: int | None = None
    """Device on which weights of it may stay."""


class Chains:
    """Plans of a problem whose units can each run on one device.

    Parameters
    ----------
    problem
        Each unit has an option that fits. Options that would not fit if their weights lay there
        for some time are left out, and so are problems with jobs that the host cannot hold.
    """

    def __init__(self, problem: JobsProblem) -> None:
        self.problem = problem
        self.options: list[list[dict[str, tuple[int, Option]]]] = []
        for job, units in zip(problem.jobs, problem.fits, strict=True):
            self.options.append([])
            for unit, options in enumerate(units):
                weights = job.weights_of(unit)
                best: dict[str, tuple[int, Option]] = {}
                for number, option in options:
                    known, limit = best.get(option.pool), problem.pool[option.pool].memory
                    held = limit is None or _wanted(weights, option) <= limit
                    quicker = known is None or option.ticks < known[1].ticks
                    if option.devices == 1 and held and quicker:
                        best[option.pool] = (number, option)
                self.options[-1].append(best)
        self.ahead = any(w.load for job in problem.jobs for w in job.weights)

    @property
    def possible(self) -> bool:
        """Whether each unit has an option of one device, and the host can hold each job."""
        host = self.problem.host
        admitted = host is None or all(job.host <= host for job in self.problem.jobs)
        return admitted and all(all(units) for units in self.options)

    def remaining(self) -> list[list[float]]:
        """Ticks left of each job from each unit on, by the mean of its pools."""
        found = []
        for units in self.options:
            ticks = [sum(o.ticks for _, o in u.values()) / len(u) for u in units]
            found.append([*accumulate(reversed(ticks))][::-1])
        return found

    def longest_first(self, _seed: int = 0) -> JobsPlan:
        """Sharded longest remaining time first."""
        left = self.remaining()
        return self.plan(lambda job, unit: left[job][unit], LRTF)

    def shortest_first(self, _seed: int = 0) -> JobsPlan:
        """Least remaining time per weight first."""
        left, jobs = self.remaining(), self.problem.jobs
        return self.plan(
            lambda job, unit: -left[job][unit] / max(1e-9, jobs[job].weight),
            "shortest remaining time first",
        )

    def in_order(self, _seed: int = 0) -> JobsPlan:
        """Jobs in the order of their releases, then of the file."""
        jobs = self.problem.jobs
        order = sorted(range(len(jobs)), key=lambda job: (jobs[job].release, job))
        ranks = {job: -float(rank) for rank, job in enumerate(order)}
        return self.plan(lambda job, _unit: ranks[job], "first in, first out")

    def at_random(self, seed: int = 0) -> JobsPlan:
        """Any job."""
        rng = Random(seed)
        return self.plan(lambda _job, _unit: rng.random(), "random order")

    def perturbed(self, seed: int = 0) -> JobsPlan:
        """Longest remaining time first, or shortest, where each job's is off by some part."""
        rng = Random(seed)
        left = self.remaining()
        makespan = self.problem.objective is JobsObjective.MAKESPAN
        jobs = self.problem.jobs
        off = [rng.uniform(0.5, 1.5) for _ in left]
        if makespan:
            return self.plan(lambda job, unit: off[job] * left[job][unit], LRTF)
        return self.plan(
            lambda job, unit: -off[job] * left[job][unit] / max(1e-9, jobs[job].weight), LRTF
        )

    def plan(
        self, rank: Rank, planner: str, pins: Mapping[tuple[int, int], str] | None = None
    ) -> JobsPlan:
        """Return a plan by a rank.

        Parameters
        ----------
        rank
            Of a job whose next unit is asked for.
        planner
            Who made it.
        pins
            Pools that units must take.
        """
        return _Dispatch(self, rank, pins or {}).run(planner)


class _Dispatch:
    """One plan in the making."""

    def __init__(self, chains: Chains, rank: Rank, pins: Mapping[tuple[int, int], str]) -> None:
        self.chains, self.problem = chains, chains.problem
        self.rank, self.pins = rank, pins
        self.devices = [
            _Device(pool.name, number)
            for pool in self.problem.pools
            for number in range(pool.devices)
        ]
        self.jobs = [_Job(ready=job.release) for job in self.problem.jobs]
        self.waiting: set[int] = set()
        self.idle: set[int] = set(range(len(self.devices)))
        self.runs: dict[tuple[str, int], Run] = {}
        self.host = 0
        self.numbers = self.problem.numbers
        self.events: list[tuple[int, int, int, int]] = []
        """Instant; 0 for a job, 1 for a device, 2 for the host; number; unit of a job."""

    def run(self, planner: str) -> JobsPlan:
        for number, job in enumerate(self.problem.jobs):
            heapq.heappush(self.events, (job.release, 0, number, 0))
        while self.events:
            now = self.events[0][0]
            while self.events and self.events[0][0] == now:
                _, kind, number, unit = heapq.heappop(self.events)
                if kind == 0 and self.jobs[number].unit == unit:  # else it was placed ahead
                    self.waiting.add(number)
                elif kind == 0:
                    continue
                elif kind == 1:
                    self.idle.add(number)
                else:
                    self.host -= self.problem.jobs[number].host
            self._decide(now)
        for device in self.devices:
            self._settle(device, None)
        return JobsPlan(
            self.problem.name,
            tuple(self.runs.values()),
            self.problem.fingerprint,
            planner=planner,
        )

    def _decide(self, now: int) -> None:
        """Give units to idle devices, highest rank first, each where it ends first."""
        ranked = {job: self.rank(job, self.jobs[job].unit) for job in self.waiting}
        own, kept = {}, dict.fromkeys(self.idle, -inf)
        for number in self.idle:
            job = self._own(number)
            if job is not None:
                own[job] = number
                ranked[job] = kept[number] = self.rank(job, self.jobs[job].unit)
        for job in sorted(ranked, key=lambda job: (-ranked[job], job)):
            if not self.idle:
                return
            places = [own[job]] if job in own else self.idle
            options = self.chains.options[job][self.jobs[job].unit]
            pin = self.pins.get((job, self.jobs[job].unit))
            fitting = [
                number
                for number in places
                if number in self.idle
                and self.devices[number].pool in options
                and pin in (None, self.devices[number].pool)
            ]
            if not fitting or not self._admitted(job):
                continue
            best = min(fitting, key=partial(self._preference, job, now, kept))
            self._place(best, job, now)
            self.idle.discard(best)
            self.waiting.discard(job)

    def _preference(
        self, job: int, now: int, kept: Mapping[int, float], number: int
    ) -> tuple[int, float, int]:
        """Where a job ends first; of equal ends, where it takes the place of the lowest rank."""
        return self._times(number, job, now)[2], kept[number], number

    def _own(self, number: int) -> int | None:
        """The job that a device, deciding ahead, runs now and may run next."""
        run = self.devices[number].run
        if run is None or not self.chains.ahead:
            return None
        job = self.numbers[run.job]
        state = self.jobs[job]
        over = state.unit == len(self.problem.jobs[job].units) or job in self.waiting
        return None if over or state.unit != run.unit + 1 else job

    def _admitted(self, job: int) -> bool:
        limit, state = self.problem.host, self.jobs[job]
        if limit is None or state.unit > 0:
            return True
        return self.host + self.problem.jobs[job].host <= limit

    def _times(self, number: int, job: int, now: int) -> tuple[int | None, int, int]:
        """Load, start and stop of a job's next unit on a device."""
        device, state = self.devices[number], self.jobs[job]
        spec = self.problem.jobs[job]
        weights = spec.weights_of(state.unit)
        _, option = self.chains.options[job][state.unit][device.pool]
        wanted = _wanted(weights, option)
        start = max(device.stop, state.ready, now)
        if weights is None or self._stays(device, job, weights):
            start = self._room(device, start, wanted, weights)
            return None, start, start + option.ticks
        home = state.home.get(weights.name, 0)
        if state.at is not None and self.devices[state.at].weights == weights:
            other = self.devices[state.at]
            home = max(other.stop, other.lane_out) + weights.store
        load = max(now, device.lane_in, home, spec.release)
        load = self._room(device, load, wanted)
        start = max(start, load + weights.load)
        return start - weights.load if not self.chains.ahead else load, start, start + option.ticks

    def _stays(self, device: _Device, job: int, weights: Weights) -> bool:
        run = device.run
        return (
            run is not None
            and not device.settled
            and run.job == self.problem.jobs[job].name
            and device.weights == weights
        )

    def _room(self, device: _Device, since: int, wanted: int, kept: Weights | None = None) -> int:
        """The first instant from one on at which a number of bytes is free on a device.

        ``kept`` are weights that lie there and stay; they are among what is wanted.
        """
        limit = self.problem.pool[device.pool].memory
        if limit is None:
            return since
        held = list(device.held)
        if device.run is not None:
            option = self._option(device.run)
            held.append((device.stop, option.bytes if option.ticks else 0))
        if not device.settled and device.weights is not None and kept is None:
            done = max(device.stop, device.lane_out) + device.weights.store
            held.append((done, device.weights.bytes))
        for instant in sorted({since, *(until for until, _ in held if until > since)}):
            if wanted + sum(size for until, size in held if until > instant) <= limit:
                return instant
        raise AssertionError("a unit that fits fits once everything else is gone")

    def _option(self, run: Run) -> Option:
        return self.problem.jobs[self.numbers[run.job]].units[run.unit].options[run.option]

    def _place(self, number: int, job: int, now: int) -> None:
        device, state = self.devices[number], self.jobs[job]
        spec, unit = self.problem.jobs[job], state.unit
        weights = spec.weights_of(unit)
        load, start, stop = self._times(number, job, now)
        if state.at is not None and (state.at != number or load is not None):
            self._settle(self.devices[state.at], None)
        self._settle(device, None if load is not None or weights is None else weights)
        place, _ = self.chains.options[job][unit][device.pool]
        device.run = Run(spec.name, unit, place, (device.number,), start, load)
        self.runs[spec.name, unit] = device.run
        device.stop, device.weights, device.settled = stop, weights, False
        state.at = None if weights is None else number
        if load is not None and weights is not None:
            device.lane_in = load + weights.load
        if unit == 0:
            self.host += spec.host
        state.unit, state.ready = unit + 1, stop
        state.last = max(state.last, stop)
        if state.unit < len(spec.units):
            if weights is not None and spec.weights_of(unit + 1) != weights:
                self._settle(device, None)  # what it needs next is something else
            heapq.heappush(self.events, (stop, 0, job, unit + 1))
        else:
            self._settle(device, None)
            heapq.heappush(self.events, (state.last, 2, job, 0))
        heapq.heappush(self.events, (start if self.chains.ahead else stop, 1, number, 0))

    def _settle(self, device: _Device, kept: Weights | None) -> None:
        """Write weights back, unless they stay."""
        run, weights = device.run, device.weights
        if device.settled or run is None:
            return
        device.settled = True
        state = self.jobs[self.numbers[run.job]]
        state.at = None
        if weights is None or kept is not None:
            return
        begin = max(device.stop, device.lane_out)
        device.lane_out = begin + weights.store
        device.held = [entry for entry in device.held if entry[0] > run.start]
        device.held.append((device.lane_out, weights.bytes))
        done = Run(run.job, run.unit, run.option, run.devices, run.start, run.load, begin)
        self.runs[run.job, run.unit] = device.run = done
        state.home[weights.name] = device.lane_out
        state.last = max(state.last, device.lane_out)


def _wanted(weights: Weights | None, option: Option) -> int:
    """Bytes that a run needs beside what others hold."""
    return (0 if weights is None else weights.bytes) + (option.bytes if option.ticks else 0)


RANKS: Mapping[str, Callable[[Chains, int], JobsPlan]] = {
    LRTF: Chains.longest_first,
    "shortest remaining time first": Chains.shortest_first,
    "first in, first out": Chains.in_order,
    "random order": Chains.at_random,
}
"""List scheduling by several ranks, by name."""


def in_turn(problem: JobsProblem) -> JobsPlan:
    """Return a plan of one unit after the other, each by its fastest option.

    It is there for every problem whose units have options that fit.
    """
    runs, now = [], 0
    order = sorted(range(len(problem.jobs)), key=lambda job: (problem.jobs[job].release, job))
    for number in order:
        job = problem.jobs[number]
        now = max(now, job.release)
        for unit, options in enumerate(problem.fits[number]):
            place, option = min(options, key=lambda o: (o[1].ticks, o[1].devices, o[0]))
            weights = job.weights_of(unit)
            devices = tuple(range(option.devices))
            if weights is None:
                runs.append(Run(job.name, unit, place, devices, now))
                now += option.ticks
            else:
                start = now + weights.load
                stop = start + option.ticks
                runs.append(Run(job.name, unit, place, devices, start, now, stop))
                now = stop + weights.store
    return JobsPlan(problem.name, tuple(runs), problem.fingerprint, planner="in turn")
