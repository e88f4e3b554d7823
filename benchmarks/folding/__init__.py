"""Folding of repeated blocks: tied (equal operators choose alike) and exact."""

from .exact import Folded, plan_exact
from .tied import Tied, classes, plan_tied, quotient, tie

__all__ = ["Folded", "Tied", "classes", "plan_exact", "plan_tied", "quotient", "tie"]
