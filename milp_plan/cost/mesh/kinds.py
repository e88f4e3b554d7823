"""The usual operators as nests of loops.

Sources of the splits: Shoeybi et al. 2019 (Megatron-LM) for products, attention and vocabulary;
Korthikanti et al. 2022 for sequences; Dryden et al. 2019 for halos of convolutions; Lepikhin et
al. 2020 (GShard) for experts. Sizes are per operator; ``b`` counts samples. Statistics take
four bytes.
"""

from __future__ import annotations

from math import prod

from .operators import Dim, Exchange, Loop, MeshOperator, Tensor, loops, tensor

STATISTIC_BYTES = 4


def matmul(b: int, s: int, n: int, k: int, *, bias: bool = False) -> MeshOperator:
    """Product of ``b * s`` rows of ``k`` features with a ``k`` by ``n`` matrix of weights.

    Split by ``b`` or ``s``: the weight gradient is a sum. By ``n``: the input gradient is. By
    ``k``: the output is.
    """
    weights = [tensor("weights", (k, "k"), (n, "n"))]
    return MeshOperator(
        "matmul",
        loops(b=b, s=s, n=n, k=k),
        (tensor("x", (b, "b"), (s, "s"), (k, "k")),),
        tensor("y", (b, "b"), (s, "s"), (n, "n")),
        2 * b * s * n * k,
        parameters=(*weights, tensor("bias", (n, "n"))) if bias else tuple(weights),
        backward_passes=2,
    )


def packed_attention(b: int, s: int, h: int, d: int, *, kv_heads: int = 0) -> MeshOperator:
    """Self-attention whose queries, keys and values are concatenated in one tensor.

    By ``h``: nothing. By ``q``: the whole input is needed, its gradient is a sum.
    """
    shared = kv_heads or h
    width = (h + 2 * shared) * d
    return MeshOperator(
        "attention",
        (*loops(b=b, h=shared, q=s), Loop("d", d, whole=True)),
        (tensor("qkv", (b, "b"), (s, ""), (width, "h")),),
        tensor("y", (b, "b"), (s, "q"), (h * d, "h")),
        4 * b * h * s * s * d,
        backward_passes=2,
    )


def convolution(
    b: int, channels: tuple[int, int], source: tuple[int, int], made: tuple[int, int], *,
    kernel: tuple[int, int], taps: int = 0, bias: int = 0,
) -> MeshOperator:  # fmt: skip
    """Return a convolution.

    By ``b``: the weight gradient is a sum; by ``n``: the input gradient; by ``c``: the output; by
    ``y`` or ``x``: the weight gradient, and halos go to both neighbours in both passes.

    Parameters
    ----------
    b
        Samples.
    channels
        Numbers of channels read and written.
    source, made
        Height and width of the maps read and written.
    kernel
        Height and width, whose halves are the halos.
    taps
        Parameters per pair of channels, if not the area of the kernel: four for a transposed
        convolution that makes four pixels of each, without halos.
    bias
        Parameters per channel written, in addition to the kernel.
    """
    c, n = channels
    extra = (tensor("bias", (n, "n"), (bias, "")),) if bias else ()
    return MeshOperator(
        "conv",
        loops(b=b, n=n, c=c, y=made[0], x=made[1]),
        (_map("x", b, c, source, "c"),),
        _map("y", b, n, made, "n"),
        2 * b * c * n * prod(made) * prod(kernel),
        parameters=(tensor("weights", (n, "n"), (c, "c"), (taps or prod(kernel), "")), *extra),
        exchanges=_halos(b, c, source, kernel, "c"),
        backward_passes=2,
    )


def pool(
    b: int, c: int, source: tuple[int, int], made: tuple[int, int], kernel: tuple[int, int]
) -> MeshOperator:
    """Pooling; no flops are credited, it costs what it moves."""
    return MeshOperator(
        "pool",
        loops(b=b, n=c, y=made[0], x=made[1]),
        (_map("x", b, c, source, "n"),),
        _map("y", b, c, made, "n"),
        0,
        exchanges=_halos(b, c, source, kernel, "n"),
    )


