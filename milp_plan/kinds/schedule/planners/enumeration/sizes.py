"""Tests whether a problem is small enough to enumerate its placements; loads no search."""

from __future__ import annotations

from math import factorial, prod

from milp_plan.core import Objective, PlanningProblem

from ...coarsen.symmetry import interchangeable_devices
from .tasks import placement_count

LARGEST = 40
"""Most operators that the search can handle, unless few groups decide the placement."""

LARGEST_GROUPED, FEW_PLACEMENTS = 120, 100_000
"""Most operators, and most placements up to swaps of alike devices, if groups decide."""

TINY = 10
"""Most operators of a tiny problem."""

MOST_PLACEMENTS = 3000
"""Most placements of all operators together of a tiny problem."""


def is_small(problem: PlanningProblem) -> bool:
    """Return whether a problem has few operators or placements, and minimises the makespan."""
    return (
        problem.objective is Objective.MAKESPAN
        and problem.needs_schedule
        and problem.serial is None
        and not problem.allows_memory_saving
        and (len(problem.graph.operators) <= LARGEST or _few_placements(problem))
    )


def _few_placements(problem: PlanningProblem) -> bool:
    """Return whether colocation groups leave few enough placements to enumerate them."""
    if len(problem.graph.operators) > LARGEST_GROUPED:
        return False
    swaps = prod(factorial(len(names)) for names in interchangeable_devices(problem))
    return placement_count(problem) <= FEW_PLACEMENTS * swaps


def is_tiny(problem: PlanningProblem) -> bool:
    """Return whether a problem is tiny, and its operators run once, without the serial law."""
    return (
        problem.serial is None
        and not problem.allows_memory_saving
        and 0 < len(problem.graph.operators) <= TINY
        and placement_count(problem) <= MOST_PLACEMENTS
    )
