"""What a kernel computes and moves: floating-point operations and bytes, and what is not counted.

A multiplication and an addition are two operations. Only matrix products, convolutions and
attention count; everything else pays for the bytes it moves. Formulas are those of
``torch.utils.flop_counter`` and, for whole models, agree with published counts. Causal masks are
not halved: the kernels compute all of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from milp_plan.core import Finding, InputError
from milp_plan.io.capture_wire import Capture, Kernel, Tensor

from . import onnx_operators
from .operators import GATHERS, LISTED, RANDOM
from .record import replace_flops, tensor_bytes, tensors_made, tensors_read


def operator_of(kernel: Kernel) -> str:
    """Name of a kernel's operator without its overload: ``aten.addmm``."""
    return ".".join(kernel.operator.split(".")[:2])


# floating-point operations -----------------------------------------------------------------------


def _product(kernel: Kernel, left: int, right: int) -> int:
    """Product of (batches of) two matrices, which stand at two places of the arguments."""
    a, b = _tensor(kernel, left), _tensor(kernel, right)
    return 2 * prod(a.shape) * (b.shape[-1] if len(b.shape) > 1 else 1)


def _linear(kernel: Kernel) -> int:
    return 2 * prod(_tensor(kernel, 0).shape) * _tensor(kernel, 1).shape[0]


def _convolution(kernel: Kernel) -> int:
    transposed = kernel.arguments[6] is True
    outer = _tensor(kernel, 0) if transposed else tensors_made(kernel)[0]
    return _convolved(outer, _tensor(kernel, 1))


def _convolved(outer: Tensor, weight: Tensor) -> int:
    """Each element of ``outer`` meets each of the weights that touch its channel.

    ``outer`` is the output, or the input of a transposed convolution: either way, weights have
    the shape (channels of ``outer``, other channels of a group, window).
    """
    return 2 * prod(outer.shape) * prod(weight.shape[1:])


def _convolution_backward(kernel: Kernel) -> int:
    """As much for the input and for the weights as forward; the mask says which are made."""
    transposed = kernel.arguments[7] is True
    mask = kernel.arguments[10]
    assert isinstance(mask, tuple)
    outer = _tensor(kernel, 1) if transposed else _tensor(kernel, 0)
    parts = (mask[0] is True) + (mask[1] is True)
    return parts * _convolved(outer, _tensor(kernel, 2))


def _attention(first: int) -> Callable[[Kernel], int]:
    """Scores, and the mean of values that they weigh; queries stand at ``first``."""

    def flops(kernel: Kernel) -> int:
        scores, width, values = _scores(kernel, first)
        return 2 * scores * (width + values)

    return flops


def _attention_backward(first: int) -> Callable[[Kernel], int]:
    """Scores once more, then the gradients of scores, values, queries and keys: five products."""

    def flops(kernel: Kernel) -> int:
        scores, width, values = _scores(kernel, first)
        return 2 * scores * (3 * width + 2 * values)

    return flops


def _scores(kernel: Kernel, first: int) -> tuple[int, int, int]:
    """Number of scores, width of a query, width of a value."""
    query, key, value = (_tensor(kernel, first + step) for step in range(3))
    return prod(query.shape[:-1]) * key.shape[-2], query.shape[-1], value.shape[-1]


def _grouped(kernel: Kernel) -> int:
    """Products of groups of rows, each with a matrix of its own (experts).

    How many rows each group has depends on the data; all rows together do not. Where the shared
    dimension is cut, so is the work, and where columns are, each meets one matrix only.
    """
    a, b = _tensor(kernel, 0), _tensor(kernel, 1)
    experts = a.shape[0] if len(a.shape) > len(b.shape) else 1
    return 2 * prod(a.shape) * b.shape[-1] // experts


def _pairs(kernel: Kernel) -> int:
    return 2 * prod(_tensor(kernel, 0).shape)


FORMULAS: Mapping[str, Callable[[Kernel], int]] = {
    "aten.mm": lambda kernel: _product(kernel, 0, 1),
    "aten.bmm": lambda kernel: _product(kernel, 0, 1),
    "aten.mv": lambda kernel: _product(kernel, 0, 1),
    "aten.matmul": lambda kernel: _product(kernel, 0, 1),
    "aten._int_mm": lambda kernel: _product(kernel, 0, 1),
    "aten._scaled_mm": lambda kernel: _product(kernel, 0, 1),
    "aten.addmm": lambda kernel: _product(kernel, 1, 2),
    "aten._addmm_activation": lambda kernel: _product(kernel, 1, 2),
    "aten.baddbmm": lambda kernel: _product(kernel, 1, 2),
    "aten.addbmm": lambda kernel: _product(kernel, 1, 2),
    "aten.addmv": lambda kernel: _product(kernel, 1, 2),
    "aten.linear": _linear,
    "aten.dot": _pairs,
    "aten.vdot": _pairs,
    "aten.convolution": _convolution,
    "aten._convolution": _convolution,
    "aten.convolution_backward": _convolution_backward,
    "aten._grouped_mm": _grouped,
    "transformers.grouped_mm_fallback": _grouped,
    "transformers.grouped_mm_fallback_backward": lambda kernel: 2 * _grouped(kernel),
    "aten._scaled_dot_product_flash_attention": _attention(0),
    "aten._scaled_dot_product_flash_attention_for_cpu": _attention(0),
    "aten._scaled_dot_product_efficient_attention": _attention(0),
    "aten._scaled_dot_product_cudnn_attention": _attention(0),
    "aten._scaled_dot_product_fused_attention_overrideable": _attention(0),
    "aten.scaled_dot_product_attention": _attention(0),
    "aten._scaled_dot_product_flash_attention_backward": _attention_backward(1),
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward(1),
    "aten._scaled_dot_product_efficient_attention_backward": _attention_backward(1),
    "aten._scaled_dot_product_cudnn_attention_backward": _attention_backward(1),
    "aten._scaled_dot_product_fused_attention_overrideable_backward": _attention_backward(1),
    **onnx_operators.FORMULAS,
}
"""Operators that compute, and how much."""


