"""Plans from elsewhere, timed anew: what they decide and their orders are kept."""

from .jobs import Apart, retimed_jobs
from .packing import lowered
from .resharding import retimed_deliveries
from .schedule import Retiming

__all__ = ["Apart", "Retiming", "lowered", "retimed_deliveries", "retimed_jobs"]
