"""Exact search over placements, schedules and orders of small problems."""

from .every import EVERY_PLAN, MOST_STEPS, EveryPlan
from .memory_orders import EVERY_ORDER, best_order, suits, works_alone
from .search import Enumeration

__all__ = [
    "EVERY_ORDER",
    "EVERY_PLAN",
    "MOST_STEPS",
    "Enumeration",
    "EveryPlan",
    "best_order",
    "suits",
    "works_alone",
]
