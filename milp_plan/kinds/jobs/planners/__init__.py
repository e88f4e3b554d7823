"""Planners of jobs: lists of single units, chains of shards, and what arrives over time."""

from .chains import LRTF, RANKS, Chains, in_turn
from .gangs import GANGS, Gangs
from .lists import ANNEALING, STARTS, JobTables, Listing, allotments, placed
from .online import FIFO, LONGEST, POLICIES, SRPT, arrivals
from .rounding import Rounding

__all__ = [
    "ANNEALING",
    "FIFO",
    "GANGS",
    "LONGEST",
    "LRTF",
    "POLICIES",
    "RANKS",
    "SRPT",
    "STARTS",
    "Chains",
    "Gangs",
    "JobTables",
    "Listing",
    "Rounding",
    "allotments",
    "arrivals",
    "in_turn",
    "placed",
]
