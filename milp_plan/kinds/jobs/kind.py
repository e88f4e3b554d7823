"""Jobs: many trainings on one cluster; which option, which devices, and when."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milp_plan.core import Verdict
from milp_plan.core.amounts import size_text, time_text
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.io.files import Document
from milp_plan.run.change import Change
from milp_plan.run.kind import TIMED, Format, Kind, Measure, Restart
from milp_plan.run.scope import NotOffered, Scope
from milp_plan.run.strategy import Strategy

if TYPE_CHECKING:
    from milp_plan.draw.panels import Panel
    from milp_plan.run.reasons.base import Reasons

    from .problem import JobsPlan, JobsProblem, Option


class Jobs(Kind["JobsProblem", "JobsPlan"]):
    """The kind of :class:`milp_plan.kinds.jobs.problem.JobsProblem`."""

    name = "jobs"
    title = "many jobs on one cluster: an option, devices and a start for each"
    handles = "milp_plan.kinds.jobs.problem:JobsProblem"
    plans = "milp_plan.kinds.jobs.problem:JobsPlan"
    plan_marker = "milp-plan-jobs-plan"
    sizes = ("peak_memory", "peak_host")
    changes = (
        Change("weighted_completion", "Jobs: the sum of weighted completions is the objective."),
    )

    @property
    def threads(self) -> int:
        """One for models, one for the concurrent search."""
        return min(2, os.cpu_count() or 1)

    def formats(self) -> tuple[Format[JobsProblem], ...]:
        """The TOML of jobs."""
        from . import format as jobs

        return (Format("jobs", jobs.TITLE, jobs.can_read, _read, jobs.to_toml),)

    def read_plan(self, file: Path, problem: JobsProblem, instance_file: Path) -> JobsPlan:
        """Read a list of runs."""
        from .format import read_plan

        return read_plan(file, problem, instance_file)

    def plan_text(self, plan: JobsPlan) -> bytes:
        """The list of runs."""
        from .format import plan_to_json

        return plan_to_json(plan)

    def verify(self, problem: JobsProblem, plan: JobsPlan) -> Verdict:
        """Runs, loads and stores, memory and host."""
        from .check import verify_jobs

        return verify_jobs(problem, plan)

    def measure(self, problem: JobsProblem) -> Measure:
        """Ticks, or ticks times weight."""
        return Measure(problem.objective.value, problem.units)

    def scope(self, problem: JobsProblem) -> Scope:
        """Options, devices and starts; loads and stores where there are weights."""
        units = [unit for job in problem.jobs for unit in job.units]
        choices = any(len(unit.options) > 1 for unit in units)
        weights = any(unit.weights is not None for unit in units)
        return Scope(
            (
                *(["options"] if choices else []),
                *("devices", "starts"),
                *(["loads and stores of weights"] if weights else []),
            ),
            ("the order of units within a job", *([] if choices else ["options"])),
            (NotOffered("interruption of a unit"),),
        )

    def summary(self, problem: JobsProblem) -> dict[str, Any]:
        """Sizes."""
        pools = problem.pools
        return {
            "jobs": len(problem.jobs),
            "units": sum(len(job.units) for job in problem.jobs),
            "options": sum(len(unit.options) for job in problem.jobs for unit in job.units),
            "devices": problem.devices,
            "pools": {pool.name: pool.devices for pool in pools},
            "objective": problem.objective.value,
            "last_release": max(job.release for job in problem.jobs),
            "host_bytes": problem.host,
        }

    def rows(self, problem: JobsProblem) -> list[list[str]]:
        """The same, in units."""
        facts, units = self.summary(problem), problem.units
        pools = [
            f"{pool.devices} in {pool.name!r}"
            + ("" if pool.memory is None else f", {size_text(units, pool.memory)} each")
            for pool in problem.pools
        ]
        host = "no limit" if problem.host is None else size_text(units, problem.host)
        return [
            ["jobs", f"{facts['jobs']:,}, {facts['units']:,} units, {facts['options']:,} options"],
            ["devices", "; ".join(pools)],
            ["objective", problem.objective.value.replace("_", " ")],
            ["last release", time_text(units, facts["last_release"])],
            ["host", host],
        ]

    def plan_summary_table(
        self, problem: JobsProblem, plan: JobsPlan, verdict: Verdict
    ) -> list[list[str]]:
        """How much of the devices is used."""
        if not verdict.ok:
            return []
        parts, units = verdict.components, problem.units
        whole = max(1, parts["makespan"] * problem.devices)
        mean = round(sum(_ends(problem, plan).values()) / len(problem.jobs))
        return [
            ["makespan", "mean completion", "devices busy", "peak memory", "peak host"],
            [
                time_text(units, parts["makespan"]),
                time_text(units, mean),
                f"{100 * parts['busy_time'] / whole:.1f} %",
                size_text(units, parts["peak_memory"]),
                size_text(units, parts["peak_host"]),
            ],
        ]

    def explain(self, problem: JobsProblem, plan: JobsPlan, verdict: Verdict) -> str:
        """When each job is complete and by which options; or what breaks and by how much."""
        if not verdict.ok:
            return super().explain(problem, plan, verdict)
        return "\n".join(_told(problem, plan))

    def plan_rows(self, problem: JobsProblem | None, plan: JobsPlan) -> Iterator[dict[str, Any]]:
        """Units by their start, with where they run and when their weights come and go."""
        options = {} if problem is None else _options(problem)
        for run in sorted(plan.runs, key=lambda run: (run.start, run.job, run.unit)):
            row: dict[str, Any] = {"job": run.job, "unit": run.unit, "option": run.option}
            option = options.get((run.job, run.unit, run.option))
            if problem is not None:
                row["technique"] = None if option is None else option.technique
                row["pool"] = None if option is None else option.pool
            row |= {"devices": run.devices, "start": run.start}
            if problem is not None:
                row["stop"] = None if option is None else run.start + option.ticks
            yield row | {"load": run.load, "store": run.store}

    def panels(self, problem: JobsProblem, plan: JobsPlan) -> Sequence[Panel]:
        """A row for each device, coloured by job."""
        from .draw import jobs_panels

        return jobs_panels(problem, plan)

    def names_in_plan(self, plan: JobsPlan) -> Sequence[str]:
        """Jobs that it runs."""
        return [run.job for run in plan.runs]

    def restarts(self, problem: JobsProblem, plan: JobsPlan) -> Iterator[Restart]:
        """Recompute times in the plan's order on every device and lane."""
        from .retiming import Apart, retimed_jobs

        for apart in Apart:
            made = retimed_jobs(problem, plan, apart)
            if made is not None:
                late = "; later where memory or the host asks for it" if apart else ""
                yield Restart(made, TIMED + late)

    def reasons(self) -> Reasons[JobsProblem, JobsPlan]:
        """Its parts and limits, and why a plan's value is what it is."""
        from .reasons import JobsReasons

        return JobsReasons()

    def obstacle(self, problem: JobsProblem, budget: Budget) -> str | None:
        """A unit may fit nowhere, or a job need more of the host than there is."""
        from .bounds import jobs_obstacle

        return jobs_obstacle(problem)

    def bounds(
        self, problem: JobsProblem, budget: Budget, incumbent: int | None
    ) -> Iterator[Bound]:
        """Work, chains, releases and the host."""
        from .bounds import jobs_bounds

        return jobs_bounds(problem)

    def strategies(self) -> Sequence[type[Strategy[JobsProblem, JobsPlan]]]:
        """One for all."""
        from .strategy import JobsStrategy

        return (JobsStrategy,)

    def heuristics(self) -> Mapping[str, Callable[[JobsProblem, int], JobsPlan | None]]:
        """Greedy starts, ranks, and one after the other."""
        from .planners import RANKS, STARTS, in_turn

        starts = {name: partial(_start, name) for name in STARTS}
        ranks = {name: partial(_rank, name) for name in RANKS}
        return {**starts, **ranks, "in turn": lambda problem, _seed: in_turn(problem)}


