"""Planners of local updates: schedules of given cuts, and which boundaries to cut."""

from .greedy import GREEDY, greedy
from .schedules import Chain, Task, chain_of, orders, plan_stops, step_time, stops_of
from .search import SEARCH, CutSearch, best_cuts

__all__ = [
    "GREEDY",
    "SEARCH",
    "Chain",
    "CutSearch",
    "Task",
    "best_cuts",
    "chain_of",
    "greedy",
    "orders",
    "plan_stops",
    "step_time",
    "stops_of",
]
