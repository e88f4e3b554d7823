"""A report: one HTML file about plans, that needs nothing beside itself."""

from .entry import Entry, read_entry
from .page import report_text

__all__ = ["Entry", "read_entry", "report_text"]
