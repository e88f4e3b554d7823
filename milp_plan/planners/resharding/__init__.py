"""Planners of resharding: by load, by random rounds, and a search that proves."""

from .greedy import LOAD_ONLY, RANDOMISED, load_only, randomised
from .search import SEARCH, Search

__all__ = ["LOAD_ONLY", "RANDOMISED", "SEARCH", "Search", "load_only", "randomised"]
