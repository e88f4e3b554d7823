"""Work of kernels: floating-point operations and bytes, and operations that are not counted.

A multiplication and an addition are two operations. Only matrix products, convolutions and
attention count; everything else costs the bytes it moves. Formulas are those of
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
    """Return the name of a kernel's operator without its overload: ``aten.addmm``."""
    return ".".join(kernel.operator.split(".")[:2])


# floating-point operations -----------------------------------------------------------------------


def _product(kernel: Kernel, left: int, right: int) -> int:
    """Return operations of a product of (batches of) two matrices at two argument positions."""
    a, b = _tensor(kernel, left), _tensor(kernel, right)
    return 2 * prod(a.shape) * (b.shape[-1] if len(b.shape) > 1 else 1)


def _linear(kernel: Kernel) -> int:
    return 2 * prod(_tensor(kernel, 0).shape) * _tensor(kernel, 1).shape[0]


def _convolution(kernel: Kernel) -> int:
    transposed = kernel.arguments[6] is True
    outer = _tensor(kernel, 0) if transposed else tensors_made(kernel)[0]
    return _convolved(outer, _tensor(kernel, 1))


def _convolved(outer: Tensor, weight: Tensor) -> int:
    """Return the operations: each element of ``outer`` meets the weights of its channel.

    ``outer`` is the output, or the input of a transposed convolution: either way, weights have
    the shape (channels of ``outer``, other channels of a group, window).
    """
    return 2 * prod(outer.shape) * prod(weight.shape[1:])


def _convolution_backward(kernel: Kernel) -> int:
    """Return operations for the input and the weights, each as forward, if the mask has them."""
    transposed = kernel.arguments[7] is True
    mask = kernel.arguments[10]
    assert isinstance(mask, tuple)
    outer = _tensor(kernel, 1) if transposed else _tensor(kernel, 0)
    parts = (mask[0] is True) + (mask[1] is True)
    return parts * _convolved(outer, _tensor(kernel, 2))


def _attention(first: int) -> Callable[[Kernel], int]:
    """Return the formula of scores and weighted values; queries are argument ``first``."""

    def flops(kernel: Kernel) -> int:
        scores, width, values = _scores(kernel, first)
        return 2 * scores * (width + values)

    return flops


def _attention_backward(first: int) -> Callable[[Kernel], int]:
    """Return the formula of scores again, then four gradients: five products."""

    def flops(kernel: Kernel) -> int:
        scores, width, values = _scores(kernel, first)
        return 2 * scores * (3 * width + 2 * values)

    return flops


def _scores(kernel: Kernel, first: int) -> tuple[int, int, int]:
    """Return the number of scores, width of a query, width of a value."""
    query, key, value = (_tensor(kernel, first + step) for step in range(3))
    return prod(query.shape[:-1]) * key.shape[-2], query.shape[-1], value.shape[-1]


def _grouped(kernel: Kernel) -> int:
    """Return operations of products of groups of rows, each with its own matrix (experts).

    The number of rows of each group depends on the data; the total does not. Where the shared
    dimension is split, so is the work; where columns are, each meets one matrix only.
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
"""Operators that compute, and their formulas."""


def _tensor(kernel: Kernel, place: int) -> Tensor:
    """Return the argument at a position.

    Raises
    ------
    InputError
        It is no tensor.
    """
    argument = kernel.arguments[place] if place < len(kernel.arguments) else None
    if not isinstance(argument, Tensor):
        where = f"kernel {kernel.name!r}, argument {place}"
        remedy = "capture the model again"
        raise InputError([Finding(where, repr(argument), f"a tensor of {kernel.operator}", remedy)])
    return argument


def flops_of(kernel: Kernel) -> int | None:
    """Return floating-point operations of a kernel; ``None`` where they are unknown."""
    if kernel.flops is not None:
        return kernel.flops
    name = operator_of(kernel)
    if name in FORMULAS:
        return FORMULAS[name](kernel)
    return 0 if kernel.pointwise or name in LISTED else None


# bytes -------------------------------------------------------------------------------------------


def bytes_read(kernels: Iterable[Kernel], sizes: Mapping[int, int] | list[int]) -> dict[int, int]:
    """Return storage -> bytes of it that some kernels, run as one, read.

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
    """Coverage of a captured graph by formulas.

    Parameters
    ----------
    kernels
        Number of kernels.
    pathless
        Kernels without a module in PyTorch's record.
    flops
        Operations of the forward and of the backward pass.
    uncounted
        Operator -> kernels, and bytes they read and make: those that cost bytes alone.
    """

    kernels: int
    pathless: int
    flops: Mapping[str, int]
    uncounted: Mapping[str, tuple[int, int]]


def coverage(capture: Capture) -> Coverage:
    """Return the total work of a captured graph, and the bytes of kernels without operations."""
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
    """Return whether a kernel draws random numbers, as dropout does."""
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
        The graph does not have an operator.
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
    """Refuse graphs with operators of unknown work.

    Raises
    ------
    InputError
        Operators are unknown; one finding for each names its first kernel and the module.
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
