"""Which problems are small enough to look at every placement; loads no search."""

from __future__ import annotations

from math import factorial, prod

from milp_plan.core import Objective, PlanningProblem

from ...coarsen.symmetry import interchangeable_devices
from .tasks import placement_count

LARGEST = 40
"""Operators beyond which the search gets nowhere, unless few groups decide the placement."""

LARGEST_GROUPED, FEW_PLACEMENTS = 120, 100_000
"""Operators and placements, up to swaps of alike devices, up to which few groups decide."""

TINY = 10
"""Operators of a tiny problem."""

MOST_PLACEMENTS = 3000
"""Placements of all operators together, at most."""


def is_small(problem: PlanningProblem) -> bool:
    """Whether a problem has few operators or placements, and its plans have times alone."""
    return (
        problem.objective is Objective.MAKESPAN
        and problem.needs_schedule
        and problem.serial is None
        and not problem.allows_memory_saving
        and (len(problem.graph.operators) <= LARGEST or _few_placements(problem))
    )


def _few_placements(problem: PlanningProblem) -> bool:
    """Whether colocation groups leave so few placements that each of them can be looked at."""
    if len(problem.graph.operators) > LARGEST_GROUPED:
        return False
    swaps = prod(factorial(len(names)) for names in interchangeable_devices(problem))
    return placement_count(problem) <= FEW_PLACEMENTS * swaps


def is_tiny(problem: PlanningProblem) -> bool:
    """Whether a problem is tiny, and its operators run once, on devices that just compute."""
    return (
        problem.serial is None
        and not problem.allows_memory_saving
        and 0 < len(problem.graph.operators) <= TINY
        and placement_count(problem) <= MOST_PLACEMENTS
    )
