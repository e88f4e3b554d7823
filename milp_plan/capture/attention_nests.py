"""Nests of attention in one operator: samples and heads are free.

:mod:`milp_plan.execute.shares` runs it on the parts: PyTorch's distributed tensors have no rule for
attention of the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping

from milp_plan.io.capture_wire import Kernel, Tensor, View

from .loops import WHOLE, Nest, Rule
from .record import tensors_of


def _attention(count: int) -> Rule:
    """Queries, keys and values, in the backward pass more; behind these a mask, if there is one."""

    def rule(call: Kernel | View) -> Nest:
        read = tensors_of(call)
        reads = tuple(_leading(tensor) for tensor in read[:count])
        masks = tuple(_broadcast(tensor) for tensor in read[count:])
        made = tuple(None if one is None else _leading(one) for one in call.results)
        return Nest((*reads, *masks), made)

    return rule


def _leading(tensor: Tensor) -> str:
    """Samples and heads are the two leading dimensions."""
    return ("bh" + WHOLE * len(tensor.shape))[: len(tensor.shape)]


def _broadcast(mask: Tensor) -> str:
    """Samples and heads, if a mask has them; one for all is whole, as queries and keys are."""
    rank = len(mask.shape)
    letters = ("bh" + WHOLE * 2)[4 - rank :] if rank <= 4 else WHOLE * rank
    pairs = zip(letters, mask.shape, strict=True)
    return "".join(WHOLE if extent == 1 else letter for letter, extent in pairs)


ATTENTION_RULES: Mapping[str, Rule] = {
    "aten._scaled_dot_product_flash_attention_for_cpu": _attention(3),
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": _attention(6),
}
"""Operator -> its nest."""
