"""Units a model counts in, so that its numbers suit a solver's tolerances."""

from __future__ import annotations

from math import gcd

from milp_plan.api import Guide, Objective, PlanningProblem, ScheduleSets

MARGIN = 5e-4
"""Units of time by which a strict order is kept, where a tick is less than that."""

MOST_UNITS, MOST_MEMORY_UNITS = 5_000, 50_000
"""Units that a horizon, and a memory, may have at most."""


def horizon(sets: ScheduleSets, guide: Guide) -> int:
    """Ticks within which a plan worth finding ends."""
    if sets.problem.objective is Objective.MAKESPAN and guide.cutoff is not None:
        return guide.cutoff
    # the strict order of ``later`` may cost a tick per task
    return sets.serial_ticks + sets.tick * (len(sets.operators) + len(sets.transfers))


def time_unit(sets: ScheduleSets, ticks: int) -> float:
    """Ticks per unit of time: the common tick, doubled until a horizon has few enough units.

    A solver's integrality tolerance (1e-9) times a big-M of the horizon must stay far below the
    margin that strict orders keep (:data:`MARGIN`).
    """
    unit = sets.tick
    while ticks > MOST_UNITS * unit:
        unit *= 2
    return float(unit)


def memory_grain(problem: PlanningProblem) -> int:
    """Bytes of which every amount on a device is a multiple."""
    return max(1, gcd(*_sizes(problem)))


def memory_unit(problem: PlanningProblem, most: int | None = None) -> float:
    """Bytes per unit of memory: the grain, doubled until ``most`` bytes have few enough units.

    Without ``most``: until no memory of the problem and nothing that lies there has too many.
    """
    if most is None:
        limits = [d.memory_bytes for d in problem.cluster.devices if d.memory_bytes is not None]
        most = max([*limits, *_sizes(problem)], default=0)
    unit = memory_grain(problem)
    while most > MOST_MEMORY_UNITS * unit:
        unit *= 2
    return float(unit)


def _sizes(problem: PlanningProblem) -> list[int]:
    sizes = [size for value in problem.graph.values for size in value.bytes.values()]
    return sizes + [o.workspace_bytes for op in problem.graph.operators for o in op.options]
