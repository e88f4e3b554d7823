"""Jobs that name a model: how long a step takes on a number of devices, by our own planners.

A model of the zoo is planned as a pipeline (operators on one device each, with as many
micro-batches as the job says) and as sharded (a strategy for each layer on a mesh of all devices,
data parallelism among them, the batch in one piece); a step in an instance file is planned on the
first devices of its cluster. All are training steps under the same laws, optimizer included. Where
no plan is found there is no option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from milp_plan.core import Finding, InputError
from milp_plan.core.quantity import NANOSECONDS
from milp_plan.io.files import Document
from milp_plan.run.kinds import kind_of
from milp_plan.run.kinds import read as read_any
from milp_plan.run.settings import Settings
from milp_plan.run.solving import solve

from .format import pools_of, problem_of, read_wire
from .problem import JobsProblem
from .wire import WireJob, WireJobs, WireModel, WireOption, WirePool

SINGLE, PIPELINE, SHARDED, PLACED = "single", "pipeline", "sharded", "placed"


@dataclass(frozen=True)
class Step:
    """A step of a job's model on some devices.

    Parameters
    ----------
    job, technique, pool, devices
        Whose, how and where.
    value
        Nanoseconds of its plan; ``None`` where there is none.
    memory
        Bytes that the plan takes on a device at most, where the checker says it.
    summary
        Who planned it, and how good that is.
    """

    job: str
    technique: str
    pool: str
    devices: int
    value: int | None
    memory: int
    summary: str


def expanded(
    document: Document, settings: Settings, on_step: Callable[[Step], object] | None = None
) -> JobsProblem:
    """Return the problem of a file of jobs, with an option for each plan of a step.

    Parameters
    ----------
    document
        The TOML.
    settings
        Of the run of each step; its time limit is for each of them.
    on_step
        Called with each step once it is planned.

    Raises
    ------
    InputError
        With the defects of the file; of the first model that cannot be made, or that has no plan.
    """
    given = read_wire(document)
    folder, summaries, jobs = Path(document.file).parent, {}, []
    try:
        for number, job in enumerate(given.jobs):
            if job.model is None:
                jobs.append(job)
                continue
            steps = []
            for step in _steps(job, job.model, given, folder, settings):
                steps.append(step)
                summaries[f"{step.job}: {step.technique} on {step.devices} of {step.pool}"] = (
                    step.summary
                )
                if on_step is not None:
                    on_step(step)
            jobs.append(_with_options(job, f"jobs[{number}].model", steps, given.time_unit))
        provenance = {**given.provenance, **summaries}
        changed = msgspec.structs.replace(given, jobs=tuple(jobs), provenance=provenance)
        return problem_of(changed)
    except InputError as error:
        raise error.in_file(document.file) from None


def _with_options(job: WireJob, where: str, steps: list[Step], unit: str) -> WireJob:
    options = tuple(
        WireOption(
            step.technique,
            _time(step.value, unit),
            step.devices,
            step.pool,
            step.memory,
        )
        for step in steps
        if step.value is not None
    )
    if not options:
        found = "; ".join(f"{step.technique} on {step.devices}: {step.summary}" for step in steps)
        expected, remedy = "a plan of a step", "name more devices, or give it more time"
        raise InputError([Finding(where, found or "no devices", expected, remedy)])
    return msgspec.structs.replace(job, model=None, options=options)


def _time(value: int, unit: str) -> int | float:
    """A time in a decimal unit: its shortest decimal is exact, as in any file."""
    exactly = Fraction(value, NANOSECONDS[unit])
    return int(exactly) if exactly.denominator == 1 else float(exactly)


def _steps(
    job: WireJob, model: WireModel, given: WireJobs, folder: Path, settings: Settings
) -> Iterator[Step]:
    for pool in pools_of(model, given):
        for devices in model.devices or _powers(pool.devices):
            for technique, problem in _problems(model, pool, devices, folder):
                value, memory, summary = _planned(problem, settings)
                yield Step(job.name, technique, pool.name, devices, value, memory, summary)


def _powers(most: int) -> tuple[int, ...]:
    return tuple(2**k for k in range(most.bit_length()))


def _problems(
    model: WireModel, pool: WirePool, devices: int, folder: Path
) -> Iterator[tuple[str, Any]]:
    """Techniques, and the problems that they have to solve."""
    if model.instance is not None:
        kind, problem = read_any(folder / model.instance)
        unit = kind.measure(problem).unit
        limits = {limit.name for limit in kind.reasons().resources(problem)}
        if unit != "ns" or "devices" not in limits:
            found, expected = f"{kind.name} in {unit}", "a schedule on devices, in ns"
            remedy = "name another file"
            raise InputError([Finding("model.instance", found, expected, remedy)])
        yield PLACED, kind.reasons().resized(problem, {"devices": devices})
        return
    from milp_plan import zoo

    assert model.zoo is not None
    cluster = f"{devices}x{pool.device}"
    options: Mapping[str, Any] = {
        "batch": model.batch,
        "granularity": model.granularity,
        "optimizer": model.optimizer,
    }
    if devices == 1 or PIPELINE in model.techniques:
        technique = SINGLE if devices == 1 else PIPELINE
        parts = model.micro_batches
        yield technique, zoo.generate(model.zoo, cluster, micro_batches=parts, **options)
    if devices > 1 and SHARDED in model.techniques:
        yield SHARDED, zoo.generate(model.zoo, cluster, meshes=(str(devices),), **options)


def _planned(problem: Any, settings: Settings) -> tuple[int | None, int, str]:
    """Value and memory of the plan of a step, and who made it."""
    outcome = solve(problem, settings, derived=True)
    if outcome.value is None or outcome.verdict is None:
        summary = outcome.infeasible_reason or f"no plan within {settings.time_limit_s:g} s"
        return None, 0, summary
    kind = kind_of(problem)
    known = "no bound" if outcome.bound is None else f"at least {outcome.bound} ns"
    quality = "optimal" if outcome.proved else known
    source = f"{kind.name} {problem.name} {problem.fingerprint[:16]}"
    summary = f"{outcome.value} ns ({quality}) by {outcome.planner}; {source}"
    return outcome.value, outcome.verdict.components.get("peak_memory", 0), summary
