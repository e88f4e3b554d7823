"""Search for pipeline schedules: beams over the words of a shop."""

from .search import PipelineSearch

__all__ = ["PipelineSearch"]
