"""Reasons of jobs: pools, options, and the chain of units that ends last."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from milp_plan.core import Counts, UnsupportedProblemError, Verdict
from milp_plan.run.reasons.base import (
    Block,
    Move,
    Reasons,
    Remedy,
    Resource,
    Task,
    Usage,
    Why,
    chain_of,
)

from .problem import JobsPlan, JobsProblem, Option

HOST = "memory of the host"


class JobsReasons(Reasons[JobsProblem, JobsPlan]):
    """Reasons of :class:`milp_plan.kinds.jobs.problem.JobsProblem`."""

    noun = "jobs"

    def parts(self, problem: JobsProblem) -> tuple[str, ...]:
        """Jobs."""
        return tuple(job.name for job in problem.jobs)

    def keep(self, problem: JobsProblem, names: Collection[str]) -> JobsProblem:
        """Leave jobs out."""
        wanted = set(names)
        return replace(problem, jobs=tuple(job for job in problem.jobs if job.name in wanted))

    def resources(self, problem: JobsProblem) -> tuple[Resource, ...]:
        """Memory and devices of each pool, memory of the host."""
        found = []
        for pool in problem.pools:
            found.append(Resource(f"memory of {pool.name}", "memory", pool.memory, Counts.SIZE))
            name = f"devices of {pool.name}"
            found.append(Resource(name, "devices", pool.devices, Counts.THINGS, lifted=False))
        return (*found, Resource(HOST, "host memory", problem.host, Counts.SIZE))

    def resized(self, problem: JobsProblem, amounts: Mapping[str, int | None]) -> JobsProblem:
        """Other pools, another host."""
        pools = [
            replace(
                pool,
                memory=amounts.get(f"memory of {pool.name}", pool.memory),
                devices=amounts.get(f"devices of {pool.name}") or pool.devices,
            )
            for pool in problem.pools
        ]
        return replace(problem, pools=tuple(pools), host=amounts.get(HOST, problem.host))

    def places(self, problem: JobsProblem, part: str) -> tuple[str, ...]:
        """Options of its units in words: ``"fsdp on 4 of gpu"``."""
        job = next(job for job in problem.jobs if job.name == part)
        return tuple(dict.fromkeys(_told(o) for unit in job.units for o in unit.options))

    def pinned(self, problem: JobsProblem, part: str, place: str) -> JobsProblem:
        """Leave one option to the units of a job that have it."""
        known = self.places(problem, part)
        if place not in known:
            text = f"job {part!r} has no option {place!r}; it has: {', '.join(known)}"
            raise UnsupportedProblemError(text)
        jobs = []
        for job in problem.jobs:
            units = []
            for unit in job.units:
                kept = tuple(option for option in unit.options if _told(option) == place)
                fixed = job.name == part and kept
                units.append(replace(unit, options=kept) if fixed else unit)
            jobs.append(replace(job, units=tuple(units)))
        return replace(problem, jobs=tuple(jobs))

    def why(self, problem: JobsProblem, plan: JobsPlan, verdict: Verdict) -> Why:
        """The chain of units, pools by how busy they are, jobs by what they take."""
        from .check import completions, read_runs

        readings = read_runs(problem, plan)
        tasks = [
            Task(
                entry.name,
                entry.run.job,
                tuple(f"{entry.option.pool} {number}" for number in entry.run.devices),
                entry.first,
                entry.last,
                (f"{entry.run.job}/{entry.run.unit - 1}",) if entry.run.unit else (),
                entry.job.release,
            )
            for entry in readings
        ]
        chain = chain_of(tasks)
        makespan, ends = verdict.components["makespan"], completions(readings)
        busy: dict[str, int] = {}
        for entry in readings:
            for number in entry.run.devices:
                name = f"{entry.option.pool} {number}"
                busy[name] = busy.get(name, 0) + entry.option.ticks
        usage = [
            Usage(name, "device", ticks, makespan, Counts.TIME) for name, ticks in busy.items()
        ]
        usage.sort(key=lambda entry: (-entry.amount, entry.name))
        limits = []
        memory = max(
            (pool.memory for pool in problem.pools if pool.memory is not None), default=None
        )
        if memory is not None and len(problem.pools) == 1:
            name = f"memory of {problem.pools[0].name}"
            limits.append(
                Usage(name, "memory", verdict.components["peak_memory"], memory, Counts.SIZE)
            )
        if problem.host is not None:
            peak = verdict.components["peak_host"]
            limits.append(Usage(HOST, "host memory", peak, problem.host, Counts.SIZE))
        on_chain: dict[str, int] = {}
        for link in chain:
            on_chain[link.block or ""] = on_chain.get(link.block or "", 0) + link.stop - link.start
        blocks = []
        for name in sorted(ends, key=lambda name: -ends[name]):
            own = [entry for entry in readings if entry.run.job == name]
            places = tuple(dict.fromkeys(_told(entry.option) for entry in own))
            ticks = sum(entry.option.ticks for entry in own)
            told = (name, "job", len(own), places, ticks, on_chain.get(name, 0), Counts.TIME)
            blocks.append(Block(*told))
        full = tuple(entry.name for entry in limits if entry.amount == entry.whole)
        return Why(
            chain,
            tuple(usage),
            tuple(limits),
            full,
            tuple(blocks),
            tuple(_remedies(problem, on_chain)),
        )

    def moves(
        self, problem: JobsProblem, before: JobsPlan, other: JobsProblem, after: JobsPlan
    ) -> tuple[Move, ...]:
        """Jobs with other options, by both; then those that are complete at another time."""
        from .check import completions, read_runs

        sides = [read_runs(problem, before), read_runs(other, after)]
        ends = [completions(side) for side in sides]
        groups: dict[tuple[str, str, str], list[str]] = {}
        for name in (name for name in ends[0] if name in ends[1]):
            words = [
                ", ".join(dict.fromkeys(_told(e.option) for e in side if e.run.job == name))
                for side in sides
            ]
            if words[0] != words[1]:
                groups.setdefault(("option", words[0], words[1]), []).append(name)
            elif ends[0][name] != ends[1][name]:
                word = "earlier" if ends[1][name] < ends[0][name] else "later"
                groups.setdefault(("completion", "as planned first", word), []).append(name)
        return tuple(
            Move(*key, tuple(names), {"completion": sum(ends[1][n] - ends[0][n] for n in names)})
            for key, names in sorted(groups.items(), key=lambda entry: -len(entry[1]))
        )


def _told(option: Option) -> str:
    return f"{option.technique} on {option.devices} of {option.pool}"


def _remedies(problem: JobsProblem, on_chain: Mapping[str, int]) -> Iterator[Remedy]:
    """What the jobs on the chain take there: what they would save if they took nothing."""
    for name, ticks in sorted(on_chain.items(), key=lambda entry: -entry[1])[:3]:
        job = next(job for job in problem.jobs if job.name == name)
        least = sum(min(option.ticks for option in unit.options) for unit in job.units)
        if ticks > least:
            text = f"the fastest options of job {name!r}: they hold more devices or memory"
            yield Remedy(text, ticks - least)
        else:
            yield Remedy(
                f"job {name!r} elsewhere or earlier: it runs by its fastest options", ticks
            )
