"""Placements and priorities by construction, for graphs with passes and micro-batches."""

from .layouts import Layout, layouts
from .portfolio import Start, best_starts
from .structure import Pass, Structure, structure
from .urgency import urgencies

__all__ = [
    "Layout",
    "Pass",
    "Start",
    "Structure",
    "best_starts",
    "layouts",
    "structure",
    "urgencies",
]
