"""Problems of jobs as TOML, their plans as JSON. Described in ``instances/formats/jobs.md``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, astuple
from fractions import Fraction
from math import ceil, lcm
from pathlib import Path
from typing import Any

import msgspec

from milp_plan.core import Finding, InputError, Units
from milp_plan.core.quantity import DECIMAL
from milp_plan.io.defects import refuse_other
from milp_plan.io.files import Document, read_document
from milp_plan.io.pipeline_file import Amount, decode_toml, exact
from milp_plan.io.toml_text import assignments
from milp_plan.io.wire import as_wire, decode, encode, from_wire

from .partition import partition
from .problem import Job, JobsObjective, JobsPlan, JobsProblem, Option, Pool, Run, Unit, Weights
from .wire import (
    WireJob,
    WireJobs,
    WireLayer,
    WireModel,
    WireOption,
    WirePlan,
    WirePool,
    WireRun,
    WireShard,
)

TITLE = "jobs of one cluster (TOML)"
MARKER = "milp-plan-jobs"
PLAN_MARKER = "milp-plan-jobs-plan"
_PLAN = "a plan of jobs (JSON)"

FORMS = ("options", "shards", "layers", "units", "model")
"""Ways to say how a job runs."""

MOST_UNITS = 1_000_000
"""Units of all jobs; more are planned as fewer, longer mini-batches."""


def can_read(document: Document) -> bool:
    """Whether the text says ``format = "milp-plan-jobs"`` on a line of its own."""
    lines = (line.split(b"#")[0].partition(b"=") for line in document.data.splitlines())
    return any(
        head.strip() == b"format" and tail.strip() in (b'"milp-plan-jobs"', b"'milp-plan-jobs'")
        for head, _, tail in lines
    )


def read(document: Document) -> JobsProblem:
    """Read a problem.

    Raises
    ------
    InputError
        With every defect of the file.
    """
    given = read_wire(document)
    findings = [
        Finding(
            f"jobs[{number}].model",
            "a model whose options are not known yet",
            "options",
            "let `milp-plan expand IN OUT` plan it on each number of devices",
        )
        for number, job in enumerate(given.jobs)
        if job.model is not None
    ]
    if findings:
        raise InputError(findings).in_file(document.file)
    try:
        return problem_of(given)
    except InputError as error:
        raise error.in_file(document.file) from None


def read_wire(document: Document) -> WireJobs:
    """Read what a file says, models that have no options yet among it.

    Raises
    ------
    InputError
        With every defect of the file.
    """
    try:
        given = decode_toml(document, WireJobs)
        findings = list(_job_findings(given))
    except InputError as error:
        raise error.in_file(document.file) from None
    if findings:
        raise InputError(findings).in_file(document.file)
    return given


def problem_of(given: WireJobs) -> JobsProblem:
    """Return the problem of a file without models.

    Raises
    ------
    InputError
        Layers that cannot be cut, or what the problem finds.
    """
    return _problem(_cut(given))


def _cut(given: WireJobs) -> WireJobs:
    """Cut layers into shards, each as large as fits into every pool beside the buffer."""
    limits = [pool.memory_bytes for pool in given.pools if pool.memory_bytes is not None]
    jobs, findings = [], []
    for number, job in enumerate(given.jobs):
        layers = [layer for layer in job.layers for _ in range(layer.repeat)]
        sizes = [layer.bytes for layer in layers]
        memory = min(limits, default=sum(sizes) + job.buffer_bytes)
        shards = partition(sizes, memory, job.buffer_bytes)
        if shards is None:
            found = f"a layer of {max(sizes)} bytes"
            expected = f"at most {memory - job.buffer_bytes}: a device without the buffer"
            findings.append(
                Finding(f"jobs[{number}].layers", found, expected, "cut it, or hold less back")
            )
        elif layers:
            made = tuple(_joined([layers[place] for place in shard]) for shard in shards)
            job = msgspec.structs.replace(job, layers=(), shards=made)  # noqa: PLW2901
        jobs.append(job)
    if findings:
        raise InputError(findings)
    return msgspec.structs.replace(given, jobs=tuple(jobs))


def _joined(layers: list[WireLayer]) -> WireShard:
    def total(name: str) -> Amount:
        exactly = sum((exact(getattr(layer, name)) for layer in layers), Fraction(0))
        return int(exactly) if exactly.denominator == 1 else float(exactly)

    times = [total(name) for name in ("forward", "backward", "load", "store")]
    return WireShard(times[0], times[1], sum(layer.bytes for layer in layers), times[2], times[3])


def _job_findings(given: WireJobs) -> Iterator[Finding]:
    units = 0
    for number, job in enumerate(given.jobs):
        where = f"jobs[{number}]"
        there = [name for name in FORMS if getattr(job, name)]
        if len(there) != 1:
            found = " and ".join(there) or "none of them"
            expected = "exactly one of options, shards, layers, units and model"
            yield Finding(where, found, expected, "describe the job in one of these forms")
        if job.weights and not job.units:
            expected = "weights only together with units"
            yield Finding(f"{where}.weights", "weights", expected, "say them in the shards")
        if job.model is not None:
            yield from _model_findings(f"{where}.model", job.model, given)
        if job.units and (job.epochs, job.mini_batches) != (1, 1):
            found, expected = "epochs or mini-batches", "units that are repeated themselves"
            yield Finding(where, found, expected, "use repeat")
        batches = job.epochs * job.mini_batches
        most = len(job.shards) or sum(layer.repeat for layer in job.layers)
        units += batches * (2 * most - 1) if most else 1
        units += sum(unit.repeat for unit in job.units)
    if units > MOST_UNITS:
        found, expected = f"{units:,} units of all jobs", f"at most {MOST_UNITS:,}"
        yield Finding("jobs", found, expected, "count several mini-batches as one")


def _model_findings(where: str, model: WireModel, given: WireJobs) -> Iterator[Finding]:
    if (model.zoo is None) == (model.instance is None):
        found = "neither" if model.zoo is None else "both"
        yield Finding(where, found, "one of zoo and instance", "name one")
    pools = {pool.name: pool for pool in given.pools}
    if model.pool is not None and model.pool not in pools:
        expected = f"one of {', '.join(pools)}"
        yield Finding(f"{where}.pool", repr(model.pool), expected, "correct the name")
    elif model.zoo is not None and not any(pool.device for pool in pools_of(model, given)):
        remedy = 'say it: device = "A100"'
        yield Finding("pools", "no device", "the class of a pool's devices", remedy)
    if given.time_unit not in DECIMAL:
        expected = f"one of {', '.join(DECIMAL)}, as models are planned in ns"
        yield Finding("time_unit", repr(given.time_unit), expected, "choose one")


def pools_of(model: WireModel, given: WireJobs) -> list[WirePool]:
    """Pools a model may run in: the named one; of the zoo, all with a class; else the first."""
    if model.pool is not None:
        return [pool for pool in given.pools if pool.name == model.pool]
    if model.zoo is not None:
        return [pool for pool in given.pools if pool.device is not None]
    return [given.pools[0]]


def _problem(given: WireJobs) -> JobsProblem:
    scale = given.ticks_per_unit or _scale(given)
    clock = _Clock(1 if given.ticks_per_unit else scale)
    pools = tuple(Pool(pool.name, pool.devices, pool.memory_bytes) for pool in given.pools)
    return JobsProblem(
        given.name,
        pools,
        tuple(_job(job, given.pools, clock) for job in given.jobs),
        JobsObjective(given.objective),
        given.host_bytes,
        Units(given.time_unit, "bytes", scale),
        given.provenance,
    )


class _Clock:
    """Times of a file in ticks, rounded up where they were products of a model's figures."""

    def __init__(self, scale: int) -> None:
        self.scale = scale

    def __call__(self, time: Amount, factor: Amount = 1) -> int:
        return ceil(exact(time) * exact(factor) * self.scale)


