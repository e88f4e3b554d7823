"""Random tiny problems for each formulation by its name, each with its optimum by enumeration.

Magnitudes are like real ones: ticks from 0 to 10^9, bytes from 0 to 10^10, alignments, options that
take no time. The oracles share no code with planners, models and bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any, NamedTuple

from milp_plan.core import Objective, PlanningProblem
from milp_plan.models.registry import get
from tests.support.planted_local_updates import planted_local_updates
from tests.support.planted_resharding import planted_resharding

from . import local_updates, packing, rematerialisation, resharding, sharding, shops
from .anything import random_case, schedule_case, serial_case, uneven_case
from .brute import brute_force
from .magnitudes import magnified, some_take_no_time
from .memory_saving import tiny_ways
from .memory_saving_brute import brute_force_ways
from .serial_brute import brute_serial
from .spread import spread_problem

MOST_DRAWS = 2_000
"""Problems drawn, at most, until one is for a formulation."""

MOST_OF_SPAN = 12
"""Operators of a pipeline, at most, where the least span is looked for."""


class Case(NamedTuple):
    """A problem and what enumeration finds: its optimum, or ``None`` where there is no plan."""

    problem: Any
    best: int | None


def names() -> list[str]:
    """Formulations for which there are cases."""
    return sorted(_MAKERS)


def case(name: str, seed: int) -> Case:
    """Return the case of a seed: the first drawn problem that the formulation is for."""
    make, oracle = _MAKERS[name]
    form: Any = get(name).formulation
    for draw in count():
        assert draw < MOST_DRAWS, f"{name}: nothing drawn is for it"
        problem = make(seed + 1_000_003 * draw)
        if problem is None or not isinstance(problem, form.handles):
            continue
        if form.unsupported(problem, form.Options()) is None:
            return Case(problem, oracle(problem))
    raise AssertionError


# -- placement -----------------------------------------------------------------------------------


def _value(search: Callable[[Any], tuple[int, Any] | None]) -> Callable[[Any], int | None]:
    def value(problem: Any) -> int | None:
        found = search(problem)
        return None if found is None else found[0]

    return value


def _schedule(seed: int) -> PlanningProblem:
    if seed % 4 == 0:
        return some_take_no_time(spread_problem(seed, max_operators=4), seed)
    return some_take_no_time(schedule_case(seed), seed)


def _free(seed: int) -> PlanningProblem:
    """Where memory is no matter."""
    problem = _schedule(seed)
    free: dict[str, int | None] = dict.fromkeys(problem.cluster.device_names)
    return replace(problem, cluster=problem.cluster.with_memory(free))


def _load(seed: int) -> PlanningProblem:
    return some_take_no_time(random_case(seed), seed)


def _serial(seed: int) -> PlanningProblem:
    return uneven_case(seed) if seed % 3 == 0 else serial_case(seed)


def _pipeline(seed: int) -> PlanningProblem | None:
    """Pipelines, but none whose least span takes enumeration long."""
    if seed % 3 == 0:
        return schedule_case(6 * (seed // 3) + 5)  # each sixth is a pipeline
    problem = magnified(shops.random_tiny_shop(seed).problem, seed)
    many = problem.objective is Objective.SPAN and len(problem.graph.operators) > MOST_OF_SPAN
    return None if many else problem


def _slots(seed: int) -> PlanningProblem | None:
    """On one device, where everything lasts and the host has room."""
    problem = tiny_ways(seed)
    if len(problem.cluster.devices) > 2:
        return None
    operators = []
    for op in problem.graph.operators:
        option = op.options[0]
        longer = replace(option, duration_ticks={"fast": 1 + option.duration_ticks["fast"]})
        operators.append(replace(op, options=(longer,)))
    cluster = problem.cluster.with_memory({"host": None})
    graph = replace(problem.graph, operators=tuple(operators))
    return magnified(replace(problem, graph=graph, cluster=cluster), seed)


# -- other kinds -----------------------------------------------------------------------------------


def _remat(seed: int) -> Any:
    problem = rematerialisation.drawn(seed, 4 + seed % 3, once=0.1 * (seed % 2))
    return (
        rematerialisation.powered(problem, seed, energy=seed % 8 == 0) if seed % 4 == 0 else problem
    )


def _least_remat(problem: Any) -> int | None:
    least = rematerialisation.least if problem.host is None else rematerialisation.least_paged
    return least(problem)


def _reshard(seed: int) -> Any:
    problem, _ = planted_resharding(seed, 4)
    rng = Random(f"reshard {seed}")
    size = rng.choice((1, 1, 1000, 10**6 + 3))
    slices = tuple(replace(entry, size=entry.size * size) for entry in problem.slices)
    rate = rng.choice((1, 10**6))
    cards = tuple(replace(card, bytes_per_s=card.bytes_per_s * rate) for card in problem.cards)
    return replace(problem, slices=slices, cards=cards)


def _local(seed: int) -> Any:
    problem, _ = planted_local_updates(seed, 4)
    rng = Random(f"local {seed}")
    most = rng.choice((1, 50, 10**9))

    def ticks(small: int) -> int:
        return small and rng.randint(1, most)  # steps last at least a tick

    stages = tuple(
        replace(
            stage,
            forward=ticks(stage.forward),
            backward=ticks(stage.backward),
            head=ticks(stage.head),
        )
        for stage in problem.stages
    )
    return replace(problem, stages=stages, transfer=ticks(problem.transfer))


def _shard(seed: int) -> Any:
    return sharding.tense_problem(seed) if seed % 2 else sharding.random_problem(seed)


_MAKERS: dict[str, tuple[Callable[[int], Any], Callable[[Any], int | None]]] = {
    "contiguous_load": (_serial, _value(brute_serial)),
    "flexible_job_shop": (_free, _value(brute_force)),
    "latency": (_serial, _value(brute_serial)),
    "local_updates": (_local, local_updates.least),
    "max_load": (_serial, _value(brute_serial)),
    "memory_slots": (_slots, _value(brute_force_ways)),
    "operator_schedule": (_schedule, _value(brute_force)),
    "packing_order": (packing.aligned_buffers, packing.least_height),
    "pipeline_order": (_pipeline, _value(brute_force)),
    "pipeline_period": (_pipeline, _value(brute_force)),
    "remat_backbone": (_remat, _least_remat),
    "remat_lazy_memory": (_remat, _least_remat),
    "remat_retention": (_remat, _least_remat),
    "remat_staged": (_remat, _least_remat),
    "resharding": (_reshard, resharding.least),
    "resource_load": (_load, _value(brute_force)),
    "serial_places": (_serial, _value(brute_serial)),
    "sharding": (_shard, sharding.least_cost),
}
