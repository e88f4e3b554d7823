"""What people read: tables of runs, timelines of plans, figures of a search."""

from .canvas import write_figure
from .figures import MemoryPoint, TracePoint, memory_sweep, search_trace
from .lanes import Bar, Lane, Lanes, lanes
from .tables import median_gap, median_line, overview, to_json, to_markdown, to_rich
from .timeline import timeline

__all__ = [
    "Bar",
    "Lane",
    "Lanes",
    "MemoryPoint",
    "TracePoint",
    "lanes",
    "median_gap",
    "median_line",
    "memory_sweep",
    "overview",
    "search_trace",
    "timeline",
    "to_json",
    "to_markdown",
    "to_rich",
    "write_figure",
]
