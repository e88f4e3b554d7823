"""Nests of experts: groups of rows, each with a matrix of its own.

Rows lie sorted by expert, and how many each has depends on the data, so rows stay whole. Experts
may be cut, or their matrices: a process with some of the experts makes their rows and leaves the
others zero, so that the result is a sum to come. Its share of the work is taken to be fair.
:mod:`milp_plan.execute.shares` runs them on the parts.
"""

from __future__ import annotations

from collections.abc import Mapping

from milp_plan.io.capture_wire import Kernel, View

from .loops import Nest, Rule
from .record import tensors_of


def _experts(call: Kernel | View) -> Nest | None:
    """Rows, matrices, where each expert's rows end; rows."""
    ranks = [len(tensor.shape) for tensor in tensors_of(call)]
    return Nest((".k", "ekn", "."), (".n",)) if ranks == [2, 3, 1] else None


def _experts_backward(call: Kernel | View) -> Nest | None:
    """Rows, matrices, where each expert's rows end, gradient; gradients of rows and matrices."""
    ranks = [len(tensor.shape) for tensor in tensors_of(call)]
    return Nest((".k", "ekn", ".", ".n"), (".k", "ekn")) if ranks == [2, 3, 1, 2] else None


EXPERT_RULES: Mapping[str, Rule] = {
    "aten._grouped_mm": _experts,
    "transformers.grouped_mm_fallback": _experts,
    "transformers.grouped_mm_fallback_backward": _experts_backward,
}
"""Operator -> its nest."""
