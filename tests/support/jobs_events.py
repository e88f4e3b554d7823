"""Jobs by every timetable: the optimum of any tiny problem, weights and hosts included.

Reads ``docs/laws.md`` on its own. Some best plan starts every load, run and store at a release or
where something stops: take one with the least sum of starts, and of its starts the first, s, at
which nothing is released and nothing that began before stops. What starts at s could all start at
the stop or release before it: nothing stops in between, so devices, lanes, the host and memory are
as free as at s. Hence it is enough to decide at each such instant what starts. At an instant things
happen one after the other; what is held counts only while time passes.
"""

from __future__ import annotations

import itertools
import random
from typing import NamedTuple

from milp_plan.kinds.jobs.problem import (
    Job,
    JobsObjective,
    JobsProblem,
    Option,
    Pool,
    Unit,
    Weights,
)

from .jobs import value_of

PENDING = -1
"""Weights that are still to be stored, unless they stay."""


class Loaded(NamedTuple):
    """A unit whose weights are on devices of a pool, or on the way until ``ready``."""

    pool: str
    devices: tuple[int, ...]
    ready: int


class Ran(NamedTuple):
    """A unit that runs until ``stop``; ``stored``: when its weights are back, if it returns any."""

    pool: str
    devices: tuple[int, ...]
    stop: int
    bytes: int
    stored: int | None


class State(NamedTuple):
    """What has started by an instant; past instants are moved up to it."""

    now: int
    units: tuple[Loaded | Ran | None, ...]
    last: tuple[tuple[tuple[str, int], int], ...]
    ends: tuple[int, ...]


def best_value(problem: JobsProblem) -> int | None:
    """Value of the best plan; ``None`` if there is none."""
    return _Timetables(problem).best()


