"""Planners of hybrid parallelism."""

from .exact import MARGIN, HybridAnswer, plan_exactly

__all__ = ["MARGIN", "HybridAnswer", "plan_exactly"]
