"""PyTorch models: captured as graphs of kernels, and graphs as planning problems.

Only :mod:`.trace`, :mod:`.nodes`, :mod:`.inputs`, :mod:`.failures` and :mod:`.profile` need
PyTorch, and import it when they are called, as :mod:`.onnx` does the library of that name;
everything after the captured graph works without it.
"""

from .calibration import calibrate
from .chain import stage_problem
from .instance import instance, require_times
from .merge import GRANULARITIES
from .meshed import meshed
from .model_file import EXAMPLE, TESTED, Builder, load_builder
from .onnx import SUFFIX as ONNX_SUFFIX
from .onnx import capture_onnx
from .optimizers import OPTIMIZERS
from .recompute import POLICIES
from .record import (
    capture_from_json,
    capture_to_json,
    fingerprint,
    read_capture,
    write_capture,
)
from .sharding import sharding
from .trace import capture_model
from .work import Coverage, coverage, draws_random, require_known, with_formulas

__all__ = [
    "EXAMPLE",
    "GRANULARITIES",
    "ONNX_SUFFIX",
    "OPTIMIZERS",
    "POLICIES",
    "TESTED",
    "Builder",
    "Coverage",
    "calibrate",
    "capture_from_json",
    "capture_model",
    "capture_onnx",
    "capture_to_json",
    "coverage",
    "draws_random",
    "fingerprint",
    "instance",
    "load_builder",
    "meshed",
    "read_capture",
    "require_known",
    "require_times",
    "sharding",
    "stage_problem",
    "with_formulas",
    "write_capture",
]
