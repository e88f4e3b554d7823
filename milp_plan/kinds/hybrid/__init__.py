"""Hybrid parallelism: stages of a pipeline with data, tensor degree and recomputation each."""

from .plan import Choice, HybridPlan, Stage
from .problem import Configuration, Flow, HybridProblem, Layer, Limits

__all__ = [
    "Choice",
    "Configuration",
    "Flow",
    "HybridPlan",
    "HybridProblem",
    "Layer",
    "Limits",
    "Stage",
]
