"""Random tiny problems of every kind, each with its optimum by looking at every plan.

No oracle shares code with planners, models and bounds. Magnitudes are digits, or as they are met in
practice: ticks up to 10^9, bytes up to 10^10.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from milp_plan.core.jobs import Job, JobsObjective, JobsProblem
from milp_plan.core.local_updates import LocalUpdatesProblem, Stage
from milp_plan.core.packing import Buffer, PackingProblem
from milp_plan.core.resharding import Card, ReshardingProblem, Slice

from . import anything, hybrid, jobs, local_updates, rematerialisation, resharding, sharding


class Tiny(NamedTuple):
    """How to draw a problem of a kind by its seed, and the value of its best plan, if any."""

    draw: Callable[[int], Any]
    optimum: Callable[[Any], int | None]


def tight_buffers(seed: int) -> PackingProblem:
    """Draw up to six buffers, sometimes aligned, sometimes with a capacity that may not do."""
    rng = random.Random(f"buffers {seed}")
    span, most = rng.choice((4, 7, 10**9)), rng.choice((3, 9, 10**10))
    buffers = []
    for number in range(rng.randint(1, 6)):
        lower, upper = sorted(rng.sample(range(-span, span), 2))
        size = rng.randint(1, rng.choice((3, most)))
        buffers.append(Buffer(f"b{number}", lower, upper, size, rng.choice((1, 1, 4, 6))))
    together = sum(buffer.size for buffer in buffers)
    capacity = rng.choice((None, None, together, together * 3 // 4))
    return PackingProblem(f"buffers-{seed}", tuple(buffers), capacity)


def lowest(problem: PackingProblem) -> int | None:
    """Return the least height over all orders of the buffers; ``None`` if none fits.

    The lowest packing is a first fit of one: put its buffers down in the order of their offsets,
    each as low as those before it allow, and none ends higher.
    """
    best = None
    for order in itertools.permutations(problem.buffers):
        tops: list[tuple[Buffer, int]] = []
        for buffer in order:
            below = [t for b, t in tops if b.lower < buffer.upper and buffer.lower < b.upper]
            floor = max(below, default=0)
            floor += -floor % buffer.alignment
            tops.append((buffer, floor + buffer.size))
        height = max(top for _, top in tops)
        best = height if best is None else min(best, height)
    fits = best is not None and (problem.capacity is None or best <= problem.capacity)
    return best if fits else None


def few_slices(seed: int) -> ReshardingProblem:
    """Draw up to five slices among up to four cards of one or two rates."""
    rng = random.Random(f"slices {seed}")
    most = rng.choice((3, 9, 10**10))
    rates = rng.choice(((10**9,), (10**9, 4 * 10**9), (123_456_789, 10**11)))
    names = [f"c{number}" for number in range(rng.randint(2, 4))]
    slices = []
    for number in range(rng.randint(1, 5)):
        holders = rng.sample(names, rng.randint(1, len(names) - 1))
        others = [name for name in names if name not in holders]
        readers = rng.sample(others, rng.randint(1, len(others)))
        slices.append(Slice(f"s{number}", rng.randint(1, most), tuple(holders), tuple(readers)))
    cards = tuple(Card(name, rng.choice(rates)) for name in names)
    return ReshardingProblem(f"slices-{seed}", cards, tuple(slices))


def short_lines(seed: int) -> LocalUpdatesProblem:
    """Draw up to five stages, a budget and memory that may not do."""
    rng = random.Random(f"line {seed}")
    most, batches = rng.choice((3, 9, 10**9)), rng.randint(1, 5)
    stages = [
        Stage(
            f"s{number}",
            rng.randint(1, most),
            rng.randint(1, most),
            rng.randint(0, most),
            rng.randint(0, 2),
            rng.choice((None, None, rng.randint(1, batches))),
        )
        for number in range(rng.randint(1, 5))
    ]
    transfer, budget = rng.randint(0, most), rng.choice((None, 0, 1, 2))
    return LocalUpdatesProblem(f"line-{seed}", tuple(stages), batches, transfer, budget)


def _jobs(seed: int) -> Any:
    objective = list(JobsObjective)[seed // 2 % len(JobsObjective)]
    problem = (jobs.plain, jobs.chains)[seed % 2](seed, objective)
    return problem if problem.host is None else replace(problem, jobs=_loaded_soon(problem))


def _loaded_soon(problem: JobsProblem) -> tuple[Job, ...]:
    """Return the jobs with loads that last no longer than any run of theirs."""
    changed = []
    for job in problem.jobs:
        shortest = min(option.ticks for unit in job.units for option in unit.options)
        sets = tuple(replace(entry, load=min(entry.load, shortest)) for entry in job.weights)
        changed.append(replace(job, weights=sets))
    return tuple(changed)


def _sharding(seed: int) -> Any:
    return (sharding.tense_problem, sharding.random_problem)[seed % 2](seed)


def _least_memory(seed: int) -> Any:
    problem = rematerialisation.drawn(seed)
    limit = random.Random(seed).choice((None, problem.total_cost, problem.total_cost // 4))
    return replace(problem.least_memory(), added_limit=limit)


def _paged(seed: int) -> Any:
    drawn = rematerialisation.drawn(seed, 3 + seed % 4, once=(0.0, 0.3, 0.6)[seed % 3])
    return rematerialisation.powered(drawn, seed, energy=bool(seed % 2))


TINY: dict[str, Tiny] = {
    "schedule": Tiny(anything.schedule_case, anything.optimum),
    "serial": Tiny(anything.serial_case, anything.optimum),
    "sharding": Tiny(_sharding, sharding.least_cost),
    "hybrid": Tiny(lambda seed: hybrid.random_problem(seed, 3), hybrid.best_value),
    "jobs": Tiny(_jobs, jobs.optimum),
    "packing": Tiny(tight_buffers, lowest),
    "local-updates": Tiny(short_lines, local_updates.least),
    "resharding": Tiny(few_slices, resharding.least),
    "rematerialisation": Tiny(rematerialisation.drawn, rematerialisation.least),
    "least memory": Tiny(_least_memory, rematerialisation.least_peak),
    "paging": Tiny(_paged, rematerialisation.least_paged),
}
"""By what is planned; ``least memory`` and ``paging`` are forms of rematerialisation."""
