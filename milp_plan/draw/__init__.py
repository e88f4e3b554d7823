"""Pictures of plans."""

from milp_plan.kinds.placement.draw import loads_figure

from .canvas import write_figure
from .lanes import Bar, Lane, Lanes, lanes
from .timeline import timeline

__all__ = ["Bar", "Lane", "Lanes", "lanes", "loads_figure", "timeline", "write_figure"]
