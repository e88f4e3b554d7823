"""What people read: tables of runs, timelines of plans, figures of a search."""

from .canvas import write_figure
from .figures import MemoryPoint, TracePoint, memory_sweep, search_trace
from .lanes import Bar, Lane, Lanes, lanes
from .loads import loads_figure
from .paper import paper_table
from .pipelines import FrontPoint, Panel, schedules, time_and_memory
from .tables import median_gap, median_line, overview, to_json, to_markdown, to_rich
from .timeline import timeline

__all__ = [
    "Bar",
    "FrontPoint",
    "Lane",
    "Lanes",
    "MemoryPoint",
    "Panel",
    "TracePoint",
    "lanes",
    "loads_figure",
    "median_gap",
    "median_line",
    "memory_sweep",
    "overview",
    "paper_table",
    "schedules",
    "search_trace",
    "time_and_memory",
    "timeline",
    "to_json",
    "to_markdown",
    "to_rich",
    "write_figure",
]
