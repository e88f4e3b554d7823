"""What people read: tables of runs, timelines of plans, figures of a search."""

from .figures import MemoryPoint, TracePoint, memory_sweep, search_trace
from .paper import paper_table
from .pipelines import FrontPoint, Panel, schedules, time_and_memory
from .tables import median_gap, median_line, overview, to_json, to_markdown

__all__ = [
    "FrontPoint",
    "MemoryPoint",
    "Panel",
    "TracePoint",
    "median_gap",
    "median_line",
    "memory_sweep",
    "overview",
    "paper_table",
    "schedules",
    "search_trace",
    "time_and_memory",
    "to_json",
    "to_markdown",
]
