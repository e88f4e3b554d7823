r"""Jobs of one unit each within a makespan: a plan, or a proof that there is none.

**Orders.** Let ticks be positive. Take any plan within C, place its jobs anew in the order of their
starts (of equal ones, by number), each as early as its release and the devices that are free by
then allow. No start is later than before, since no device is free later. If the order of starts is
another one now, do it again: the sum of starts went down, so this ends. In the end the order is
that of starts, and each start is the least that jobs before it allow; looking at all such orders
and options therefore misses no makespan. Behind a job that starts at t nothing starts before t, so
that devices free before t are as good as free at t.

**Work.** Let y_p >= 0 be a price of a device tick of pool p, and f_d >= t when device d is free.
What is still to come must fit between the f_d and C: the sum of y_p(d) (C - f_d) pays for the least
y_p g_o d_o of each job to come, of options that can still end by C. Let w be what is left over. An
option that costs more than w above the least of its job is used by no plan; a device whose C - f_d
is shorter than every option of its pool that is left carries nothing more, and its term goes. That
makes w smaller, until nothing changes; below zero there is no plan behind this node. All of it is
in whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.budget import Budget
from milp_plan.core.compiled import compiled

from ..bounds import Sizes
from ..problem import JobsObjective, JobsPlan, JobsProblem
from .lists import JobTables, placed
from .loops import DEVICES, POOL, TICKS

GANGS = "every order and option"

PAUSE = 200_000
"""Nodes between two looks at the clock."""

ROOM = 2**62
"""Prices of all devices up to the makespan stay below."""

Integers = NDArray[np.int64]

NONE, FOUND, PAUSED = 0, 1, 2
"""What the loop has come to."""

DEPTH, ENTERING = 0, 1
"""Members of the loop's position."""


def suits(problem: JobsProblem) -> bool:
    """Whether a problem is one of single units, each of which lasts, and of makespan."""
    return (
        problem.objective is JobsObjective.MAKESPAN
        and problem.plain
        and all(option.ticks > 0 for (unit,) in problem.fits for _, option in unit)
    )


@dataclass
class GangAnswer:
    """What is known of plans within a makespan.

    ``plan`` is one; ``none`` says that there is none. Neither: the budget was over.
    """

    plan: JobsPlan | None
    none: bool


class Gangs:
    """Plans of a problem that :func:`suits` within a makespan.

    Parameters
    ----------
    problem
        Each unit has an option that fits.
    """

    def __init__(self, problem: JobsProblem) -> None:
        self.problem = problem
        self.tables = JobTables(problem)
        work = {
            job: min(
                int(self.tables.options[DEVICES, o] * self.tables.options[TICKS, o])
                for o in self.tables.of(job)
            )
            for job in range(len(problem.jobs))
        }
        self.order = sorted(work, key=lambda job: (-work[job], job))
        self.rows = [self._ladder(job) for job in self.order]
        self.prices = Sizes(problem).prices(range(len(problem.jobs)))

    def _ladder(self, job: int) -> list[int]:
        """Options of a job but those that take as many devices as another, and as long."""
        kept: list[int] = []
        options = self.tables.options
        for o in sorted(self.tables.of(job), key=lambda o: tuple(options[:, o].tolist())):
            if not any(
                options[POOL, k] == options[POOL, o] and options[TICKS, k] <= options[TICKS, o]
                for k in kept
            ):
                kept.append(o)
        return kept

    def within(self, limit: int, budget: Budget, nodes: int | None = None) -> GangAnswer:
        """Look for a plan of a makespan of at most ``limit`` ticks.

        Parameters
        ----------
        limit
            Ticks.
        budget
            Looked at now and then.
        nodes
            How many to look at, at most.
        """
        prices = self._prices(limit)
        if prices is None:
            return GangAnswer(None, False)
        jobs, devices = len(self.order), int(self.tables.bases[-1])
        flat = [option for row in self.rows for option in row]
        options = np.ascontiguousarray(self.tables.options[:, flat])
        first = np.cumsum([0, *(len(row) for row in self.rows)]).astype(np.int64)
        release = np.array([self.problem.jobs[job].release for job in self.order], np.int64)
        free = np.zeros((jobs + 1, devices), np.int64)
        now, last = np.zeros(jobs + 1, np.int64), np.full(jobs + 1, -1, np.int64)
        taken = np.zeros((2, jobs + 1), np.int64)
        spare = np.zeros(jobs + 1, np.int64)
        least = np.zeros((jobs + 1, jobs), np.int64)
        used = np.zeros(jobs, np.int64)
        at = np.array([0, 1], np.int64)
        state, left = PAUSED, ROOM if nodes is None else nodes
        while state == PAUSED and left > 0 and not budget.over:
            left -= PAUSE
            state = advance(
                options,
                first,
                release,
                self.tables.bases,
                prices,
                limit,
                PAUSE,
                free,
                now,
                last,
                taken,
                spare,
                least,
                used,
                at,
            )
        if state != FOUND:
            return GangAnswer(None, state == NONE)
        starts = [
            (self.order[job], 0, self.tables.rows[flat[option]][0], int(now[depth + 1]))
            for depth, (job, option) in enumerate(taken.T[:jobs].tolist())
        ]
        return GangAnswer(placed(self.problem, starts, GANGS), False)

    def _prices(self, limit: int) -> Integers | None:
        """Prices with which sums stay within 64 bits; ``None`` where none do."""
        for prices in (self.prices, (1,) * len(self.prices)):
            pools = zip(prices, self.problem.pools, strict=True)
            if limit * sum(y * pool.devices for y, pool in pools) < ROOM:
                return np.array(prices, np.int64)
        return None


