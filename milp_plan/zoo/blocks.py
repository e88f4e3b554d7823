"""Transformer blocks, shared by all architectures that have some.

Granularities: ``fine`` has one layer per kernel (norm, qkv, attention, projection, addition, norm,
fc1, activation, fc2, addition); ``block`` has two fused layers, attention and MLP, each with its
norm and its residual addition inside.

Only matrix products and attention have exact flops: ``2 T m n`` for a product of ``T`` rows, and
``4 s^2 a`` for scores and weighted values of ``s`` tokens and total head width ``a``, as in
Narayanan et al. 2021, appendix (a causal mask is not credited). Norms, activations and additions,
which memory bounds, count a few operations per element.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from milp_plan.core import Finding, InputError
from milp_plan.cost.mesh import MeshOperator, kinds

from .architecture import Layer

GRANULARITIES = ("fine", "block")
"""All granularities of a transformer."""

NORM_FLOPS = 5
ACTIVATION_FLOPS = 8
FINE_SPLITS = ("copy", "batch")


@dataclass(frozen=True, slots=True)
class BlockShape:
    """Sizes of one block.

    Parameters
    ----------
    width, heads, tokens, hidden
        Model width, attention heads, tokens of a sequence, inner width of the MLP.
    key_value_width
        Total width of the keys; equal to ``width`` unless query heads share them.
    bias
        Whether products and norms have biases.
    """

    width: int
    heads: int
    tokens: int
    hidden: int
    key_value_width: int
    bias: bool = True

    @property
    def head_width(self) -> int:
        """Width of one head."""
        return self.width // self.heads

    @property
    def key_value_heads(self) -> int:
        """Number of heads of keys and values."""
        return self.key_value_width // self.head_width

    @property
    def stream(self) -> int:
        """Elements of the residual stream per sequence."""
        return self.tokens * self.width

    @property
    def qkv_width(self) -> int:
        """Total width of queries, keys and values."""
        return self.width + 2 * self.key_value_width

    def product_parameters(self, rows: int, columns: int) -> int:
        """Return the number of parameters of a matrix product."""
        return rows * columns + (columns if self.bias else 0)

    @property
    def norm_parameters(self) -> int:
        """Number of parameters of a norm."""
        return (2 if self.bias else 1) * self.width


def shape(
    width: int,
    heads: int,
    tokens: int,
    *,
    hidden: int | None = None,
    key_value_heads: int | None = None,
    bias: bool = True,
) -> BlockShape:
    """Return sizes with the usual defaults: four times as wide inside, no shared keys."""
    shared = width // heads * (key_value_heads or heads)
    return BlockShape(width, heads, tokens, hidden or 4 * width, shared, bias)


def check_granularity(granularity: str) -> None:
    """Raise InputError for a granularity that transformers do not have."""
    if granularity not in GRANULARITIES:
        expected = f"one of {', '.join(GRANULARITIES)}"
        raise InputError(
            [Finding("granularity", repr(granularity), expected, "choose one of them")]
        )


def number_of_blocks(own: int, requested: int | None) -> int:
    """Return the requested number of blocks, or an architecture's own.

    Raises
    ------
    InputError
        Fewer than one are requested.
    """
    if requested is not None and requested < 1:
        raise InputError([Finding("blocks", str(requested), "at least 1", "ask for more")])
    return own if requested is None else requested


def titled(name: str, requested: int | None) -> str:
    """Return the name of an architecture, with the number of blocks if one was requested."""
    return name if requested is None else f"{name}-{requested}-blocks"


def linear(
    name: str,
    entry: str,
    size: BlockShape,
    columns: int,
    *,
    rows: int | None = None,
    splits: tuple[str, ...] = ("batch",),
    block: str | None = None,
) -> Layer:
    """Product of every token's features with a matrix of ``rows`` by ``columns``."""
    rows = rows or size.width
    return Layer(
        name,
        "linear",
        (entry,),
        2 * size.tokens * rows * columns,
        size.product_parameters(rows, columns),
        size.tokens * columns,
        splits=splits,
        block=block,
        space=kinds.matmul(1, size.tokens, columns, rows, bias=size.bias),
    )


def norm(name: str, entry: str, size: BlockShape, *, block: str | None = None) -> Layer:
    """Layer norm, or RMS norm where there are no biases."""
    flops = NORM_FLOPS * size.stream
    return Layer(
        name,
        "norm",
        (entry,),
        flops,
        size.norm_parameters,
        size.stream,
        splits=FINE_SPLITS,
        block=block,
        space=kinds.norm(1, size.tokens, size.width, parameters=2 if size.bias else 1),
    )


def add(name: str, first: str, second: str, size: BlockShape, *, block: str | None = None) -> Layer:
    """Residual addition."""
    return Layer(
        name,
        "add",
        (first, second),
        size.stream,
        0,
        size.stream,
        splits=FINE_SPLITS,
        block=block,
        space=kinds.elementwise((1, size.tokens, size.width), inputs=2, linear=True),
    )


def attention_layers(block: str, entry: str, size: BlockShape) -> list[Layer]:
    """Return fine layers of the attention half of a block; the last is the residual addition."""
    return [
        norm(f"{block}.ln1", entry, size, block=block),
        linear(
            f"{block}.qkv",
            f"{block}.ln1",
            size,
            size.qkv_width,
            splits=("batch", "column"),
            block=block,
        ),
        Layer(
            f"{block}.attn",
            "attention",
            (f"{block}.qkv",),
            4 * size.tokens**2 * size.width,
            0,
            size.stream,
            splits=("batch", "head"),
            block=block,
            space=kinds.packed_attention(
                1, size.tokens, size.heads, size.head_width, kv_heads=size.key_value_heads
            ),
        ),
        linear(
            f"{block}.proj", f"{block}.attn", size, size.width, splits=("batch", "row"), block=block
        ),
        add(f"{block}.add1", entry, f"{block}.proj", size, block=block),
    ]


