"""Planners for the latency of one sample under the serial law."""

from .annealing import Annealing
from .segments import Line
from .timing import Arrays, arrays
from .ways import Ways, ways

__all__ = ["Annealing", "Arrays", "Line", "Ways", "arrays", "ways"]
