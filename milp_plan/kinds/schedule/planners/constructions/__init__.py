"""Placements and priorities by construction, for graphs with passes and micro-batches."""

from .base import Layout
from .gates import Gated, best_gated, gated, ungated
from .layouts import layouts
from .portfolio import MOST_SCHEDULES, Start, best_starts, placed
from .structure import Pass, Structure, structure
from .urgency import urgencies

__all__ = [
    "MOST_SCHEDULES",
    "Gated",
    "Layout",
    "Pass",
    "Start",
    "Structure",
    "best_gated",
    "best_starts",
    "gated",
    "layouts",
    "placed",
    "structure",
    "ungated",
    "urgencies",
]
