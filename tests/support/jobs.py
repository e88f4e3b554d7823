"""Jobs by enumeration: the optimum of tiny problems, and random tiny problems.

Reads ``docs/laws.md`` on its own. Runs are placed one after the other in the order of their starts,
each by any option, on any devices, each as early as it can; weights stay, or go back, by choice.
Some order of an optimal plan is tried, and moved to the left none is later. With a limited host
jobs are under way from their first load on, so the order is that of begins, load and all; it is
that of some optimal plan where no load outlasts a run, so that none begins before the run before it
of its job does. For devices that hold one set of weights at a time, or weights that cost nothing to
move.
"""

from __future__ import annotations

import itertools
import random
from operator import itemgetter

from milp_plan.kinds.jobs.problem import (
    Job,
    JobsObjective,
    JobsProblem,
    Option,
    Pool,
    Unit,
    Weights,
)

NOTHING = Weights("", 0, 0, 0)


def value_of(problem, ends):
    """Value of a problem's plan by the ends of its jobs."""
    if problem.objective is JobsObjective.MAKESPAN:
        return max(ends)
    return sum(job.weight * end for job, end in zip(problem.jobs, ends, strict=True))


class Enumeration:
    def __init__(self, problem):
        self.problem = problem
        self.best = None
        self.seen = set()
        self.rests = [self._rests(units) for units in problem.fits]

    @staticmethod
    def _rests(units):
        """Ticks of what is left of a job before each of its units, by the fastest options."""
        shortest = [min((option.ticks for _, option in unit), default=0) for unit in units]
        return [sum(shortest[n:]) for n in range(len(units) + 1)]

    def optimum(self):
        lanes = {(p.name, d): 0 for p in self.problem.pools for d in range(p.devices)}
        jobs = len(self.problem.jobs)
        self._go(lanes, [0] * jobs, [j.release for j in self.problem.jobs], {}, [0] * jobs, {}, 0)
        return self.best

    def _go(self, lanes, nexts, ready, home, ends, stay, begun):
        least = [
            max(end, (max(r, begun) if n < len(rests) - 1 else r) + rests[n])
            for end, r, n, rests in zip(ends, ready, nexts, self.rests, strict=True)
        ]
        if self.best is not None and value_of(self.problem, least) >= self.best:
            return
        dicts = [frozenset(table.items()) for table in (lanes, home, stay)]
        state = (*dicts, *nexts, *ready, *ends, begun)
        if state in self.seen:
            return
        self.seen.add(state)
        open_jobs = [j for j, job in enumerate(self.problem.jobs) if nexts[j] < len(job.units)]
        if not open_jobs:
            self.best = value_of(self.problem, ends)
        steps = [
            step
            for j in open_jobs
            for step in self._steps(j, lanes, nexts, ready, home, ends, stay, begun)
        ]
        for step in sorted(steps, key=itemgetter(-1)):  # what begins first, for the sake of time
            self._go(*step)

    def _steps(self, j, lanes, nexts, ready, home, ends, stay, begun):
        job, unit = self.problem.jobs[j], nexts[j]
        weights = job.weights_of(unit) or NOTHING
        for _, option in self.problem.fits[j][unit]:
            pool = [lane for lane in lanes if lane[0] == option.pool]
            tried = set()
            for devices in itertools.combinations(pool, option.devices):
                kept = stay.get(j)
                held = {lane for lanes_of in stay.values() for lane in lanes_of}
                if kept is not None and set(kept) != set(devices):
                    continue
                if kept is None and held & set(devices):
                    continue
                key = tuple(sorted(lanes[lane] for lane in devices))
                if kept is None and key in tried:
                    continue  # devices are alike
                tried.add(key)
                load = 0 if kept is not None else weights.load
                ahead = load if self.problem.host is None else 0
                begun_by = [begun - ahead, job.release, ready[j] - load]
                begin = max([*begun_by, *(lanes[d] for d in devices)])
                if kept is None:
                    begin = max(begin, home.get((j, weights.name), 0))
                begin = self._roomy(j, begin, nexts, ends)
                if begin is None:
                    continue
                stop = begin + load + option.ticks
                follows = unit + 1 < len(job.units) and job.weights_of(unit + 1) == weights
                for stays in (False, True) if follows and weights is not NOTHING else (False,):
                    end = stop + (0 if stays else weights.store)
                    yield (
                        {**lanes, **dict.fromkeys(devices, end)},
                        [n + (k == j) for k, n in enumerate(nexts)],
                        [stop if k == j else r for k, r in enumerate(ready)],
                        {**home, (j, weights.name): end},
                        [max(e, end) if k == j else e for k, e in enumerate(ends)],
                        {k: v for k, v in stay.items() if k != j} | ({j: devices} if stays else {}),
                        begin + ahead,
                    )

    def _roomy(self, j, begin, nexts, ends):
        """When a job may begin beside those under way; ``None`` if some of them never end first."""
        jobs, limit = self.problem.jobs, self.problem.host
        if limit is None or nexts[j] > 0:
            return begin
        others = [k for k in range(len(jobs)) if k != j and nexts[k] > 0]
        over = {k for k in others if nexts[k] == len(jobs[k].units)}
        for instant in sorted({begin, *(ends[k] for k in over if ends[k] > begin)}):
            held = sum(jobs[k].host for k in others if k not in over or ends[k] > instant)
            if held + jobs[j].host <= limit:
                return instant
        return None


def optimum(problem):
    """Value of the best plan; ``None`` if there is none."""
    return Enumeration(problem).optimum()


def plain(seed, objective=JobsObjective.MAKESPAN, most=4, least=1):
    """Gangs with options in one or two pools, with releases and weights."""
    rng = random.Random(seed)
    span = rng.choice((4, 9, 10**9))
    pools = tuple(Pool(f"p{n}", rng.randint(1, 3)) for n in range(rng.choice((1, 1, 2))))

    def option():
        pool = rng.choice(pools)
        ticks = rng.randint(least, span)
        return Option("t", pool.name, rng.randint(1, pool.devices), ticks)

    jobs = tuple(
        Job(
            f"j{n}",
            (Unit(tuple(option() for _ in range(rng.randint(1, 3)))),),
            rng.choice((0, 0, rng.randint(0, span))),
            rng.randint(0, 3),
        )
        for n in range(rng.randint(1, most))
    )
    return JobsProblem(f"plain{seed}", pools, jobs, objective)


def chains(seed, objective=JobsObjective.MAKESPAN, least=1):
    """Shards on devices of one or two speeds that hold one at a time, with a host or without."""
    rng = random.Random(seed)
    span = rng.choice((4, 9, 10**9))
    size = rng.choice((1, 10**10))
    pools = tuple(Pool(f"p{n}", rng.randint(1, 2), size) for n in range(rng.choice((1, 2))))
    jobs = []
    for n in range(rng.randint(1, 3)):
        moved = rng.randint(0, span), rng.randint(0, span)
        weights = tuple(Weights(f"w{k}", size, *moved) for k in range(rng.randint(1, 2)))
        units = tuple(
            Unit(
                tuple(Option("s", pool.name, 1, rng.randint(least, span)) for pool in pools),
                rng.choice(weights).name,
            )
            for _ in range(rng.randint(1, 3 if n < 2 else 1))
        )
        release = rng.choice((0, 0, rng.randint(0, span)))
        jobs.append(Job(f"j{n}", units, release, rng.randint(0, 3), weights, rng.randint(0, 2)))
    host = rng.choice((None, 2, 3))
    return JobsProblem(f"chains{seed}", pools, tuple(jobs), objective, host)
