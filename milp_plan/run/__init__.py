"""The two stages put together, and the record of each run."""

from .pipeline import solve
from .record import versions, write_record
from .settings import Outcome, Progress, Settings

__all__ = ["Outcome", "Progress", "Settings", "solve", "versions", "write_record"]
