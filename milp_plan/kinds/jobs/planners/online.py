"""Jobs that arrive over time, by the order of one virtual machine: A-SRPT, and what it is held to.

Source: A-SRPT (2025), after its abstract: the cluster becomes one machine that may interrupt, which
always works on the job of shortest remaining processing time; the cluster starts jobs in the order
in which that machine ends them. A job's virtual size is its share of the devices times its time.
Nothing that arrives later is known to a policy.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from ..problem import JobsPlan, JobsProblem
from .lists import placed

SRPT, FIFO, LONGEST = "virtual shortest remaining time first", "arrival order", "longest job first"


class _Virtual:
    """One machine that interrupts: remaining sizes, and when each job was over."""

    def __init__(self) -> None:
        self.now = Fraction(0)
        self.left: list[tuple[Fraction, int]] = []
        self.over: dict[int, Fraction] = {}

    def go(self, until: int) -> None:
        """Work until an instant."""
        while self.left and self.now < until:
            left, job = heapq.heappop(self.left)
            step = min(left, until - self.now)
            self.now += step
            if step < left:
                heapq.heappush(self.left, (left - step, job))
            else:
                self.over[job] = self.now
        self.now = max(self.now, Fraction(until))

    def ranks(self) -> dict[int, tuple[int, Fraction]]:
        """Jobs that are over, in their order, then the others by what is left."""
        found = {job: (0, at) for job, at in self.over.items()}
        return found | {job: (1, left) for left, job in self.left}


def arrivals(
    problem: JobsProblem, policy: str = SRPT, predicted: Sequence[Fraction] | None = None
) -> JobsPlan:
    """Plan jobs as they arrive: whenever devices are free, start what fits, best rank first.

    Each job runs by its option of least device time.

    Parameters
    ----------
    problem
        Plain, and each unit has an option that fits.
    policy
        One of :data:`POLICIES`.
    predicted
        Part of its true size that each job is thought to have; 1 unless given. Only the rank of
        the virtual machine depends on it.
    """
    sizes = predicted or [Fraction(1)] * len(problem.jobs)
    chosen = [
        min(unit, key=lambda o: (o[1].devices * o[1].ticks, o[1].ticks, o[0]))
        for (unit,) in problem.fits
    ]
    ticks = [option.ticks for _, option in chosen]
    free = {pool.name: pool.devices for pool in problem.pools}
    events = [(job.release, 1, number) for number, job in enumerate(problem.jobs)]
    heapq.heapify(events)
    virtual, waiting = _Virtual(), set[int]()
    starts: list[tuple[int, int, int, int]] = []
    while events:
        now = events[0][0]
        virtual.go(now)
        while events and events[0][0] == now:
            _, kind, job = heapq.heappop(events)
            option = chosen[job][1]
            if kind == 0:
                free[option.pool] += option.devices
                continue
            waiting.add(job)
            size = Fraction(option.devices * option.ticks, problem.devices) * sizes[job]
            heapq.heappush(virtual.left, (size, job))
        for job in POLICIES[policy](problem, virtual, waiting, ticks):
            number, option = chosen[job]
            if option.devices <= free[option.pool]:
                free[option.pool] -= option.devices
                waiting.discard(job)
                starts.append((job, 0, number, now))
                heapq.heappush(events, (now + option.ticks, 0, job))
    return placed(problem, starts, policy)


def _srpt(
    _problem: JobsProblem, virtual: _Virtual, waiting: set[int], _ticks: Sequence[int]
) -> list[int]:
    ranks = virtual.ranks()
    return sorted(waiting, key=lambda job: (ranks[job], job))


def _fifo(
    problem: JobsProblem, _virtual: _Virtual, waiting: set[int], _ticks: Sequence[int]
) -> list[int]:
    return sorted(waiting, key=lambda job: (problem.jobs[job].release, job))


def _longest(
    _problem: JobsProblem, _virtual: _Virtual, waiting: set[int], ticks: Sequence[int]
) -> list[int]:
    return sorted(waiting, key=lambda job: (-ticks[job], job))


POLICIES: Mapping[str, Callable[..., list[int]]] = {SRPT: _srpt, FIFO: _fifo, LONGEST: _longest}
"""Policies by name: the order in which waiting jobs are tried."""
