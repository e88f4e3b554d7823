"""Reports: self-contained HTML files about plans."""

from .entry import Entry, read_entry
from .page import report_text

__all__ = ["Entry", "read_entry", "report_text"]