def _tensor(kernel: Kernel, place: int) -> Tensor:
    """Argument at a place.

    Raises
    ------
    InputError
        It is no tensor.
    """
    found = kernel.arguments[place] if place < len(kernel.arguments) else None
    if not isinstance(found, Tensor):
        where = f"kernel {kernel.name!r}, argument {place}"
        remedy = "capture the model again"
        raise InputError([Finding(where, repr(found), f"a tensor of {kernel.operator}", remedy)])
    return found


def flops_of(kernel: Kernel) -> int | None:
    """Floating-point operations of a kernel; ``None`` where nobody knows them."""
    if kernel.flops is not None:
        return kernel.flops
    name = operator_of(kernel)
    if name in FORMULAS:
        return FORMULAS[name](kernel)
    return 0 if kernel.pointwise or name in LISTED else None


# bytes -------------------------------------------------------------------------------------------


def bytes_read(kernels: Iterable[Kernel], sizes: Mapping[int, int] | list[int]) -> dict[int, int]:
    """Storage -> bytes that some kernels, run as one, read of it.

    Views of one storage add up, at most to the whole of it; equal views count once. An operator
    that picks rows reads no more of them than it makes.
    """
    seen: dict[int, dict[tuple[int, ...], int]] = {}
    for kernel in kernels:
        made = sum(tensor_bytes(tensor) for tensor in tensors_made(kernel))
        picks = operator_of(kernel) in GATHERS
        for place, tensor in enumerate(tensors_read(kernel)):
            size = min(tensor_bytes(tensor), sizes[tensor.storage])
            if picks and place == 0:
                size = min(size, made)
            views = seen.setdefault(tensor.storage, {})
            views[tensor.shape] = max(views.get(tensor.shape, 0), size)
    return {storage: min(sum(views.values()), sizes[storage]) for storage, views in seen.items()}


# what is not counted -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Coverage:
    """How much of a captured graph is understood.

    Parameters
    ----------
    kernels
        All of them.
    pathless
        Kernels of which PyTorch does not say the module.
    flops
        Operations of the forward and of the backward pass.
    uncounted
        Operator -> kernels, and bytes they read and make: those that pay for bytes alone.
    """

    kernels: int
    pathless: int
    flops: Mapping[str, int]
    uncounted: Mapping[str, tuple[int, int]]


def coverage(capture: Capture) -> Coverage:
    """Add up what a captured graph computes; what its kernels move where they compute nothing."""
    flops = {"forward": 0, "backward": 0}
    uncounted: dict[str, tuple[int, int]] = {}
    for kernel in capture.kernels:
        flops[kernel.phase] += flops_of(kernel) or 0
        if kernel.flops is None and operator_of(kernel) not in FORMULAS:
            count, moved = uncounted.get(operator_of(kernel), (0, 0))
            touched = [*tensors_read(kernel), *tensors_made(kernel)]
            sizes = (min(tensor_bytes(t), capture.storages[t.storage].bytes) for t in touched)
            uncounted[operator_of(kernel)] = count + 1, moved + sum(sizes)
    pathless = sum(kernel.module is None for kernel in capture.kernels)
    return Coverage(len(capture.kernels), pathless, flops, uncounted)


def draws_random(capture: Capture) -> bool:
    """Whether a kernel draws random numbers, as dropout does."""
    return any(operator_of(kernel) in RANDOM for kernel in capture.kernels)


def with_formulas(capture: Capture, per_element: Mapping[str, int]) -> Capture:
    """Return the graph with operations for operators that have no formula.

    Parameters
    ----------
    capture
        The graph.
    per_element
        Operator, with or without its overload -> operations for each element of its results.

    Raises
    ------
    InputError
        An operator that the graph does not have.
    """
    import msgspec

    present = {name for k in capture.kernels for name in (operator_of(k), k.operator)}
    missing = [name for name in per_element if name not in present]
    if missing:
        raise InputError(
            Finding("--flops", repr(name), "an operator of the model", "correct the name")
            for name in missing
        )

    def given(kernel: Kernel) -> Kernel:
        factor = per_element.get(kernel.operator, per_element.get(operator_of(kernel)))
        if factor is None:
            return kernel
        return replace_flops(kernel, factor * sum(prod(t.shape) for t in tensors_made(kernel)))

    kernels = tuple(given(kernel) for kernel in capture.kernels)
    return msgspec.structs.replace(capture, kernels=kernels)


def require_known(capture: Capture) -> None:
    """Refuse graphs with operators of which nobody knows what they compute.

    Raises
    ------
    InputError
        With one finding for each operator, which names the first kernel and its module.
    """
    findings = list(_unknown(capture))
    if findings:
        raise InputError(findings)


def _unknown(capture: Capture) -> Iterator[Finding]:
    reported: set[str] = set()
    for kernel in capture.kernels:
        name = operator_of(kernel)
        if name in reported or flops_of(kernel) is not None:
            continue
        reported.add(name)
        yield Finding(
            f"module {kernel.module or 'of the model itself'!r}, kernel {kernel.name!r}",
            f"operator {name}, of which no formula is known",
            "an operator whose work can be counted",
            f"say its operations per element of its results: --flops {name}=NUMBER (0: it only"
            f" moves bytes), or give FLOPS = {{{name!r}: function}} in the model's file",
        )
