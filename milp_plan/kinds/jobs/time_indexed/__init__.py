"""Jobs by time slots: a model without big-M that proves bounds, and plans by its order."""

from .model import Blocks, Slotted
from .search import Answer, Known, refine

__all__ = ["Answer", "Blocks", "Known", "Slotted", "refine"]
