"""Jobs by time slots: a model without big-M that proves bounds, and plans by its order."""

from .model import Blocks, Slotted
from .search import Known, SlotAnswer, refine

__all__ = ["Blocks", "Known", "SlotAnswer", "Slotted", "refine"]
