"""Search for pipeline schedules: beams over the words of a shop."""

from .search import PipelineSearch, one_by_one

__all__ = ["PipelineSearch", "one_by_one"]