class _Timetables:
    def __init__(self, problem: JobsProblem) -> None:
        self.problem, self.least, self.seen = problem, None, set()
        self.place = [(j, u) for j, job in enumerate(problem.jobs) for u in range(len(job.units))]
        self.number = {place: n for n, place in enumerate(self.place)}
        self.weights = [problem.jobs[j].weights_of(u) for j, u in self.place]

    def best(self) -> int | None:
        releases = tuple(job.release for job in self.problem.jobs)
        self._go(State(0, (None,) * len(self.place), (), releases))
        return self.least

    def _hopes(self, state):
        """Ends of jobs that are certain, whatever comes."""
        found = list(state.ends)
        for j, job in enumerate(self.problem.jobs):
            left = [u for u in range(len(job.units)) if not self._has_run(state, j, u)]
            ready = max(state.now, job.release)
            if left and left[0] > 0:
                ready = max(ready, state.units[self.number[j, left[0] - 1]].stop)
            if left:
                ticks = [min(option.ticks for option in job.units[u].options) for u in left]
                last = job.weights_of(len(job.units) - 1)
                found[j] = max(found[j], ready + sum(ticks) + (last.store if last else 0))
        return found

    def _has_run(self, state, j, u):
        return isinstance(state.units[self.number[j, u]], Ran)

    def _go(self, state: State) -> None:
        if state in self.seen:
            return
        self.seen.add(state)
        if self.least is not None and value_of(self.problem, self._hopes(state)) >= self.least:
            return
        if all(isinstance(unit, Ran) and unit.stored != PENDING for unit in state.units):
            self._finish(state)
            return
        for number in range(len(state.units)):
            for changed in self._steps(state, number):
                self._go(changed)
        self._wait(state)

    def _finish(self, state: State) -> None:
        """All has started, and from now on less and less is held."""
        if self._fits(state):
            value = value_of(self.problem, state.ends)
            self.least = value if self.least is None else min(self.least, value)

    def _wait(self, state: State) -> None:
        times = [job.release for job in self.problem.jobs]
        for unit in state.units:
            if isinstance(unit, Loaded):
                times.append(unit.ready)
            elif isinstance(unit, Ran):
                times += [unit.stop, unit.stored or 0]
        later = [t for t in times if t > state.now]
        if later and self._fits(state):
            self._go(self._at(state, min(later)))

    def _at(self, state: State, instant: int) -> State:
        """The same at a later instant: what is over is over by then."""
        units = []
        for unit in state.units:
            if isinstance(unit, Loaded):
                units.append(unit._replace(ready=max(unit.ready, instant)))
            elif isinstance(unit, Ran):
                stored = unit.stored
                if stored is not None and stored != PENDING:
                    stored = max(stored, instant)
                units.append(unit._replace(stop=max(unit.stop, instant), stored=stored))
            else:
                units.append(None)
        return state._replace(now=instant, units=tuple(units))

    def _fits(self, state: State) -> bool:
        """Whether devices and host can hold what they hold while time goes on."""
        now = state.now
        used: dict[tuple[str, int], int] = {}
        under_way = set()
        for (j, _), unit, weights in zip(self.place, state.units, self.weights, strict=True):
            if unit is None:
                continue
            amount = 0
            if isinstance(unit, Loaded) or unit.stored == PENDING or (unit.stored or 0) > now:
                amount += weights.bytes
                under_way.add(j)
            if isinstance(unit, Ran) and unit.stop > now:
                amount += unit.bytes
                under_way.add(j)
            for device in unit.devices:
                key = unit.pool, device
                used[key] = used.get(key, 0) + amount
        for j, job in enumerate(self.problem.jobs):
            begun = [state.units[self.number[j, u]] for u in range(len(job.units))]
            if any(begun) and not all(isinstance(unit, Ran) for unit in begun):
                under_way.add(j)
        host = sum(self.problem.jobs[j].host for j in under_way)
        if self.problem.host is not None and host > self.problem.host:
            return False
        limits = {pool.name: pool.memory for pool in self.problem.pools}
        return all(limits[p] is None or size <= limits[p] for (p, _), size in used.items())

    def _steps(self, state, number):
        """What may start now of a unit: its load, its run, its store."""
        j, u = self.place[number]
        job, unit, weights = self.problem.jobs[j], state.units[number], self.weights[number]
        if state.now < job.release:
            return
        if isinstance(unit, Ran):
            if unit.stored == PENDING and unit.stop <= state.now:
                yield from self._store(state, number, unit, weights)
            return
        if unit is None and weights is not None:
            yield from self._load(state, number, job, u, weights)
        if u and not self._stopped(state, j, u - 1):
            return
        for option in job.units[u].options:
            for devices in self._sites(option):
                if all(self._idle(state, option.pool, d) for d in devices):
                    yield from self._run(state, number, option, devices)

    def _stopped(self, state, j, u):
        unit = state.units[self.number[j, u]]
        return isinstance(unit, Ran) and unit.stop <= state.now

    def _sites(self, option):
        pool = next(p for p in self.problem.pools if p.name == option.pool)
        return itertools.combinations(range(pool.devices), option.devices)

    def _on(self, state, pool, device):
        return [u for u in state.units if u and u.pool == pool and device in u.devices]

    def _idle(self, state, pool, device):
        return not any(
            isinstance(u, Ran) and u.stop > state.now for u in self._on(state, pool, device)
        )

    def _load(self, state, number, job, u, weights):
        j = self.place[number][0]
        users = [k for k in range(u) if job.units[k].weights == weights.name]
        if users:
            before = state.units[self.number[j, users[-1]]]
            back = isinstance(before, Ran) and before.stored is not None
            if not back or before.stored == PENDING or before.stored > state.now:
                return
        for pool, count in {(option.pool, option.devices) for option in job.units[u].options}:
            for devices in self._sites(Option("", pool, count, 0)):
                loading = [
                    other
                    for device in devices
                    for other in self._on(state, pool, device)
                    if isinstance(other, Loaded) and other.ready > state.now
                ]
                if not loading or not weights.load:
                    changed = Loaded(pool, devices, state.now + weights.load)
                    yield self._changed(state, {number: changed})

    def _run(self, state, number, option, devices):
        unit, weights = state.units[number], self.weights[number]
        stop = state.now + option.ticks
        changes = {}
        if weights is None:
            changes[number] = Ran(option.pool, devices, stop, option.bytes, None)
        else:
            ran = Ran(option.pool, devices, stop, option.bytes, PENDING)
            if isinstance(unit, Loaded):
                if (unit.pool, unit.devices) != (option.pool, devices) or unit.ready > state.now:
                    return
            else:
                before = {dict(state.last).get((option.pool, d)) for d in devices}
                if len(before) != 1 or None in before:
                    return
                (other,) = before
                old = state.units[other]
                same = self.place[other][0] == self.place[number][0]
                stays = same and self.weights[other] == weights and old.stored == PENDING
                if not stays or (old.pool, old.devices) != (option.pool, devices):
                    return
                changes[other] = old._replace(stored=None)
            changes[number] = ran
        last = dict(state.last) | {(option.pool, d): number for d in devices}
        changed = self._changed(state, changes)
        yield self._ended(changed, number, stop)._replace(last=tuple(sorted(last.items())))

    def _store(self, state, number, unit, weights):
        storing = [
            other
            for device in unit.devices
            for other in self._on(state, unit.pool, device)
            if isinstance(other, Ran) and (other.stored or 0) > state.now
        ]
        if not storing or not weights.store:
            end = state.now + weights.store
            changed = self._changed(state, {number: unit._replace(stored=end)})
            yield self._ended(changed, number, end)

    def _changed(self, state, changes):
        units = tuple(changes.get(n, unit) for n, unit in enumerate(state.units))
        return state._replace(units=units)

    def _ended(self, state, number, end):
        j = self.place[number][0]
        ends = tuple(max(e, end) if k == j else e for k, e in enumerate(state.ends))
        return state._replace(ends=ends)


