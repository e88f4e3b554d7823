"""MemFlow: a Markov chain over configurations and recomputation, on a simulator with memory."""

from .chain import Chain, Found
from .relief import Relief
from .simulator import Measure, Simulator
from .states import ChainState, States

__all__ = ["Chain", "ChainState", "Found", "Measure", "Relief", "Simulator", "States"]
