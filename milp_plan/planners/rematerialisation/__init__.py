"""Planners of rematerialisation: which results are made again, and when."""

from .greedy import NAME, greedy, keys_of, plan_of, relieved

__all__ = ["NAME", "greedy", "keys_of", "plan_of", "relieved"]