def norm(b: int, s: int, e: int, *, parameters: int = 2, flops: int = 5) -> MeshOperator:
    """Layer norm, or RMS norm with one parameter per feature; ``flops`` per element.

    By ``e``: two statistics per row are exchanged in each pass.
    """
    return MeshOperator(
        "norm",
        loops(b=b, s=s, e=e),
        (_rows("x", b, s, e),),
        _rows("y", b, s, e),
        flops * b * s * e,
        parameters=(tensor("scale", (e, "e"), (parameters, "")),),
        exchanges=(_statistics("e", 2 * b * s, ("b", "s")),),
        backward_passes=2,
    )


def cross_entropy(b: int, s: int, v: int) -> MeshOperator:
    """Loss over ``v`` classes per row; the mean is a sum over ``b`` and ``s``.

    By ``v``: largest, sum and the logit of the label, three words per row.
    """
    return MeshOperator(
        "cross_entropy",
        loops(b=b, s=s, v=v),
        (_rows("x", b, s, v, "v"),),
        Tensor("loss", (), STATISTIC_BYTES),
        5 * b * s * v,
        exchanges=(_statistics("v", 3 * b * s, ("b", "s"), backward=0),),
    )


def embedding(b: int, s: int, e: int, v: int, *, positions: int = 0) -> MeshOperator:
    """Look up rows of a table of ``v`` by ``e``; only those rows are read.

    By ``b`` or ``s``: the table's gradient is a sum. By ``v``: the output is. By ``e``: nothing.
    """
    table = [tensor("table", (v, "v"), (e, "e"))]
    if positions:
        table.append(tensor("positions", (positions, ""), (e, "e")))
    ids = Tensor("ids", (Dim(b, ("b",)), Dim(s, ("s",))), 4, gradient=False)
    return MeshOperator(
        "embedding",
        loops(b=b, s=s, e=e, v=v),
        (ids,),
        _rows("y", b, s, e),
        b * s * e,
        parameters=tuple(table),
        moved_elements=2 * b * s * e,
        gathered=True,
    )


def elementwise(
    extents: tuple[int, ...], *, inputs: int = 1, flops: int = 1, linear: bool = False
) -> MeshOperator:
    """Any operator on single elements: activations, dropout, sums; splits are free.

    ``linear`` ones (sums) let pending sums pass, and pass gradients on without work.
    """
    names = _letters(len(extents))
    dims = tuple(Dim(extent, (name,)) for extent, name in zip(extents, names, strict=True))
    return MeshOperator(
        "sum" if linear else "elementwise",
        tuple(Loop(name, extent) for extent, name in zip(extents, names, strict=True)),
        tuple(Tensor(f"x{number}", dims) for number in range(inputs)),
        Tensor("y", dims),
        flops * prod(extents),
        linear=linear,
        backward_passes=0 if linear else 1,
    )


def reshape(before: tuple[int, ...], after: tuple[int, ...]) -> MeshOperator:
    """Merge or split neighbouring dimensions; only the leading factor of a merged one can be split.

    Raises
    ------
    ValueError
        The two shapes do not have the same number of elements.
    """
    if prod(before) != prod(after):
        raise ValueError(f"{before} and {after} differ in size")
    read: list[Dim] = []
    written: list[Dim] = []
    made = []
    runs = _factors(before, after)
    for name, run in zip(_letters(len(runs)), runs, strict=True):
        made.append(Loop(name, min(_leading(parts) for parts in run)))
        for parts, dims in zip(run, (read, written), strict=True):
            place = next((i for i, extent in enumerate(parts) if extent > 1), 0)
            dims += [Dim(e, (name,) if i == place else ()) for i, e in enumerate(parts)]
    return MeshOperator(
        "reshape",
        tuple(made),
        (Tensor("x", tuple(read)),),
        Tensor("y", tuple(written)),
        0,
        linear=True,
        backward_passes=0,
    )


