"""Everything that returns a plan without being one MILP."""

from .annealing import Annealing
from .balance import balance_load, unscheduled
from .baselines import PLANNERS
from .dispatch import Rule, dispatch, dispatch_order
from .earliest import dispatch_earliest
from .indexed import Indexed, indexed
from .planner import Planner
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
    "Annealing",
    "Indexed",
    "Planner",
    "Rule",
    "balance_load",
    "best_plan",
    "bottom_levels",
    "depth_first_order",
    "descendants",
    "dispatch",
    "dispatch_earliest",
    "dispatch_order",
    "frugal_order",
    "indexed",
    "processing_times",
    "top_levels",
    "unscheduled",
]
