"""Planners of rematerialisation: which results are made again, and when."""

from .annealing import Annealing
from .greedy import NAME, greedy, keys_of, once, plan_of, relieved

__all__ = ["NAME", "Annealing", "greedy", "keys_of", "once", "plan_of", "relieved"]
