"""PyTorch models: captured as graphs of kernels, and graphs as planning problems.

Only :mod:`.trace` and :mod:`.nodes` need PyTorch, and import it when they are called; everything
after the captured graph works without.
"""

from .instance import OPTIMIZERS, instance
from .merge import GRANULARITIES
from .model_file import EXAMPLE, TESTED, Builder, load_builder
from .record import (
    capture_from_json,
    capture_to_json,
    fingerprint,
    read_capture,
    write_capture,
)
from .trace import capture_model
from .work import Coverage, coverage, require_known, with_formulas

__all__ = [
    "EXAMPLE",
    "GRANULARITIES",
    "OPTIMIZERS",
    "TESTED",
    "Builder",
    "Coverage",
    "capture_from_json",
    "capture_model",
    "capture_to_json",
    "coverage",
    "fingerprint",
    "instance",
    "load_builder",
    "read_capture",
    "require_known",
    "with_formulas",
    "write_capture",
]
