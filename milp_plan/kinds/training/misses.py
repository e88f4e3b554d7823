"""Configurations that would be faster, or would run at all, if devices had more memory."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from milp_plan.core.budget import Budget

from .configuration import Configuration
from .memory import MARGIN, default_reserve
from .problem import TrainingProblem
from .replay import NoScheduleError
from .result import Miss
from .step import Costs, derive, excess_of, host_excess, least_peaks, least_step

MOST = 3
"""Configurations that are listed because their memory does not suffice."""

MOST_PRICED = 4000
"""Configurations that are priced to find those to list."""

MOST_PASSES = 1_000_000
"""Passes of chunks that are replayed to find them."""


def nearest_misses(
    problem: TrainingProblem,
    costs: Costs,
    bounds: Iterable[tuple[int, Configuration]],
    value: float,
    budget: Budget,
) -> tuple[Miss, ...]:
    """Return configurations whose steps are below a value and that lack the least memory.

    Best-first on bounds of what is lacking: a configuration is priced, then replayed, while its
    bound is the lowest. Of equal degrees and recomputation only the first is listed. Ends
    early, with fewer, at :data:`MOST_PRICED`, :data:`MOST_PASSES` or the end of the budget.

    Parameters
    ----------
    problem, costs
        What is planned, and by which costs.
    bounds
        Configurations that do not fit, each with bytes that it lacks at least.
    value
        What steps must be below.
    budget
        When to stop.
    """
    entries = [(lacking, 0, n, c, None) for n, (lacking, c) in enumerate(bounds)]
    heap: list[tuple[int, int, int, Configuration, Miss | None]] = [*entries]
    heapq.heapify(heap)
    priced = passes = 0
    made: dict[object, Miss] = {}
    while heap and len(made) < MOST and priced < MOST_PRICED and passes < MOST_PASSES:
        lacking, level, number, c, miss = heapq.heappop(heap)
        key = (c.tensor, c.context, c.pipeline, c.recompute)
        if budget.over:
            break
        if key in made:
            continue
        if miss is not None:
            made[key] = miss
            continue
        costs_of_it = costs.priced(c)
        if level == 0:
            priced += 1
            if least_step(c, costs_of_it) < value:
                peaks = least_peaks(c, costs_of_it)
                lacking = max(lacking, excess_of(problem, c, peaks)[0])
                heapq.heappush(heap, (lacking, 1, number, c, None))
            continue
        passes += c.chunks * c.micro_batches
        try:
            step = derive(c, costs_of_it)
        except NoScheduleError:
            continue
        if step.step_ns < value and host_excess(problem, c, step.host_peaks) <= 0:
            lacking, stage = excess_of(problem, c, step.peaks)
            miss = Miss(c, step.step_ns, lacking, stage)
            heapq.heappush(heap, (lacking, 2, number, c, miss))
    return tuple(made.values())


def enough_memory(problem: TrainingProblem, miss: Miss) -> int | None:
    """Return bytes of every device with which a configuration fits; ``None`` for mixed clusters.

    The reserve stays as it is, or its share of the memory where that is the default.
    """
    cluster = problem.cluster
    if cluster.mixed:
        return None
    used = problem.limit_bytes(miss.configuration, miss.stage) + miss.excess_bytes
    if problem.reserve_bytes != default_reserve(cluster):
        return used + problem.reserve_bytes
    memory = int(used / (1 - MARGIN))
    while memory - default_reserve(cluster.with_memory(memory)) < used:
        memory += 1
    return memory
