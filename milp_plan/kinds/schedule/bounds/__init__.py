"""Lower bounds that hold on the original problem."""

from milp_plan.core.bound import Bound, Infeasible

from .catalogue import all_bounds, best_bound, infeasibility

__all__ = ["Bound", "Infeasible", "all_bounds", "best_bound", "infeasibility"]