def anything(seed: int) -> JobsProblem:
    """Return up to four units in up to three jobs: options without ticks, weights, a host, gangs.

    A device may have room for several sets of weights, so that loads, runs and stores overlap.
    """
    rng = random.Random(f"jobs {seed}")
    span, size = rng.choice((4, 9, 10**6, 10**9)), rng.choice((3, 9, 10**10))

    def ticks() -> int:
        return rng.choice((0, rng.randint(0, span), rng.randint(1, span)))

    def bytes_() -> int:
        return rng.choice((0, rng.randint(0, size), rng.randint(1, size)))

    pools = tuple(
        Pool(f"p{n}", rng.choice((1, 1, 2)), rng.choice((None, rng.randint(size // 2, 2 * size))))
        for n in range(rng.choice((1, 1, 2)))
    )

    def option() -> Option:
        pool = rng.choice(pools)
        return Option("t", pool.name, rng.randint(1, pool.devices), ticks(), bytes_())

    jobs, left = [], rng.randint(1, 4)
    moved = rng.random() < 0.6
    while left:
        count = rng.randint(1, min(left, 2))
        left -= count
        names = [f"w{k}" for k in range(rng.choice((0, 1, 1, 2)) if moved else 0)]
        weights = tuple(Weights(name, bytes_(), ticks(), ticks()) for name in names)
        units = tuple(
            Unit(
                tuple(option() for _ in range(rng.choice((1, 1, 2)))),
                rng.choice((*names, None)) if names else None,
            )
            for _ in range(count)
        )
        release = rng.choice((0, 0, rng.randint(0, span)))
        host = rng.choice((0, rng.randint(0, size)))
        jobs.append(Job(f"j{len(jobs)}", units, release, rng.randint(0, 3), weights, host))
    limit = rng.choice((None, None, rng.randint(size // 2, 2 * size)))
    objective = rng.choice(list(JobsObjective))
    return JobsProblem(f"jobs-{seed}", pools, tuple(jobs), objective, limit)
