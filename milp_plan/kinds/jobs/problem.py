"""Jobs: many trainings on one cluster, each with ways to run it; which, where and when.

The problems of Saturn (a job is one unit, which runs by one of several techniques on one or more
devices), of Hydra (a job is a chain of shards whose weights come from a host) and of A-SRPT (jobs
arrive over time). The law is in ``docs/laws.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from math import gcd
from typing import Any

from milp_plan.core.checked import CheckedProblem
from milp_plan.core.errors import Finding, below_findings, name_findings
from milp_plan.core.quantity import Units
from milp_plan.core.shown import ShownPlan

MOST = 2**60
"""Largest sum of the longest times of all units, weighted or not: sums stay within 64 bits."""

MOST_DEVICES = 1_000_000
"""Of one pool: planners keep an account for each device."""

UNNAMED = Units("unspecified")
"""Of sources that name no unit of time."""


class JobsObjective(StrEnum):
    """What a plan of jobs is to make small."""

    MAKESPAN = "makespan"
    """When the last job is complete."""
    COMPLETION = "weighted_completion"
    """The sum over jobs of weight times completion."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Devices that are alike: any of them may take the place of any other.

    Parameters
    ----------
    name
        Unique in its problem.
    devices
        How many.
    memory
        Bytes on each; ``None`` without a limit.
    """

    name: str
    devices: int
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """A way to run a unit.

    Parameters
    ----------
    technique
        Of people: ``"fsdp"``, ``"pipeline"``, ``"shard"``.
    pool
        Where.
    devices
        How many devices it holds, all of them as long as it runs.
    ticks
        How long that is.
    bytes
        What it takes on each of them beside weights.
    """

    technique: str
    pool: str
    devices: int
    ticks: int
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Weights:
    """What lies on the host and is needed on a device by some units of a job.

    Parameters
    ----------
    name
        Unique in its job.
    bytes
        What they take on a device.
    load, store
        Ticks to bring them to a device, and to write them back.
    """

    name: str
    bytes: int
    load: int
    store: int


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of a job that is not interrupted.

    Parameters
    ----------
    options
        Ways to run it.
    weights
        Name of the weights that it reads and writes; ``None`` if it needs none from the host.
    """

    options: tuple[Option, ...]
    weights: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """Units that run one after the other.

    Parameters
    ----------
    name
        Unique in its problem.
    units
        In their order.
    release
        No unit runs, and no weights are loaded, before.
    weight
        Of its completion in the objective.
    weights
        What its units need from the host.
    host
        Bytes on the host from its first instant to its last.
    """

    name: str
    units: tuple[Unit, ...]
    release: int = 0
    weight: int = 1
    weights: tuple[Weights, ...] = ()
    host: int = 0

    def weights_of(self, unit: int) -> Weights | None:
        """Return the weights that a unit needs."""
        wanted = self.units[unit].weights
        return next((entry for entry in self.weights if entry.name == wanted), None)