def _scale(given: WireJobs) -> int:
    """Ticks per unit with which every time of the file is a whole number of ticks."""
    slow = [exact(pool.slowdown) for pool in given.pools]
    plain: list[Fraction] = []
    slowed: list[Fraction] = []
    for job in given.jobs:
        plain.append(exact(job.release))
        options = (*job.options, *(option for unit in job.units for option in unit.options))
        plain += [exact(option.time) for option in options]
        moves = [(entry.load, entry.store) for entry in job.shards]
        moves += [(entry.load, entry.store) for entry in job.weights]
        plain += [exact(time) for pair in moves for time in pair]
        slowed += [exact(time) for s in job.shards for time in (s.forward, s.backward)]
    of_plain = lcm(*(time.denominator for time in plain))
    of_slowed = lcm(*(time.denominator for time in slowed)) * lcm(*(f.denominator for f in slow))
    return lcm(of_plain, of_slowed) if slowed else of_plain


def _job(job: WireJob, pools: tuple[WirePool, ...], clock: _Clock) -> Job:
    first = pools[0].name
    batches = job.epochs * job.mini_batches
    if job.shards:
        units, weights = _chain(job.shards, pools, clock)
        units *= batches
    elif job.units:
        weights = tuple(
            Weights(entry.name, entry.bytes, clock(entry.load), clock(entry.store))
            for entry in job.weights
        )
        units = tuple(
            Unit(tuple(_option(option, first, clock, 1) for option in unit.options), unit.weights)
            for unit in job.units
            for _ in range(unit.repeat)
        )
    else:
        options = tuple(_option(option, first, clock, batches) for option in job.options)
        units, weights = (Unit(options),), ()
    return Job(job.name, units, clock(job.release), job.weight, weights, job.host_bytes)


