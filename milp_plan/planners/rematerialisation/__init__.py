"""Planners of rematerialisation: which results are made again, and when."""

from .greedy import NAME, greedy

__all__ = ["NAME", "greedy"]
