"""Planners of rematerialisation: which results are recomputed, and when."""

from .annealing import Annealing
from .greedy import NAME, greedy, keys_of, once, plan_of, relieved

__all__ = ["NAME", "Annealing", "greedy", "keys_of", "once", "plan_of", "relieved"]
