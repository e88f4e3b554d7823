"""What people read: tables and figures of runs."""

from .figures import MemoryPoint, memory_curves, memory_sweep
from .paper import paper_table
from .pipelines import FrontPoint, Panel, schedules, time_and_memory
from .tables import median_gap, median_line, overview, to_json, to_markdown

__all__ = [
    "FrontPoint",
    "MemoryPoint",
    "Panel",
    "median_gap",
    "median_line",
    "memory_curves",
    "memory_sweep",
    "overview",
    "paper_table",
    "schedules",
    "time_and_memory",
    "to_json",
    "to_markdown",
]
