"""Random tiny problems of every kind, each with its optimum by looking at every plan.

No oracle shares code with planners, models and bounds. Magnitudes are digits, or as they are met in
practice: ticks up to 10^9, bytes up to 10^10.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from milp_plan.core import Objective
from milp_plan.kinds.hybrid.planners import MARGIN
from milp_plan.kinds.jobs.problem import Job, JobsObjective, JobsProblem
from milp_plan.kinds.local_updates.problem import LocalUpdatesProblem, Stage
from milp_plan.kinds.resharding.problem import Card, ReshardingProblem, Slice

from . import (
    anything,
    hybrid,
    jobs,
    jobs_events,
    local_updates,
    magnitudes,
    packing,
    rematerialisation,
    resharding,
    sharding,
    shops,
)

MOST_FOR_SPANS = 8
"""Tasks of pipelines of which the oracle finds the least span within a second."""


class Tiny(NamedTuple):
    """How to draw a problem of a kind by its seed, and the value of its best plan, if any."""

    draw: Callable[[int], Any]
    optimum: Callable[[Any], int | None]
    within: float | None = 0.0
    """Relative gap within which each is proved, long before the limit; ``None``: not each is."""
    limit_s: float = 600.0


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
            rng.choice((0, rng.randint(0, most))),
            rng.randint(0, 2),
            rng.choice((None, None, rng.randint(1, batches))),
        )
        for number in range(rng.randint(1, 5))
    ]
    transfer, budget = rng.choice((0, rng.randint(0, most))), rng.choice((None, 0, 1, 2))
    return LocalUpdatesProblem(f"line-{seed}", tuple(stages), batches, transfer, budget)


def _chained(seed: int) -> Any:
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
    problem = (sharding.tense_problem, sharding.random_problem)[seed % 2](seed)
    return sharding.with_large_sizes(problem, seed) if seed % 4 > 1 else problem


def _hybrid(seed: int) -> Any:
    problem = hybrid.random_problem(seed, 3)
    return hybrid.magnified(problem, seed) if seed % 2 else problem


def _packing(seed: int) -> Any:
    return (packing.tight_buffers, packing.aligned_buffers)[seed % 2](seed)


def _serial(seed: int) -> Any:
    return (anything.serial_case, anything.uneven_case)[seed % 2](seed)


def _shop(seed: int) -> Any:
    """Pipelines, some with times and sizes of their own for each task."""
    if seed % 3 == 0:
        return anything.schedule_case(6 * (seed // 3) + 5)
    problem = shops.random_tiny_shop(seed).problem
    if len(problem.graph.operators) > MOST_FOR_SPANS:
        problem = replace(problem, objective=Objective.MAKESPAN)
    return magnitudes.magnified(problem, seed)


def _least_memory(seed: int) -> Any:
    problem = rematerialisation.drawn(seed)
    limit = random.Random(seed).choice((None, problem.total_cost, problem.total_cost // 4))
    return replace(problem.least_memory(), added_limit=limit)


def _paged(seed: int) -> Any:
    drawn = rematerialisation.drawn(seed, 3 + seed % 4, once=(0.0, 0.3, 0.6)[seed % 3])
    return rematerialisation.powered(drawn, seed, energy=bool(seed % 2))


TINY: dict[str, Tiny] = {
    "schedule": Tiny(anything.schedule_case, anything.optimum),
    "timeless": Tiny(anything.timeless_case, anything.optimum),
    "pipeline": Tiny(_shop, anything.optimum),
    "serial": Tiny(_serial, anything.optimum),
    "sharding": Tiny(_sharding, sharding.least_cost),
    "hybrid": Tiny(_hybrid, hybrid.best_value, 2 * MARGIN),
    "jobs": Tiny(jobs_events.anything, jobs_events.best_value, None, 1.0),
    "chained jobs": Tiny(_chained, jobs.optimum),
    "packing": Tiny(_packing, packing.least_height),
    "local-updates": Tiny(short_lines, local_updates.least),
    "resharding": Tiny(few_slices, resharding.least),
    "rematerialisation": Tiny(rematerialisation.drawn, rematerialisation.least),
    "least memory": Tiny(_least_memory, rematerialisation.least_peak),
    "paging": Tiny(_paged, rematerialisation.least_paged),
}
"""By what is planned, or a form of it: ``timeless``, ``pipeline`` and ``serial`` are schedules,
``least memory`` and ``paging`` rematerialisation."""
