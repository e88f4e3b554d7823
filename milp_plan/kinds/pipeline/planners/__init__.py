"""Search for pipeline schedules over words: beams, scheduling words anew, annealing of stashes."""

from .overtaking import Overtaking
from .search import PipelineSearch, one_by_one
from .stashing import Stashing

__all__ = ["Overtaking", "PipelineSearch", "Stashing", "one_by_one"]
