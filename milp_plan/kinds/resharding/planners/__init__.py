"""Planners for problems of resharding."""

from .dispatch import BUSIEST, busiest_first
from .greedy import LOAD_ONLY, RANDOMISED, load_only, randomised
from .search import OrderSearch

__all__ = [
    "BUSIEST",
    "LOAD_ONLY",
    "RANDOMISED",
    "OrderSearch",
    "busiest_first",
    "load_only",
    "randomised",
]
