"""Compiled list schedules: placement and priorities in, an exact schedule out."""

from .decoder import Decoder
from .layout import NEVER
from .tables import Compiled, compiled_problem

__all__ = ["NEVER", "Compiled", "Decoder", "compiled_problem"]
