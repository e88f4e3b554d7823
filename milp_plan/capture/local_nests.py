"""Nests of operators that :mod:`milp_plan.execute.shares` runs on the parts.

PyTorch's distributed tensors have no rule for these operators, or a wrong one.

Convolutions, normalisations and pools: samples are free, and so are channels as far as the operator
separates them; pixels stay whole, so there are no halos. In training a batch normalisation with
split samples sums two numbers per channel inside, forward (of values and of their squares) and
backward (of gradients, and of their products with the normalised values): it equals the result of
one process, and does not use statistics of a part.

Attention: samples and heads are free.

Experts: rows are sorted by expert, and the number of rows of each depends on the data, so rows stay
whole. Experts may be split, or their matrices: a process with some of the experts computes their
rows and leaves the others zero, so that the result is a pending sum. Its share of the work is
assumed proportional.
"""

from __future__ import annotations

from collections.abc import Mapping

from milp_plan.cost.mesh import Exchange
from milp_plan.io.capture_wire import Kernel, Tensor, View

from .loops import WHOLE, Nest, Rule
from .record import tensors_of

SAMPLES, CHANNELS = "n", "c"
"""Loops of batch normalisations and pools."""

STATISTIC_BYTES = 4
"""Bytes of one sum."""


def _convolution(call: Kernel | View) -> Nest:
    """Input, weight and bias; result."""
    source, _, *bias = tensors_of(call)
    whole = WHOLE * (len(source.shape) - 2)
    read, made, kernel, groups = _channels(call, 6)
    reads = (SAMPLES + read + whole, kernel + whole, *(made for _ in bias))
    return Nest(reads, (SAMPLES + made + whole,), extents=groups)


def _convolution_backward(call: Kernel | View) -> Nest:
    """Gradient of the result, input and weight; gradients of input, weight and bias.

    That of the bias needs no channels of the input: all processes know it where these are cut.
    """
    source = tensors_of(call)[0]
    whole = WHOLE * (len(source.shape) - 2)
    read, made, kernel, groups = _channels(call, 7)
    reads = (SAMPLES + made + whole, SAMPLES + read + whole, kernel + whole)
    gradients = (SAMPLES + read + whole, kernel + whole, made)
    makes = tuple(
        None if one is None else letters
        for one, letters in zip(call.results, gradients, strict=True)
    )
    return Nest(reads, makes, agreed="i", extents=groups)


def _channels(call: Kernel | View, place: int) -> tuple[str, str, str, tuple[tuple[str, int], ...]]:
    """Return loops of channels read and made, the weight's two loops, and the number of groups.

    The transposed flag is argument ``place``, the number of groups two arguments later.
    """
    transposed, groups = call.arguments[place], call.arguments[place + 2]
    assert isinstance(groups, int)
    if groups > 1:
        return "g", "g", "g" + WHOLE, (("g", groups),)
    return "i", "o", "io" if transposed else "oi", ()


def _normalised(call: Kernel | View) -> Nest:
    """Values, weight, bias, running statistics; values, statistics of the batch, running ones."""
    return _over_batch(call, added=call.arguments[5] is True)


def _normalised_by_known(call: Kernel | View) -> Nest:
    return _over_batch(call, added=False)


def _normalised_backward(call: Kernel | View) -> Nest:
    """Return gradient, values, weight, statistics; gradients of values, weight and bias.

    With known statistics, those of weight and bias are pending sums. Without a gradient of values
    the samples must not be split.
    """
    added = call.arguments[7] is True
    return _over_batch(call, added=added, sums=not added)


