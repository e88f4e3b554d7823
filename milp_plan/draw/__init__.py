"""Pictures of plans."""

from .canvas import write_figure
from .lanes import Bar, Lane, Lanes, lanes
from .loads import loads_figure
from .timeline import timeline

__all__ = ["Bar", "Lane", "Lanes", "lanes", "loads_figure", "timeline", "write_figure"]
