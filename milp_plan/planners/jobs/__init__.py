"""Planners of jobs: lists of single units, chains of shards, and what arrives over time."""

from .chains import LRTF, RANKS, Chains, in_turn
from .lists import ANNEALING, STARTS, Listing, Tables, allotments, placed

__all__ = [
    "ANNEALING",
    "LRTF",
    "RANKS",
    "STARTS",
    "Chains",
    "Listing",
    "Tables",
    "allotments",
    "in_turn",
    "placed",
]