def _option(option: WireOption, first: str, clock: _Clock, batches: int) -> Option:
    ticks = clock(option.time, batches)
    return Option(option.technique, option.pool or first, option.devices, ticks, option.bytes)


def _chain(
    shards: tuple[WireShard, ...], pools: tuple[WirePool, ...], clock: _Clock
) -> tuple[tuple[Unit, ...], tuple[Weights, ...]]:
    """Units of one mini-batch: forward shard by shard and back, the turn-around being one unit."""
    weights = tuple(
        Weights(f"shard{number}", shard.bytes, clock(shard.load), clock(shard.store))
        for number, shard in enumerate(shards)
    )

    def unit(number: int, *times: Amount) -> Unit:
        options = tuple(
            Option("shard", pool.name, 1, sum(clock(time, pool.slowdown) for time in times))
            for pool in pools
        )
        return Unit(options, weights[number].name)

    last = len(shards) - 1
    forward = [unit(number, shards[number].forward) for number in range(last)]
    turn = unit(last, shards[last].forward, shards[last].backward)
    back = [unit(number, shards[number].backward) for number in reversed(range(last))]
    return (*forward, turn, *back), weights


# -- written ---------------------------------------------------------------------------------------


def to_toml(problem: JobsProblem) -> bytes:
    """Return a problem as TOML in ticks; equal problems give equal bytes."""
    head: dict[str, Any] = {
        "format": MARKER,
        "version": 1,
        "name": problem.name,
        "objective": problem.objective.value,
        "host_bytes": problem.host,
        "time_unit": problem.units.time,
        "ticks_per_unit": problem.units.time_scale,
        "provenance": dict(sorted(problem.provenance.items())) or None,
    }
    lines = [*assignments(head)]
    for pool in problem.pools:
        entry = {"name": pool.name, "devices": pool.devices, "memory_bytes": pool.memory}
        lines += ["", "[[pools]]", *assignments(entry)]
    for job in problem.jobs:
        lines += ["", "[[jobs]]", *assignments(_job_entry(job))]
    return ("\n".join(lines) + "\n").encode()


def _job_entry(job: Job) -> dict[str, Any]:
    weights = [asdict(entry) for entry in job.weights]
    units: list[dict[str, Any]] = []
    for unit in job.units:
        options = [
            {
                "technique": option.technique,
                "pool": option.pool,
                "devices": option.devices,
                "time": option.ticks,
                "bytes": option.bytes,
            }
            for option in unit.options
        ]
        entry = {"weights": unit.weights, "options": options}
        if units and {**entry, "repeat": units[-1]["repeat"]} == units[-1]:
            units[-1]["repeat"] += 1
        else:
            units.append({**entry, "repeat": 1})
    return {
        "name": job.name,
        "release": job.release,
        "weight": job.weight,
        "host_bytes": job.host,
        "weights": weights or None,
        "units": units,
    }


# -- plans -----------------------------------------------------------------------------------------


def read_plan(
    path: str | Path, problem: JobsProblem, instance_file: Path | None = None
) -> JobsPlan:
    """Read a plan file. Whether the plan keeps the law is the checker's question.

    Raises
    ------
    InputError
        With every defect of the file, or where it is for another problem.
    """
    document = read_document(path, _PLAN)
    given = decode(document.data, WirePlan, document.file, PLAN_MARKER)
    refuse_other(given.problem, problem.name, document.file, instance_file)
    runs = tuple(Run(*msgspec.structs.astuple(run)) for run in given.runs)
    return from_wire(given, JobsPlan, runs=runs)


def plan_to_json(plan: JobsPlan) -> bytes:
    """Return a plan as JSON text; equal plans give equal bytes."""
    runs = tuple(WireRun(*astuple(run)) for run in plan.runs)
    return encode(as_wire(plan, WirePlan, format=PLAN_MARKER, version=1, runs=runs))
