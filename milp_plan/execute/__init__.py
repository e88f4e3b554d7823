"""Runs plans with PyTorch, and compares them with one process without a plan."""

from .compare import Comparison, Differences, compare
from .pipelines import PipelineComparison, compare_pipeline
from .processes import ShardedStep, run_placements
from .sharded import ShardedComparison, compare_sharded
from .step import StepResult, run_step, step_seconds

__all__ = [
    "Comparison",
    "Differences",
    "PipelineComparison",
    "ShardedComparison",
    "ShardedStep",
    "StepResult",
    "compare",
    "compare_pipeline",
    "compare_sharded",
    "run_placements",
    "run_step",
    "step_seconds",
]
