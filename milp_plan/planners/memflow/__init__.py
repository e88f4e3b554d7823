"""MemFlow: a Markov chain over configurations and recomputation, on a simulator with memory."""

from .chain import Chain, Found
from .simulator import Measure, Simulator
from .states import State, States

__all__ = ["Chain", "Found", "Measure", "Simulator", "State", "States"]
