"""Search over places, options and priorities, each state scheduled by the compiled decoder."""

from .annealing import Annealing
from .crew import Crew
from .sequences import Sequences, Timed
from .states import State

__all__ = ["Annealing", "Crew", "Sequences", "State", "Timed"]
