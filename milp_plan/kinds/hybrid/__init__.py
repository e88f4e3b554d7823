"""Hybrid parallelism: stages of a pipeline with data, tensor degree and recomputation each."""

from milp_plan.kinds.hybrid.plan import Choice, HybridPlan, Stage
from milp_plan.kinds.hybrid.problem import Configuration, Flow, HybridProblem, Layer, Limits

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
