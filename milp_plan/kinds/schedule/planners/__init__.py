"""Everything that returns a plan without being one MILP."""

from .balance import balance_load, unscheduled
from .baselines import PLANNERS
from .dispatch import Rule, dispatch, dispatch_order
from .earliest import dispatch_earliest
from .indexed import Indexed, indexed
from .late import put_off
from .planner import Planner
from .portfolio import best_plan
from .priorities import (
    bottom_levels,
    descendants,
    frugal_order,
    processing_times,
    top_levels,
)
from .search import Crew

__all__ = [
    "PLANNERS",
    "Crew",
    "Indexed",
    "Planner",
    "Rule",
    "balance_load",
    "best_plan",
    "bottom_levels",
    "descendants",
    "dispatch",
    "dispatch_earliest",
    "dispatch_order",
    "frugal_order",
    "indexed",
    "processing_times",
    "put_off",
    "top_levels",
    "unscheduled",
]