def mlp_layers(block: str, entry: str, size: BlockShape) -> list[Layer]:
    """Return fine layers of the MLP half of a block; the last is the residual addition."""
    return [
        norm(f"{block}.ln2", entry, size, block=block),
        linear(
            f"{block}.fc1",
            f"{block}.ln2",
            size,
            size.hidden,
            splits=("batch", "column"),
            block=block,
        ),
        Layer(
            f"{block}.gelu",
            "elementwise",
            (f"{block}.fc1",),
            ACTIVATION_FLOPS * size.tokens * size.hidden,
            0,
            size.tokens * size.hidden,
            splits=("batch", "column"),
            block=block,
            space=kinds.elementwise((1, size.tokens, size.hidden), flops=ACTIVATION_FLOPS),
        ),
        linear(
            f"{block}.fc2",
            f"{block}.gelu",
            size,
            size.width,
            rows=size.hidden,
            splits=("batch", "row"),
            block=block,
        ),
        add(f"{block}.add2", entry, f"{block}.fc2", size, block=block),
    ]


def fused(
    name: str,
    kind: str,
    parts: list[Layer],
    size: BlockShape,
    slices: int,
    *,
    block: str | None = None,
) -> Layer:
    """Return one layer for a half block; tensors between its parts are saved for backward.

    ``slices`` is the number of independent parts it can be cut into: heads, or inner features.
    """
    inner = parts[:-1]
    saved = sum(part.output_elements for part in inner[:-1])
    space = kinds.fused(
        1,
        size.tokens,
        size.width,
        heads=slices,
        parameters=sum(part.parameters for part in parts),
        flops=sum(part.flops for part in parts),
        moved=_moved(parts) - 2 * size.stream,
        saved=saved,
    )
    return Layer(
        name,
        kind,
        parts[0].inputs,
        sum(part.flops for part in parts),
        sum(part.parameters for part in parts),
        parts[-1].output_elements,
        moved_elements=_moved(parts),
        # the last product's output is added to the stream at once and not needed again
        saved_elements=saved,
        weight_flops=sum(part.flops_with_weights for part in parts),
        splits=("batch", "tensor"),
        block=block,
        space=space,
    )


def _moved(parts: list[Layer]) -> int:
    """Return moved elements: each part reads the previous output; the ends use the stream."""
    stream = parts[-1].output_elements
    written = sum(part.output_elements for part in parts)
    return 2 * written + 2 * stream


def with_norm(layer: Layer, before: Layer) -> Layer:
    """Fuse a norm into the layer that reads it; its output is saved for backward."""
    stream = before.output_elements
    space = None
    if layer.space is not None and before.space is not None:
        space = _normed(layer.space, before.space, stream)
    return replace(
        layer,
        space=space,
        inputs=before.inputs,
        flops=before.flops + layer.flops,
        parameters=before.parameters + layer.parameters,
        moved_elements=3 * stream + layer.output_elements,
        saved_elements=stream,
        weight_flops=before.flops_with_weights + layer.flops_with_weights,
    )


def _normed(layer: MeshOperator, before: MeshOperator, stream: int) -> MeshOperator:
    """Return a norm fused with its product: features ``e`` of the one are ``k`` of the other."""

    def renamed(loops: tuple[str, ...]) -> tuple[str, ...]:
        return tuple("k" if loop == "e" else loop for loop in loops)

    parameters = tuple(
        replace(one, dims=tuple(replace(dim, loops=renamed(dim.loops)) for dim in one.dims))
        for one in before.parameters
    )
    return replace(
        layer,
        flops=before.flops + layer.flops,
        parameters=(*parameters, *layer.parameters),
        exchanges=tuple(replace(one, loop="k") for one in before.exchanges),
        moved_elements=2 * stream,
        saved_elements=stream,
    )


def attention_half(block: str, entry: str, size: BlockShape, granularity: str) -> list[Layer]:
    """Return layers of the attention half; read the last one for its output."""
    parts = attention_layers(block, entry, size)
    if granularity == "fine":
        return parts
    return [fused(f"{block}.attention", "linear", parts, size, size.key_value_heads, block=block)]


def mlp_half(block: str, entry: str, size: BlockShape, granularity: str) -> list[Layer]:
    """Return layers of the MLP half; read the last one for its output."""
    parts = mlp_layers(block, entry, size)
    if granularity == "fine":
        return parts
    return [fused(f"{block}.mlp", "linear", parts, size, size.hidden, block=block)]


def encoder(prefix: str, entry: str, size: BlockShape, depth: int, granularity: str) -> list[Layer]:
    """Return ``depth`` blocks one after the other; read the last layer for their output."""
    layers: list[Layer] = []
    for i in range(depth):
        layers += attention_half(f"{prefix}{i}", entry, size, granularity)
        layers += mlp_half(f"{prefix}{i}", layers[-1].name, size, granularity)
        entry = layers[-1].name
    return layers


def token_embedding(name: str, vocabulary: int, width: int, tokens: int, positions: int) -> Layer:
    """Look up token embeddings and add learned positions."""
    return Layer(
        name,
        "embedding",
        (),
        tokens * width,
        (vocabulary + positions) * width,
        tokens * width,
        moved_elements=3 * tokens * width,
        splits=("batch", "column", "row"),
        space=kinds.embedding(1, tokens, width, vocabulary, positions=positions),
    )
