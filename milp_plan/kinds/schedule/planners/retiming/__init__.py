"""Plans from elsewhere, timed anew: what they decide and their orders are kept."""

from .schedule import Retiming

__all__ = ["Retiming"]