def expert(b: int, s: int, e: int, f: int, *, matrices: int = 2) -> MeshOperator:
    """One feed-forward network, fused: up (and gate), activation, down; ``s`` tokens.

    By ``f``: output and input gradient are sums; by ``b`` or ``s``: weight gradients are.
    """
    return MeshOperator(
        "expert",
        loops(b=b, s=s, f=f),
        (tensor("x", (b, "b"), (s, "s"), (e, "")),),
        tensor("y", (b, "b"), (s, "s"), (e, "")),
        2 * b * s * matrices * e * f,
        parameters=(
            tensor("up", ((matrices - 1) * e, ""), (f, "f")),
            tensor("down", (f, "f"), (e, "")),
        ),
        backward_passes=2,
        moved_elements=2 * b * s * matrices * f,
        saved_elements=b * s * matrices * f,
    )


def fused(
    b: int, s: int, e: int, *, heads: int, parameters: int, flops: int, moved: int, saved: int
) -> MeshOperator:
    """Several layers in one, divided into ``heads`` independent slices whose outputs add up.

    A whole attention or MLP half of a transformer block, split as Megatron-LM does: by ``h`` output
    and input gradient are sums.
    """
    per_head, rest = divmod(parameters, heads)
    whole = (tensor("rest", (rest, "")),) if rest else ()
    return MeshOperator(
        "fused",
        loops(b=b, h=heads),
        (tensor("x", (b, "b"), (s, ""), (e, "")),),
        tensor("y", (b, "b"), (s, ""), (e, "")),
        flops,
        parameters=(tensor("weights", (heads, "h"), (per_head, "")), *whole),
        backward_passes=2,
        moved_elements=moved,
        saved_elements=saved,
    )


def _rows(name: str, b: int, s: int, e: int, feature: str = "e") -> Tensor:
    return tensor(name, (b, "b"), (s, "s"), (e, feature))


def _map(name: str, b: int, channels: int, size: tuple[int, int], loop: str) -> Tensor:
    return tensor(name, (b, "b"), (channels, loop), (size[0], "y"), (size[1], "x"))


def _statistics(loop: str, words: int, divided: tuple[str, ...], backward: int = 1) -> Exchange:
    return Exchange("all_reduce", loop, words, STATISTIC_BYTES, divided, backward=backward)


def _halos(
    b: int, channels: int, size: tuple[int, int], kernel: tuple[int, int], loop: str
) -> tuple[Exchange, ...]:
    """Return rows that neighbours need of each other: half a kernel on either side."""
    halos = []
    for name, other, across, reach in (
        ("y", "x", size[1], kernel[0]),
        ("x", "y", size[0], kernel[1]),
    ):
        if reach // 2:
            elements = b * channels * across * (reach // 2)
            halos.append(Exchange("halo", name, elements, 2, ("b", loop, other)))
    return tuple(halos)


def _letters(count: int) -> list[str]:
    """Return loops: one over samples, and one for each other dimension."""
    return ["b", *(f"d{place}" for place in range(1, count))][:count]


def _factors(
    before: tuple[int, ...], after: tuple[int, ...]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the shortest runs of dimensions on both sides with equal numbers of elements."""
    left, right = list(before), list(after)
    factors: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    while left and right:
        one, two = [left.pop(0)], [right.pop(0)]
        while prod(one) != prod(two):
            side, rest = (one, left) if prod(one) < prod(two) else (two, right)
            side.append(rest.pop(0))
        factors.append((tuple(one), tuple(two)))
    if left or right:  # remaining ones
        last = factors.pop()
        factors.append(((*last[0], *left), (*last[1], *right)))
    return factors


def _leading(parts: tuple[int, ...]) -> int:
    return next((extent for extent in parts if extent > 1), 1)