def _over_batch(call: Kernel | View, *, added: bool, sums: bool = False) -> Nest:
    """Return the loops of a normalisation.

    Parameters
    ----------
    call
        The normalisation.
    added
        Whether two sums per channel are computed inside.
    sums
        Whether results without samples are pending sums.
    """
    first = tensors_of(call)[0]
    samples = WHOLE if call.results[0] is None else SAMPLES

    def letters(tensor: Tensor) -> str:
        if len(tensor.shape) == len(first.shape):
            return samples + CHANNELS + WHOLE * (len(first.shape) - 2)
        return CHANNELS if tensor.shape == first.shape[1:2] else WHOLE * len(tensor.shape)

    exchange = Exchange("all_reduce", SAMPLES, 2 * first.shape[1], STATISTIC_BYTES, (CHANNELS,))
    exchanged = added and samples != WHOLE
    return Nest(
        tuple(letters(tensor) for tensor in tensors_of(call)),
        tuple(None if one is None else letters(one) for one in call.results),
        exchanges=(exchange,) if exchanged else (),
        agreed="" if sums else SAMPLES,
    )


def _grouped(place: int) -> Rule:
    """Return the rule of a group normalisation: samples and groups are free."""

    def rule(call: Kernel | View) -> Nest:
        groups = call.arguments[place]
        assert isinstance(groups, int)

        def letters(tensor: Tensor) -> str:
            rank = len(tensor.shape)
            return "g" if rank == 1 else SAMPLES + "g" + WHOLE * (rank - 2)

        return Nest(
            tuple(letters(tensor) for tensor in tensors_of(call)),
            tuple(None if one is None else letters(one) for one in call.results),
            extents=(("g", groups),),
        )

    return rule


def _pooled(pixels: int) -> Rule:
    """Return the rule of operators on single planes, whose last dimensions are ``pixels``."""

    def rule(call: Kernel | View) -> Nest:
        lead = len(tensors_of(call)[0].shape) - pixels
        letters = (SAMPLES + CHANNELS)[2 - lead :] + WHOLE * pixels
        made = tuple(None if one is None else letters for one in call.results)
        return Nest((letters,) * len(tensors_of(call)), made)

    return rule


def _pools() -> dict[str, Rule]:
    names = {
        "max_pool{}d_with_indices": (2, 3),
        "avg_pool{}d": (2, 3),
        "_adaptive_avg_pool{}d": (2, 3),
        "adaptive_max_pool{}d": (2, 3),
    }
    return {
        f"aten.{name.format(pixels)}{suffix}": _pooled(pixels)
        for name, sizes in names.items()
        for pixels in sizes
        for suffix in ("", "_backward")
    }


IMAGE_RULES: Mapping[str, Rule] = {
    "aten.convolution": _convolution,
    "aten.convolution_backward": _convolution_backward,
    "aten._native_batch_norm_legit_functional": _normalised,
    "aten._native_batch_norm_legit_no_training": _normalised_by_known,
    "aten.native_batch_norm_backward": _normalised_backward,
    "aten.native_group_norm": _grouped(6),
    "aten.native_group_norm_backward": _grouped(8),
    **_pools(),
}
"""Operator -> its nest."""


def _attention(count: int) -> Rule:
    """Return the rule for queries, keys and values, further tensors, and an optional mask."""

    def rule(call: Kernel | View) -> Nest:
        read = tensors_of(call)
        reads = tuple(_leading(tensor) for tensor in read[:count])
        masks = tuple(_broadcast(tensor) for tensor in read[count:])
        made = tuple(None if one is None else _leading(one) for one in call.results)
        return Nest((*reads, *masks), made)

    return rule


def _leading(tensor: Tensor) -> str:
    """Return the loops of samples and heads, the two leading dimensions."""
    return ("bh" + WHOLE * len(tensor.shape))[: len(tensor.shape)]


def _broadcast(mask: Tensor) -> str:
    """Return the loops of samples and heads of a mask; a broadcast dimension is whole."""
    rank = len(mask.shape)
    letters = ("bh" + WHOLE * 2)[4 - rank :] if rank <= 4 else WHOLE * rank
    pairs = zip(letters, mask.shape, strict=True)
    return "".join(WHOLE if extent == 1 else letter for letter, extent in pairs)


ATTENTION_RULES: Mapping[str, Rule] = {
    "aten._scaled_dot_product_flash_attention_for_cpu": _attention(3),
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": _attention(6),
}
"""Operator -> its nest."""


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
