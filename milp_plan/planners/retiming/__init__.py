"""Plans from elsewhere, timed anew: what they decide and their orders are kept."""

from milp_plan.kinds.jobs.retiming import Apart, retimed_jobs
from milp_plan.kinds.packing.retiming import lowered
from milp_plan.kinds.resharding.retiming import retimed_deliveries

from .schedule import Retiming

__all__ = ["Apart", "Retiming", "lowered", "retimed_deliveries", "retimed_jobs"]
