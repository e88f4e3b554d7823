r"""Lower bounds on plans of jobs, from work, chains, releases and the host alone.

None looks at loads, but for the first of a job and its last store. Letters: job j has release r_j,
weight w_j and units u with options o of g_o devices and d_o ticks in pool p(o), which has G_p
devices; *length* l_j is the first load, the shortest options of its units, and the last store; C is
a makespan.

*Longest job*: C >= r_j + l_j, since units of a job run one after the other, the first behind a load
of its weights and the last before they are stored: no earlier or later run could spare either.

*Work*: choose prices y_p >= 0 of a device tick. A plan holds devices for at most
(C - min r) sum_p y_p G_p; each unit pays at least the least y_p(o) g_o d_o of options that a plan
of makespan C can take, those with r_j + l_j - (shortest of u) + d_o <= C. So the least C that pays
is a bound for any prices (of whole numbers: everything is exact), and for the jobs released at or
after any instant alone. With one pool and one option it is Hydra's sum_m R_m / G.

*Host*: a job is under way for l_j at least, so C - min r >= sum_j h_j l_j / H.

*Weighted completion*, by mean busy times (Goemans 1997; Turek et al. 1994 for gangs): let a_u be
the least price of the work of unit u over sum_p y_p G_p, a_j their sum over the units of j, and M_j
the mean instant of the work of j if each unit does a_u of it, at one rate while it runs. All
devices together are then a machine of rate 1 at most, and of all such machines the one that always
works on the released job of largest w_j / a_j, interrupting others, has the least sum w_j M_j. Unit
u is done half of its ticks after its mean instant, and the units behind it take their shortest, so
C_j >= M_j + sum_u (a_u / a_j) (shortest of u / 2 + shortest of those behind u) + last store. For
equal weights, completions of the least remaining work first on that machine are a bound as well.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from milp_plan.core.amounts import time_text
from milp_plan.core.bound import Bound
from milp_plan.core.quantity import ceil_div

from .problem import Job, JobsObjective, JobsProblem, Option

ROUNDS = 60
"""Steps of prices."""

PRICE = 2**16
"""Whole numbers that prices are rounded to."""

Choice = tuple[int, int, int]
"""Pool, devices and ticks of an option."""

Kinds = dict[tuple[Choice, ...], int]
"""Units that are alike: their options, and how many there are."""


@dataclass(frozen=True)
class Sizes:
    """What bounds know of a problem.

    Parameters
    ----------
    problem
        All of whose units have an option that fits.
    """

    problem: JobsProblem

    @cached_property
    def kinds(self) -> tuple[Kinds, ...]:
        """The units of each job."""
        places = self.problem.pool_numbers
        return tuple(
            dict(
                Counter(
                    tuple(sorted({(places[o.pool], o.devices, o.ticks) for _, o in options}))
                    for options in units
                )
            )
            for units in self.problem.fits
        )

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Least ticks of each job from its first instant to its last."""
        found = []
        for job, kinds in zip(self.problem.jobs, self.kinds, strict=True):
            run = sum(min(d for _, _, d in choices) * n for choices, n in kinds.items())
            found.append(run + _ends(job))
        return tuple(found)

    def prices(self, jobs: Iterable[int]) -> tuple[int, ...]:
        """Return whole prices of the pools at which the work of some jobs is dear: a few steps.

        Steps along a subgradient of the concave function prices -> price of all work; any prices
        are right, these are good ones.
        """
        counts = np.array([pool.devices for pool in self.problem.pools], float)
        even = tuple([PRICE] * len(counts))
        if len(counts) == 1:
            return even
        total: Counter[tuple[Choice, ...]] = Counter()
        for job in jobs:
            total.update(self.kinds[job])
        rows = [(np.array(choices, float), times) for choices, times in total.items()]
        price = np.ones(len(counts)) / counts.sum()
        best, found = price, -1.0
        for step in range(1, ROUNDS + 1):
            slope = np.zeros(len(counts))
            for choices, times in rows:
                cost = price[choices[:, 0].astype(int)] * choices[:, 1] * choices[:, 2]
                at = int(cost.argmin())
                slope[int(choices[at, 0])] += times * choices[at, 1] * choices[at, 2]
            worth = float(slope @ price)
            if worth > found:
                best, found = price, worth
            load = slope / counts
            price = price * np.exp((load / max(1e-300, load.max()) - 1) / np.sqrt(step))
            price /= price @ counts
        whole = tuple(round(part) for part in best / best.max() * PRICE)
        return whole if any(whole) else even

    def work(self, jobs: Sequence[int], prices: Sequence[int], limit: int | None = None) -> int:
        """Return the least price of the work of some jobs, of a plan of a makespan if given."""
        return sum(self.work_of(job, prices, limit) for job in jobs)

    def work_of(self, job: int, prices: Sequence[int], limit: int | None = None) -> int:
        """Return the least price of the work of one job."""
        spare = None
        if limit is not None:
            spare = limit - self.problem.jobs[job].release - self.lengths[job]
        total = 0
        for choices, times in self.kinds[job].items():
            least = min(d for _, _, d in choices)
            total += times * min(
                prices[p] * g * d for p, g, d in choices if spare is None or d - least <= spare
            )
        return total

    def tail(self, job: int, prices: Sequence[int]) -> Fraction:
        """Return the least ticks from the mean instant of a job's work to its completion."""
        spec, behind, sums, total = self.problem.jobs[job], 0, 0, 0
        places = self.problem.pool_numbers
        last = spec.weights_of(len(spec.units) - 1)
        for options in reversed(self.problem.fits[job]):
            least = min(option.ticks for _, option in options)
            work = min(prices[places[o.pool]] * o.devices * o.ticks for _, o in options)
            sums += work * (least + 2 * behind)
            total += work
            behind += least
        mean = Fraction(sums, 2 * total) if total else Fraction(self.lengths[job])
        return mean + (last.store if last is not None and total else 0)