@dataclass(frozen=True)
class JobsProblem(CheckedProblem):
    """Choose for every unit of every job an option, devices and a start.

    Parameters
    ----------
    name
        Name of the instance.
    pools
        The devices.
    jobs
        In the order of the file: that in which who plans nothing would run them.
    objective
        What counts.
    host
        Bytes that the host has for jobs that are under way; ``None`` without a limit.
    units
        What ticks and bytes stand for.
    provenance
        Where the numbers come from; does not change the problem.

    Raises
    ------
    InputError
        With every finding at once.
    """

    name: str
    pools: tuple[Pool, ...]
    jobs: tuple[Job, ...]
    objective: JobsObjective = JobsObjective.MAKESPAN
    host: int | None = None
    units: Units = UNNAMED
    provenance: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def pool(self) -> Mapping[str, Pool]:
        """The pools by name."""
        return {entry.name: entry for entry in self.pools}

    @cached_property
    def pool_numbers(self) -> Mapping[str, int]:
        """Place of each pool, by name."""
        return {entry.name: number for number, entry in enumerate(self.pools)}

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Place of each job, by name."""
        return {entry.name: number for number, entry in enumerate(self.jobs)}

    @cached_property
    def devices(self) -> int:
        """Devices of all pools."""
        return sum(entry.devices for entry in self.pools)

    @cached_property
    def fits(self) -> tuple[tuple[tuple[tuple[int, Option], ...], ...], ...]:
        """For each unit of each job, the options that some devices can hold, with their numbers.

        What lasts no time holds nothing: neither the bytes of an option without ticks, nor weights
        that such an option needs and that are loaded and stored in no time.
        """
        return tuple(
            tuple(
                tuple(
                    (number, option)
                    for number, option in enumerate(unit.options)
                    if self._fits(job, place, option)
                )
                for place, unit in enumerate(job.units)
            )
            for job in self.jobs
        )

    @cached_property
    def tick(self) -> int:
        """Ticks that divide every time of the problem."""
        found = {job.release for job in self.jobs}
        for job in self.jobs:
            found |= {option.ticks for unit in job.units for option in unit.options}
            found |= {ticks for one in job.weights for ticks in (one.load, one.store)}
        return gcd(*found) or 1

    @cached_property
    def plain(self) -> bool:
        """Whether jobs are single units, with neither weights nor a host that limits them."""
        return all(len(job.units) == 1 and not job.weights for job in self.jobs) and (
            self.host is None or not any(job.host for job in self.jobs)
        )

    def _parts(self) -> Iterator[tuple[str, Any]]:
        yield "problem", self
        yield from ((f"pool {pool.name!r}", pool) for pool in self.pools)
        for job in self.jobs:
            where = f"job {job.name!r}"
            yield where, job
            yield from ((f"{where}, weights {entry.name!r}", entry) for entry in job.weights)
            for place, unit in enumerate(job.units):
                for number, option in enumerate(unit.options):
                    yield f"{where}, unit {place}, option {number}", option

    def _shared(self) -> object:
        pools = [(pool.name, pool.devices) for pool in self.pools]
        return "jobs", self.name, pools, self.jobs

    def _content(self) -> object:
        return self.name, self.objective.value, self.host, self.pools, self.jobs

    def _fits(self, job: Job, unit: int, option: Option) -> bool:
        pool, weights = self.pool[option.pool], job.weights_of(unit)
        needed = option.bytes if option.ticks else 0
        if weights is not None and (option.ticks or weights.load or weights.store):
            needed += weights.bytes
        held = pool.memory is None or needed <= pool.memory
        return option.devices <= pool.devices and held

    def _findings(self) -> Iterator[Finding]:
        for what, names in (
            ("pool", [entry.name for entry in self.pools]),
            ("job", [entry.name for entry in self.jobs]),
        ):
            if not names:
                yield Finding(f"{what}s", "none", "at least one", f"add a {what}")
            yield from name_findings(what, names)
        for pool in self.pools:
            where = f"pool {pool.name!r}"
            yield from below_findings(f"{where}, devices", pool.devices, 1)
            if pool.devices > MOST_DEVICES:
                expected, remedy = f"at most {MOST_DEVICES}", "give as many as jobs can use"
                yield Finding(f"{where}, devices", str(pool.devices), expected, remedy)
            yield from below_findings(f"{where}, memory", pool.memory or 0, 0)
        yield from below_findings("host, memory", self.host or 0, 0)
        pools = {entry.name for entry in self.pools}
        for job in self.jobs:
            yield from _job_findings(job, pools)
        yield from self._size_findings()

    def _size_findings(self) -> Iterator[Finding]:
        """Times and bytes so large that sums of them leave 64 bits."""
        longest = max((job.release for job in self.jobs), default=0)
        for job in self.jobs:
            moved = {w.name: w.load + w.store for w in job.weights}
            for unit in job.units:
                ticks = [option.devices * option.ticks for option in unit.options]
                longest += max(ticks, default=0) + moved.get(unit.weights or "", 0)
        heaviest = max(1, sum(job.weight for job in self.jobs))
        if longest * heaviest > MOST:
            found = f"times of {longest} together, weights of {heaviest}"
            expected, remedy = f"a product of at most {MOST}", "scale times or weights down"
            yield Finding("jobs", found, expected, remedy)


def _job_findings(job: Job, pools: set[str]) -> Iterator[Finding]:
    where = f"job {job.name!r}"
    for what, number in (("release", job.release), ("weight", job.weight), ("host", job.host)):
        yield from below_findings(f"{where}, {what}", number, 0)
    if not job.units:
        yield Finding(f"{where}, units", "none", "at least one", "add a unit")
    names = [entry.name for entry in job.weights]
    yield from name_findings(f"{where}, weights", names)
    for entry in job.weights:
        for what, number in (("bytes", entry.bytes), ("load", entry.load), ("store", entry.store)):
            yield from below_findings(f"{where}, weights {entry.name!r}, {what}", number, 0)
    for place, unit in enumerate(job.units):
        yield from _unit_findings(f"{where}, unit {place}", unit, pools, set(names))


def _unit_findings(where: str, unit: Unit, pools: set[str], weights: set[str]) -> Iterator[Finding]:
    if not unit.options:
        yield Finding(f"{where}, options", "none", "at least one", "add an option")
    if unit.weights is not None and unit.weights not in weights:
        expected = "weights of the job"
        yield Finding(f"{where}, weights", repr(unit.weights), expected, "correct the name")
    for number, option in enumerate(unit.options):
        here = f"{where}, option {number}"
        if option.pool not in pools:
            expected = f"one of {', '.join(sorted(pools))}"
            yield Finding(f"{here}, pool", repr(option.pool), expected, "correct the name")
        yield from below_findings(f"{here}, devices", option.devices, 1)
        yield from below_findings(f"{here}, ticks", option.ticks, 0)
        yield from below_findings(f"{here}, bytes", option.bytes, 0)


@dataclass(frozen=True, slots=True)
class Run:
    """One unit of a job, as a plan runs it.

    Parameters
    ----------
    job, unit
        Name of the job, number of the unit.
    option
        Number of the option.
    devices
        Numbers of devices of the option's pool.
    start
        When it starts, in ticks.
    load
        When its weights begin to come from the host; ``None`` where there are none, or where they
        stayed from the run before on its devices.
    store
        When they begin to go back; ``None`` where there are none, or they stay for the next run.
    """

    job: str
    unit: int
    option: int
    devices: tuple[int, ...]
    start: int
    load: int | None = None
    store: int | None = None


@dataclass(frozen=True)
class JobsPlan(ShownPlan):
    """A run for every unit of every job.

    Parameters
    ----------
    problem
        Name of the problem it answers.
    runs
        In any order.
    fingerprint, parent, value, planner
        What its maker says about it; the checker recomputes the value. ``parent`` is what the
        variants of its problem have in common.
    """

    problem: str
    runs: tuple[Run, ...]
    fingerprint: str | None = None
    value: int | None = None
    planner: str = ""
    parent: str | None = None
