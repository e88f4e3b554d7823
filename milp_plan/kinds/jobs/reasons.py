"""Reasons of jobs: pools, options, and the chain of units that ends last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from milp_plan.core import Counts, Verdict
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
    largest_first,
    moves_of,
    used_up,
)

from .problem import JobsPlan, JobsProblem, Option

HOST = "memory of the host"


class JobsReasons(Reasons[JobsProblem, JobsPlan]):
    """Reasons of :class:`milp_plan.kinds.jobs.problem.JobsProblem`."""

    noun, members, place_noun = "jobs", "jobs", "option"

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
        return tuple(dict.fromkeys(_option_text(o) for unit in job.units for o in unit.options))

    def pinned(self, problem: JobsProblem, part: str, place: str) -> JobsProblem:
        """Leave one option to the units of a job that have it."""
        self.require_place(problem, part, place)
        jobs = []
        for job in problem.jobs:
            units = []
            for unit in job.units:
                kept = tuple(option for option in unit.options if _option_text(option) == place)
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
        usage = largest_first(
            Usage(name, "device", ticks, makespan, Counts.TIME) for name, ticks in busy.items()
        )
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
            places = tuple(dict.fromkeys(_option_text(entry.option) for entry in own))
            ticks = sum(entry.option.ticks for entry in own)
            on_it = on_chain.get(name, 0)
            blocks.append(Block(name, "job", len(own), places, ticks, on_it, Counts.TIME))
        remedies = tuple(_remedies(problem, on_chain))
        return Why(chain, usage, tuple(limits), used_up(limits), tuple(blocks), remedies)

    def moves(
        self, problem: JobsProblem, before: JobsPlan, other: JobsProblem, after: JobsPlan
    ) -> tuple[Move, ...]:
        """Jobs with other options, by both; then those that are complete at another time."""
        from .check import completions, read_runs

        sides = [read_runs(problem, before), read_runs(other, after)]
        ends = [completions(side) for side in sides]
        changes: list[tuple[str, tuple[str, str, str]]] = []
        for name in (name for name in ends[0] if name in ends[1]):
            words = [
                ", ".join(dict.fromkeys(_option_text(e.option) for e in side if e.run.job == name))
                for side in sides
            ]
            if words[0] != words[1]:
                changes.append((name, ("option", words[0], words[1])))
            elif ends[0][name] != ends[1][name]:
                word = "earlier" if ends[1][name] < ends[0][name] else "later"
                changes.append((name, ("completion", "as planned first", word)))
        return moves_of(
            changes, lambda names: {"completion": sum(ends[1][n] - ends[0][n] for n in names)}
        )


def _option_text(option: Option) -> str:
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
