"""Blocks of units, and the time slots in which a model lets them begin.

A *block* is one or more units of a job, one behind the other on the same devices by options of one
pool, whose weights are loaded before the first and stored behind the last. Only units with equal
weights make blocks of more than one: weights that change are loaded anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from milp_plan.core.quantity import ceil_div
from milp_plan.core.view import view

from .bounds import Sizes
from .problem import Job, JobsObjective, JobsProblem, Run, Weights

FINE = 512
"""Slots up to which those that divide every time are taken at once: then the model is exact."""

NOTHING = Weights("", 0, 0, 0)
"""Of blocks whose weights take no time of their devices."""


@dataclass(frozen=True, slots=True)
class Block:
    """Units ``first`` to ``last`` of a job by options of one pool.

    Parameters
    ----------
    job, first, last
        Which units.
    options
        Numbers of their options.
    pool
        Number of the pool.
    devices
        How many are held.
    load, run, store
        Ticks of its parts, one behind the other.
    """

    job: int
    first: int
    last: int
    options: tuple[int, ...]
    pool: int
    devices: int
    load: int
    run: int
    store: int

    @property
    def ticks(self) -> int:
        """Ticks from its begin to its end."""
        return self.load + self.run + self.store


@dataclass(frozen=True)
class Blocks:
    """All blocks of a problem.

    Parameters
    ----------
    problem
        Each unit has an option that fits.
    """

    problem: JobsProblem

    @cached_property
    def serial(self) -> bool:
        """Whether no device can hold weights while it loads, or stores, others that take time.

        Then loads, runs and stores of a device are all one behind the other.
        """
        moved = [
            (j, w.name, w.bytes)
            for j, job in enumerate(self.problem.jobs)
            for w in job.weights
            if w.load or w.store
        ]
        if not moved:
            return True
        if any(
            option.devices > 1
            for job in self.problem.jobs
            for unit in job.units
            for option in unit.options
        ):
            return False
        sizes = sorted(w.bytes for job in self.problem.jobs for w in job.weights if job.units)
        free = any(unit.weights is None for job in self.problem.jobs for unit in job.units)
        least = sizes[0] + (sizes[1] if len(sizes) > 1 else sizes[0])
        return not free and all(
            pool.memory is not None and pool.memory < least for pool in self.problem.pools
        )

    @cached_property
    def all(self) -> tuple[Block, ...]:
        """Every block."""
        return tuple(self._blocks())

    @cached_property
    def grain(self) -> int:
        """The longest slot that divides every time."""
        times = [job.release for job in self.problem.jobs]
        for block in self.all:
            times += [block.load, block.run, block.store]
        return gcd(*times) or 1

    def moved(self, weights: Weights | None) -> Weights | None:
        """Return weights whose loads and stores take time of devices; ``None`` for others."""
        return weights if self.serial and weights and (weights.load or weights.store) else None

    def _blocks(self) -> Iterator[Block]:
        places = self.problem.pool_numbers
        for number, job in enumerate(self.problem.jobs):
            for first in range(len(job.units)):
                weights = self.moved(job.weights_of(first))
                moved = weights or NOTHING
                for option, chosen in self.problem.fits[number][first]:
                    options, run = [option], chosen.ticks
                    for last in range(first, len(job.units)):
                        if last > first:
                            more = self._more(number, last, weights, chosen.pool)
                            if more is None:
                                break
                            options.append(more[1])
                            run += more[0]
                        yield Block(
                            *(number, first, last, tuple(options)),
                            *(places[chosen.pool], chosen.devices, moved.load, run, moved.store),
                        )

    def _more(
        self, job: int, unit: int, weights: Weights | None, pool: str
    ) -> tuple[int, int] | None:
        """The ticks and number of the option by which a unit stays with the one before it."""
        if weights is None or self.problem.jobs[job].weights_of(unit) != weights:
            return None
        found = [
            (option.ticks, number)
            for number, option in self.problem.fits[job][unit]
            if option.pool == pool and option.devices == 1
        ]
        return min(found, default=None)


def runs_of(  # noqa: PLR0917
    job: Job, first: int, options: Iterable[int], devices: tuple[int, ...], begin: int, start: int
) -> Iterator[Run]:
    """Yield the runs of a block of a job from unit ``first`` on.

    Parameters
    ----------
    options
        Numbers of the units' options.
    begin, start
        When its weights begin to be loaded, and when its first unit starts.
    """
    units = list(enumerate(options, first))
    for unit, option in units:
        stop = start + job.units[unit].options[option].ticks
        moved = job.units[unit].weights is not None
        load = begin if moved and unit == first else None
        store = stop if moved and unit == units[-1][0] else None
        yield Run(job.name, unit, option, devices, start, load, store)
        start = stop


@view
def blocks_of(problem: JobsProblem) -> Blocks:
    """Return the blocks of a problem, each unit of which has an option that fits."""
    return Blocks(problem)


@dataclass(frozen=True)
class Grid:
    """Slots of a horizon.

    Parameters
    ----------
    blocks
        Of the problem.
    horizon
        Some best plan of at most the value that is asked for runs no longer.
    slot
        Ticks of a slot.
    """

    blocks: Blocks
    horizon: int
    slot: int

    @property
    def count(self) -> int:
        """Slots of the horizon."""
        return self.horizon // self.slot + 1

    @property
    def columns(self) -> int:
        """Columns of a model at most, without making them."""
        return len(self.blocks.all) * self.count

    @property
    def exact(self) -> bool:
        """Whether slots divide all times: finer ones say no more."""
        return self.slot <= self.blocks.grain


def grid_of(problem: JobsProblem, slots: int, target: int | None) -> Grid:
    """Return slots for plans of a value.

    Parameters
    ----------
    problem
        Each unit has an option that fits.
    slots
        How many, unless at most :data:`FINE` divide all times: then those.
    target
        The value, ``None`` for any.
    """
    blocks = blocks_of(problem)
    horizon = _horizon(problem, target)
    slot = blocks.grain
    if horizon // slot > FINE:
        slot = max(slot, ceil_div(horizon + 1, slots))
    return Grid(blocks, horizon, slot)


def _horizon(problem: JobsProblem, target: int | None) -> int:
    """When all is done in some best plan of at most a value, if there is any.

    One unit after the other by the fastest options is a plan, so that bounds the makespan. For the
    weighted objective: as long as there is something to do, something is done, each thing once; and
    no job of weight is complete later than what the others leave of the target.
    """
    makespan = problem.objective is JobsObjective.MAKESPAN
    if target is not None and makespan:
        return target
    jobs, chosen = problem.jobs, min if makespan else max
    serial = max(job.release for job in jobs)
    for job, units in zip(jobs, problem.fits, strict=True):
        for number, options in enumerate(units):
            weights = job.weights_of(number) or NOTHING
            serial += chosen(option.ticks for _, option in options) + weights.load + weights.store
    if makespan or target is None or any(job.weight == 0 for job in jobs):
        return serial
    lengths = Sizes(problem).lengths
    alone = sum(j.weight * (j.release + n) for j, n in zip(jobs, lengths, strict=True))
    latest = max(
        (target - alone) // j.weight + j.release + n for j, n in zip(jobs, lengths, strict=True)
    )
    return max(0, min(serial, latest))