@compiled
def begin_of(  # noqa: PLR0917 (loops take arrays)
    options: Integers, option: int, release: int, bases: Integers, free: Integers, now: int
) -> int:
    """When an option can start, where nothing more starts before now."""
    place = bases[options[POOL, option]] + options[DEVICES, option] - 1
    return int(max(release, free[place], now))


@compiled
def left_over(  # noqa: PLR0917, PLR0912, C901
    options: Integers,
    first: Integers,
    release: Integers,
    bases: Integers,
    prices: Integers,
    limit: int,
    free: Integers,
    now: int,
    least: Integers,
    used: Integers,
) -> int:
    """Price of the device time that work to come leaves, below zero if it does not fit.

    Leaves the least price of each job to come in ``least``.
    """
    jobs, pools = used.shape[0], bases.shape[0] - 1
    total = 0
    for job in range(jobs):
        if used[job]:
            continue
        lowest = -1
        for option in range(first[job], first[job + 1]):
            begin = begin_of(options, option, release[job], bases, free, now)
            if begin + options[TICKS, option] <= limit:
                price = prices[options[POOL, option]] * options[DEVICES, option]
                price *= options[TICKS, option]
                if lowest < 0 or price < lowest:
                    lowest = price
        if lowest < 0:
            return -1
        least[job] = lowest
        total += lowest
    spare = ROOM
    shortest = np.zeros(pools, np.int64)
    while True:
        room = 0
        for pool in range(pools):
            for device in range(bases[pool], bases[pool + 1]):
                span = limit - max(free[device], now)
                if span >= shortest[pool]:
                    room += prices[pool] * span
        if room - total == spare or room < total:
            return room - total
        spare = room - total
        shortest[:] = limit + 1
        for job in range(jobs):
            if used[job]:
                continue
            for option in range(first[job], first[job + 1]):
                pool, ticks = options[POOL, option], options[TICKS, option]
                if ticks < shortest[pool]:
                    begin = begin_of(options, option, release[job], bases, free, now)
                    price = prices[pool] * options[DEVICES, option] * ticks
                    if begin + ticks <= limit and price - least[job] <= spare:
                        shortest[pool] = ticks


@compiled
def take(  # noqa: PLR0917
    base: int, stop: int, count: int, begin: int, end: int, before: Integers, after: Integers
) -> None:
    """Devices of a pool, in the order in which they are free, once some run from begin to end."""
    place, added = base, 0
    for device in range(base + count, stop):
        span = max(before[device], begin)
        while added < count and end <= span:
            after[place] = end
            place += 1
            added += 1
        after[place] = span
        place += 1
    while added < count:
        after[place] = end
        place += 1
        added += 1


@compiled
def advance(  # noqa: PLR0917
    options: Integers,
    first: Integers,
    release: Integers,
    bases: Integers,
    prices: Integers,
    limit: int,
    nodes: int,
    free: Integers,
    now: Integers,
    last: Integers,
    taken: Integers,
    spare: Integers,
    least: Integers,
    used: Integers,
    at: Integers,
) -> int:
    """Go on with the search for a number of nodes; return what it has come to.

    Row ``d`` of ``free``, ``now``, ``last``, ``spare`` and ``least`` is of the node at depth ``d``;
    ``taken`` is the job and the option that lead on from it.
    """
    jobs = used.shape[0]
    depth, entering = at[DEPTH], at[ENTERING]
    while depth >= 0:
        if entering:
            nodes -= 1
            if depth == jobs:
                return FOUND
            if nodes < 0:
                at[DEPTH], at[ENTERING] = depth, 1
                return PAUSED
            spare[depth] = left_over(
                options,
                first,
                release,
                bases,
                prices,
                limit,
                free[depth],
                now[depth],
                least[depth],
                used,
            )
            taken[0, depth], taken[1, depth] = 0, first[0] - 1
            entering = 0
        job, option, begin = taken[0, depth], taken[1, depth], -1
        while spare[depth] >= 0 and begin < 0:
            if used[job] or option + 1 >= first[job + 1]:
                job += 1
                if job >= jobs:
                    break
                option = first[job] - 1
                continue
            option += 1
            pool, ticks = options[POOL, option], options[TICKS, option]
            price = prices[pool] * options[DEVICES, option] * ticks - least[depth, job]
            start = begin_of(options, option, release[job], bases, free[depth], now[depth])
            again = start == now[depth] and job < last[depth]  # the other order of two was seen
            if start + ticks <= limit and price <= spare[depth] and not again:
                begin = start
        if begin < 0:
            depth -= 1
            if depth >= 0:
                used[taken[0, depth]] = 0
            continue
        taken[0, depth], taken[1, depth] = job, option
        used[job] = 1
        free[depth + 1] = free[depth]
        pool = options[POOL, option]
        end = begin + options[TICKS, option]
        base, stop, count = bases[pool], bases[pool + 1], options[DEVICES, option]
        take(base, stop, count, begin, end, free[depth], free[depth + 1])
        now[depth + 1], last[depth + 1] = begin, job
        depth += 1
        entering = 1
    at[DEPTH] = depth
    return NONE
