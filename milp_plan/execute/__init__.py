"""Plans, run by PyTorch, and compared with what one process does without a plan."""

from .compare import Comparison, compare
from .step import Step, run_step

__all__ = ["Comparison", "Step", "compare", "run_step"]