def _ends(job: Job) -> int:
    first, last = job.weights_of(0), job.weights_of(len(job.units) - 1)
    return (0 if first is None else first.load) + (0 if last is None else last.store)


def jobs_obstacle(problem: JobsProblem) -> str | None:
    """Return a proof in words that no plan exists: a unit, or a job, that never fits."""
    for job, units in zip(problem.jobs, problem.fits, strict=True):
        for number, options in enumerate(units):
            if not options:
                return (
                    f"unit {number} of job {job.name!r} has no option that fits: each needs more "
                    "devices, or more bytes with its weights, than its pool has"
                )
        if problem.host is not None and job.host > problem.host and _lasts(job, units):
            return f"job {job.name!r} needs {job.host} bytes of the host, which has {problem.host}"
    return None


def _lasts(job: Job, units: Sequence[Sequence[tuple[int, Option]]]) -> bool:
    """Whether a job is under way for some time, however it runs; else it holds nothing."""
    moved = (job.weights_of(number) for number in range(len(units)))
    return any(weights and (weights.load or weights.store) for weights in moved) or any(
        min(option.ticks for _, option in options) for options in units
    )


def jobs_bounds(problem: JobsProblem) -> Iterator[Bound]:
    """Lower bounds on the problem's objective, simple ones first.

    They are rounded up to a multiple of what all times have in common. Proof: in the order of the
    events of a best plan let each be as early as it can: all times are sums of times of the
    problem then, and jobs that ran together still use at most that.
    """
    sizes, tick = Sizes(problem), problem.tick
    makespan = problem.objective is JobsObjective.MAKESPAN
    for bound in _makespan(sizes) if makespan else _completion(sizes):
        yield replace(bound, value=ceil_div(bound.value, tick) * tick)


def _makespan(sizes: Sizes) -> Iterator[Bound]:
    jobs = sizes.problem.jobs
    ends = [job.release + length for job, length in zip(jobs, sizes.lengths, strict=True)]
    longest = max(range(len(jobs)), key=ends.__getitem__)
    yield Bound("longest job", ends[longest], f"{jobs[longest].name!r} by its fastest options")
    first = min(job.release for job in jobs)
    host = sizes.problem.host
    if host:
        held = sum(job.host * length for job, length in zip(jobs, sizes.lengths, strict=True))
        yield Bound("host", first + ceil_div(held, host), "host bytes over time")
    for since in _instants([job.release for job in jobs]):
        late = [number for number, job in enumerate(jobs) if job.release >= since]
        least = _least_makespan(sizes, late, since, ends[longest])
        when = time_text(sizes.problem.units, since)
        said = "all jobs" if since == first else f"the {len(late)} jobs released at {when} or later"
        yield Bound("work", least, f"device time of {said}, over all devices")


