"""Reports: tables and figures of runs."""

from .paper import paper_table
from .tables import median_gap, median_line, overview, to_json, to_markdown

__all__ = ["median_gap", "median_line", "overview", "paper_table", "to_json", "to_markdown"]
