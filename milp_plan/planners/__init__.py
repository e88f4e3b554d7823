"""Everything that returns a plan without being one MILP."""

from .balance import balance_load, unscheduled
from .baselines import PLANNERS, Planner, describe
from .dispatch import Rule, dispatch, dispatch_order
from .indexed import Indexed, indexed
from .portfolio import best_plan
from .priorities import (
    bottom_levels,
    depth_first_order,
    descendants,
    frugal_order,
    processing_times,
    top_levels,
)

__all__ = [
    "PLANNERS",
    "Indexed",
    "Planner",
    "Rule",
    "balance_load",
    "best_plan",
    "bottom_levels",
    "depth_first_order",
    "descendants",
    "describe",
    "dispatch",
    "dispatch_order",
    "frugal_order",
    "indexed",
    "processing_times",
    "top_levels",
    "unscheduled",
]
