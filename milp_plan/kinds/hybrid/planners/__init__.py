"""Planners of hybrid parallelism."""

from .exact import MARGIN, HybridAnswer, plan_exactly
from .uniform import plan_uniformly, repeated_layers

__all__ = ["MARGIN", "HybridAnswer", "plan_exactly", "plan_uniformly", "repeated_layers"]
