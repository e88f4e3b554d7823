"""Plans, run by PyTorch, and compared with what one process does without a plan."""

from .compare import Comparison, compare
from .pipelines import PipelineComparison, compare_pipeline
from .processes import ShardedStep, run_placements
from .sharded import ShardedComparison, compare_sharded
from .step import Step, run_step, step_seconds

__all__ = [
    "Comparison",
    "PipelineComparison",
    "ShardedComparison",
    "ShardedStep",
    "Step",
    "compare",
    "compare_pipeline",
    "compare_sharded",
    "run_placements",
    "run_step",
    "step_seconds",
]
