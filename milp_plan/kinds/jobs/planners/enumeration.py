"""Few jobs: every order and every choice is looked at, so that the best plan is proved.

Units of a job whose weights stay are one *visit* of their devices: weights are loaded, the units
run one after the other, weights are stored. Visits are placed one after the other in the order of
their starts, each as early as devices, job and weights allow. Where devices hold one set of weights
at a time, visits share no device, so that every plan is such an order; and as no visit is later
than in that plan, neither is any job complete later. Elsewhere loads may go on beside runs: such
problems get plans, but no proof.

Where the host limits the jobs under way, visits are placed in the order in which they *begin*, with
their loads. A visit begins before the one before it of its job only where its load outlasts that
one; there too nothing is proved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import NamedTuple

from milp_plan.core.budget import Budget

from ..blocks import runs_of
from ..problem import Job, JobsObjective, JobsPlan, JobsProblem, Option, Run, Weights

EVERY_ORDER = "every order"

MOST_UNITS = 9
"""Units of all jobs together in problems that are small enough."""

MOST_VISITS = 100_000
"""Visits placed before the search gives up: some seconds."""

Lane = tuple[str, int]
"""A device: pool and number."""


@dataclass(frozen=True)
class BestOrder:
    """What looking at every order has shown.

    ``plan`` is better than what was known before, or ``None``; ``least`` is the least value of any
    plan, ``None`` where something was left out.
    """

    plan: JobsPlan | None
    least: int | None


def best_order(problem: JobsProblem, budget: Budget, known: int | None = None) -> BestOrder:
    """Look at every order of a problem that :func:`suits`.

    Parameters
    ----------
    problem
        Few units; the best plan is proved where devices hold one set of weights at a time.
    budget
        Looked at now and then.
    known
        Value of a plan; only better ones are looked for.
    """
    return _Timetables(problem, budget, known).run()


def suits(problem: JobsProblem) -> bool:
    """Whether a problem is small."""
    few = sum(len(job.units) for job in problem.jobs) <= MOST_UNITS
    return few and all(map(all, problem.fits))


def _ordered(problem: JobsProblem) -> bool:
    """Whether the visits of any plan have an order in which none hangs on a later one.

    Runs that last no time have one where nothing is loaded or stored in some time: that of starts,
    then of stops, then of units. Such jobs must not need the host, where they would hold nothing.
    """
    for job, units in zip(problem.jobs, problem.fits, strict=True):
        least = [min(option.ticks for _, option in options) for options in units]
        if problem.host is not None and job.host and not any(least):
            return False
        if _moves(problem) and not all(least):
            return False
    return True


def _moves(problem: JobsProblem) -> bool:
    """Whether any weights take time to load or to store."""
    return any(w.load or w.store for job in problem.jobs for w in job.weights)


def _one_at_a_time(problem: JobsProblem) -> bool:
    """Whether loads and stores never go on beside another run: there is no room, or they are free.

    A set of weights is not loaded twice at once; two others must not fit together anywhere.
    """
    if not _moves(problem):
        return True
    if any(unit.weights is None for job in problem.jobs for unit in job.units):
        return False
    for pool in problem.pools:
        sets = {
            (job.name, weights.name): weights.bytes
            for job, units in zip(problem.jobs, problem.fits, strict=True)
            for number, options in enumerate(units)
            if (weights := job.weights_of(number))
            and any(option.pool == pool.name for _, option in options)
        }
        least = sorted(sets.values())[:2]
        if len(least) == 2 and (pool.memory is None or sum(least) <= pool.memory):
            return False
    return True


class _Visit(NamedTuple):
    """Units of a job on the same devices; options by number; the load begins, the first starts."""

    job: int
    unit: int
    options: tuple[tuple[int, Option], ...]
    lanes: tuple[Lane, ...]
    begin: int
    start: int


class _State(NamedTuple):
    """What some visits leave behind: when devices are free, and by job what has been, and when."""

    free: dict[Lane, int]
    units: tuple[int, ...]
    ready: tuple[int, ...]
    begins: tuple[int | None, ...]
    ends: tuple[int, ...]
    home: dict[tuple[int, str], int]
    last: int


class _Timetables:
    """Timetables that grow visit by visit."""

    def __init__(self, problem: JobsProblem, budget: Budget, known: int | None) -> None:
        self.problem, self.budget, self.best = problem, budget, known
        self.hosted = problem.host is not None and any(job.host for job in problem.jobs)
        self.visits: tuple[_Visit, ...] = ()
        self.placed, self.over = 0, False
        self.rest = [
            [
                sum(min(o.ticks for _, o in unit) for unit in units[k:])
                for k in range(len(units) + 1)
            ]
            for units in problem.fits
        ]

    def run(self) -> BestOrder:
        """Look at everything, or as much as the budget allows."""
        jobs = self.problem.jobs
        lanes = {(p.name, d): 0 for p in self.problem.pools for d in range(p.devices)}
        none = (0,) * len(jobs)
        releases = tuple(job.release for job in jobs)
        self.go(_State(lanes, none, releases, (None,) * len(jobs), none, {}, 0), ())
        plan = self.plan() if self.visits else None
        proved = not self.over and _ordered(self.problem) and _one_at_a_time(self.problem)
        proved &= not (self.hosted and any(map(_overtakes, jobs)))
        return BestOrder(plan, self.best if proved else None)

    def go(self, state: _State, visits: tuple[_Visit, ...]) -> None:
        """Place every visit that may come next, and go on from there."""
        self.placed += 1
        self.over |= self.placed > MOST_VISITS or (self.placed % 500 == 0 and self.budget.over)
        jobs = self.problem.jobs
        if self.over or (self.best is not None and self.least(state) >= self.best):
            return
        unfinished = [j for j, unit in enumerate(state.units) if unit < len(jobs[j].units)]
        if not unfinished:
            self.best, self.visits = self.least(state), visits
            return
        later = [
            (behind.last, number, behind, visit)
            for number, (behind, visit) in enumerate(
                found for j in unfinished for found in self.next_visits(state, j)
            )
        ]
        for _, _, behind, visit in sorted(later, key=lambda entry: entry[:2]):
            self.go(behind, (*visits, visit))

    def least(self, state: _State) -> int:
        """No plan that goes on from here is better."""
        ends = [
            max(end, ready + rest[unit]) if unit < len(rest) - 1 else end
            for end, ready, rest, unit in zip(
                state.ends, state.ready, self.rest, state.units, strict=True
            )
        ]
        if self.problem.objective is JobsObjective.MAKESPAN:
            return max(ends)
        return sum(job.weight * end for job, end in zip(self.problem.jobs, ends, strict=True))

    def next_visits(self, state: _State, j: int) -> Iterator[tuple[_State, _Visit]]:
        """Visits of a job's next units: any length, pool and devices; shortest options."""
        job, first = self.problem.jobs[j], state.units[j]
        weights = job.weights_of(first)
        best: dict[tuple[str, int], list[tuple[int, Option]]] = {}
        for unit in range(first, len(job.units)):
            if unit > first and (weights is None or job.weights_of(unit) != weights):
                return
            shortest: dict[tuple[str, int], tuple[int, Option]] = {}
            for number, option in self.problem.fits[j][unit]:
                key = option.pool, option.devices
                if key not in shortest or option.ticks < shortest[key][1].ticks:
                    shortest[key] = number, option
            best = {
                key: [*best.get(key, []), chosen]
                for key, chosen in shortest.items()
                if unit == first or key in best
            }
            for (pool, devices), options in best.items():
                for lanes in self.sites(state, pool, devices):
                    placed = self.visit(state, j, weights, tuple(options), lanes)
                    if placed is not None:
                        yield placed

    @staticmethod
    def sites(state: _State, pool: str, devices: int) -> Iterator[tuple[Lane, ...]]:
        """Sets of devices of a pool, but those that are free when others are."""
        seen = set()
        for lanes in combinations([lane for lane in state.free if lane[0] == pool], devices):
            key = tuple(sorted(state.free[lane] for lane in lanes))
            if key not in seen:
                seen.add(key)
                yield lanes

    def visit(
        self,
        state: _State,
        j: int,
        weights: Weights | None,
        options: tuple[tuple[int, Option], ...],
        lanes: tuple[Lane, ...],
    ) -> tuple[_State, _Visit] | None:
        """Place a visit as early as it can be; ``None`` if another has to be over before."""
        load = store = 0
        begin = max(self.problem.jobs[j].release, *(state.free[lane] for lane in lanes))
        if weights is not None:
            load, store = weights.load, weights.store
            begin = max(begin, state.home.get((j, weights.name), 0))
        begin = max(begin, state.ready[j] - load, state.last - (0 if self.hosted else load))
        length = load + sum(option.ticks for _, option in options)
        if length + store or len(options) < len(self.problem.jobs[j].units):
            admitted = self.admitted(state, j, begin)
            if admitted is None:
                return None
            begin = admitted
        stop = begin + length
        end = stop + store
        visit = _Visit(j, state.units[j], options, lanes, begin, begin + load)

        def put(row: tuple[int, ...], new: int) -> tuple[int, ...]:
            return (*row[:j], new, *row[j + 1 :])

        begins = state.begins
        if begins[j] is None:
            begins = (*begins[:j], begin, *begins[j + 1 :])
        home = state.home if weights is None else state.home | {(j, weights.name): end}
        behind = _State(
            state.free | dict.fromkeys(lanes, end),
            put(state.units, state.units[j] + len(options)),
            put(state.ready, stop),
            begins,
            put(state.ends, max(state.ends[j], end)),
            home,
            begin if self.hosted else begin + load,
        )
        return behind, visit

    def admitted(self, state: _State, j: int, begin: int) -> int | None:
        """When the host has room for a job from some instant on; ``None`` if that hangs on others.

        Jobs that have begun began earlier, as visits are placed in the order of their begins.
        """
        jobs, limit = self.problem.jobs, self.problem.host
        if not self.hosted or limit is None or state.begins[j] is not None:
            return begin
        under_way = [k for k, since in enumerate(state.begins) if since is not None]
        done = {k for k in under_way if state.units[k] == len(jobs[k].units)}
        for instant in sorted({begin, *(state.ends[k] for k in done if state.ends[k] > begin)}):
            held = sum(jobs[k].host for k in under_way if k not in done or state.ends[k] > instant)
            if held + jobs[j].host <= limit:
                return instant
        return None

    def plan(self) -> JobsPlan:
        """The best visits, as runs."""
        runs: list[Run] = []
        for visit in self.visits:
            job, options = self.problem.jobs[visit.job], [number for number, _ in visit.options]
            devices = tuple(device for _, device in visit.lanes)
            runs += runs_of(job, visit.unit, options, devices, visit.begin, visit.start)
        return JobsPlan(
            self.problem.name, tuple(runs), self.problem.fingerprint, planner=EVERY_ORDER
        )


def _overtakes(job: Job) -> bool:
    """Whether a load may have to begin before the unit before it, or its load, does."""
    weights = [job.weights_of(unit) for unit in range(len(job.units))]
    for unit, (before, after) in enumerate(pairwise(weights)):
        if before is None or after is None or before == after:
            continue
        if after.load > before.load + min(option.ticks for option in job.units[unit].options):
            return True
    return False