def _instants(releases: Sequence[int], most: int = 64) -> list[int]:
    """Return releases, at most a given number of them, evenly."""
    found = sorted(set(releases))
    step = -(-len(found) // most)
    return found[::step]


def _least_makespan(sizes: Sizes, jobs: Sequence[int], since: int, low: int) -> int:
    """Return the least makespan that pays for the work of some jobs, none released before."""
    prices = sizes.prices(jobs)
    rate = sum(y * pool.devices for y, pool in zip(prices, sizes.problem.pools, strict=True))

    def pays(limit: int) -> bool:
        return sizes.work(jobs, prices, limit) <= rate * (limit - since)

    high = max(low, since + ceil_div(sizes.work(jobs, prices), rate))
    while not pays(high):
        high = since + 2 * (high - since) + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if pays(middle) else (middle + 1, high)
    return low


def _completion(sizes: Sizes) -> Iterator[Bound]:
    problem = sizes.problem
    jobs = problem.jobs
    alone = sum(
        job.weight * (job.release + length) for job, length in zip(jobs, sizes.lengths, strict=True)
    )
    yield Bound("each job alone", alone, "every job by its fastest options, at its release")
    prices = sizes.prices(range(len(jobs)))
    rate = sum(y * pool.devices for y, pool in zip(prices, problem.pools, strict=True))
    works = [sizes.work_of(job, prices) for job in range(len(jobs))]
    busy = mean_busy_times(jobs, works, rate)
    total = Fraction(0)
    for number, (job, at) in enumerate(zip(jobs, busy, strict=True)):
        total += job.weight * (at + sizes.tail(number, prices))
    detail = "one machine as fast as all devices, always on the job of most weight per work"
    yield Bound("mean busy times", -(-total // 1), detail)
    weights = {job.weight for job in jobs}
    if len(weights) == 1:
        ends = shortest_remaining(jobs, works, rate)
        value = -(-(weights.pop() * sum(ends, Fraction(0))) // 1)
        yield Bound("shortest remaining work", value, "one machine as fast as all devices")


def mean_busy_times(jobs: Sequence[Job], works: Sequence[int], rate: int) -> list[Fraction]:
    """Return the mean instant at which one machine works on each job, most weight per work first.

    Parameters
    ----------
    jobs
        With releases and weights.
    works, rate
        Work of each job, and what the machine does per tick. A job without work has the instant of
        its release.
    """
    order = sorted(
        range(len(jobs)),
        key=lambda j: (Fraction(works[j], jobs[j].weight) if jobs[j].weight else 2**200, j),
    )
    ranks = {job: rank for rank, job in enumerate(order)}
    found = [Fraction(job.release) for job in jobs]
    sums = [Fraction(0)] * len(jobs)
    for job, begin, end in _shared(jobs, works, rate, lambda j, _left: ranks[j]):
        sums[job] += (end - begin) * (begin + end) / 2
    for job, work in enumerate(works):
        if work:
            found[job] = sums[job] / Fraction(work, rate)
    return found


def shortest_remaining(jobs: Sequence[Job], works: Sequence[int], rate: int) -> list[Fraction]:
    """Return completions on one machine that always works on the job of least remaining work."""
    ends = [Fraction(job.release) for job in jobs]
    for job, _, end in _shared(jobs, works, rate, lambda _j, left: left):
        ends[job] = end
    return ends


def _shared(
    jobs: Sequence[Job], works: Sequence[int], rate: int, rank: object
) -> Iterator[tuple[int, Fraction, Fraction]]:
    """Stretches (job, begin, end) of one machine that interrupts at releases."""
    assert callable(rank)
    coming = sorted((j for j in range(len(jobs)) if works[j]), key=lambda j: -jobs[j].release)
    waiting: list[tuple[object, int, Fraction]] = []
    now = Fraction(0)
    while coming or waiting:
        if not waiting:
            now = max(now, Fraction(jobs[coming[-1]].release))
        while coming and jobs[coming[-1]].release <= now:
            job = coming.pop()
            left = Fraction(works[job], rate)
            heapq.heappush(waiting, (rank(job, left), job, left))
        _, job, left = heapq.heappop(waiting)
        until = now + left
        if coming:
            until = min(until, Fraction(jobs[coming[-1]].release))
        yield job, now, until
        left -= until - now
        now = until
        if left:
            heapq.heappush(waiting, (rank(job, left), job, left))