def _start(name: str, problem: JobsProblem, seed: int) -> JobsPlan | None:
    from .planners import STARTS, JobTables

    if not problem.plain:
        return None
    tables = JobTables(problem)
    return tables.plan(STARTS[name](tables, seed), name)


def _rank(name: str, problem: JobsProblem, seed: int) -> JobsPlan | None:
    from .planners import RANKS, Chains

    chains = Chains(problem)
    return RANKS[name](chains, seed) if chains.possible else None


def _ends(problem: JobsProblem, plan: JobsPlan) -> dict[str, int]:
    from .check import completions, read_runs

    return completions(read_runs(problem, plan))


def _told(problem: JobsProblem, plan: JobsPlan) -> Iterator[str]:
    ends = _ends(problem, plan)
    used: dict[str, dict[str, int]] = {}
    for run in plan.runs:
        job = problem.jobs[problem.numbers[run.job]]
        option = job.units[run.unit].options[run.option]
        devices = f"{option.devices} of {option.pool!r}"
        text = f"{option.technique} on {devices}"
        counts = used.setdefault(run.job, {})
        counts[text] = counts.get(text, 0) + 1
    for name in sorted(ends, key=lambda name: -ends[name]):
        parts = [
            text if count == 1 else f"{count} times {text}" for text, count in used[name].items()
        ]
        yield f"{name!r} is complete at {time_text(problem.units, ends[name])}: {', '.join(parts)}"


def _read(document: Document, changes: Mapping[str, Any]) -> JobsProblem:
    from . import format as jobs
    from .problem import JobsObjective

    problem = jobs.read(document)
    if changes.get("weighted_completion"):
        return replace(problem, objective=JobsObjective.COMPLETION)
    return problem


def _options(problem: JobsProblem) -> dict[tuple[str, int, int], Option]:
    """Options by job, unit and number."""
    return {
        (job.name, place, number): option
        for job in problem.jobs
        for place, unit in enumerate(job.units)
        for number, option in enumerate(unit.options)
    }


KIND = Jobs()
"""Problems of Hydra, Saturn and A-SRPT: many jobs on one cluster."""
