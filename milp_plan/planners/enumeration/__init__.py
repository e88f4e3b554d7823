"""Exact search over placements and schedules of small problems."""

from .every import EVERY_PLAN, MOST_STEPS, EveryPlan
from .search import Enumeration

__all__ = ["EVERY_PLAN", "MOST_STEPS", "Enumeration", "EveryPlan"]
