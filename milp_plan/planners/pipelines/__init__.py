"""Search for pipeline schedules over the words of a shop: beams, and scheduling words anew."""

from .overtaking import Overtaking
from .search import PipelineSearch, one_by_one

__all__ = ["Overtaking", "PipelineSearch", "one_by_one"]
