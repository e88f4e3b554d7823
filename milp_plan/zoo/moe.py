"""Mixture-of-experts transformers.

Sources: Jiang et al., "Mixtral of experts", arXiv 2401.04088, 2024 (32 layers, width 4,096, inner
width 14,336, 32 heads with 8 key-value heads, 8 experts of which 2 per token, vocabulary 32,000;
46.7 B parameters in all, 12.9 B used per token); Fedus et al., "Switch transformers", 2021, for
the router: a product with one column per expert.

Each expert is an operator of its own, so experts can run in parallel on different devices. Load
is balanced: every expert gets the same number of tokens. The balancing loss is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from milp_plan.core import ceil_div
from milp_plan.cost.mesh import kinds

from .architecture import Architecture, Layer
from .blocks import (
    FINE_SPLITS,
    BlockShape,
    add,
    attention_half,
    check_granularity,
    norm,
    number_of_blocks,
    shape,
    titled,
    token_embedding,
)
from .spaces import combine_space, dispatch_space
from .transformer import head

MIXTRAL = "Jiang et al. 2024, Mixtral of experts (arXiv 2401.04088)"
GATED_PRODUCTS = 3
"""Matrices of one expert: gate, up and down."""


@dataclass(frozen=True, slots=True)
class MoEConfig:
    """Sizes of a mixture-of-experts transformer.

    Parameters
    ----------
    depth, width, heads, key_value_heads
        See :class:`.transformer.GPTConfig`.
    hidden
        Inner width of one expert.
    experts, chosen
        Number of experts of a block, and of those that each token visits.
    vocabulary, tokens
        Rows of the token table, length of a sequence.
    """

    depth: int
    width: int
    heads: int
    key_value_heads: int
    hidden: int
    experts: int
    chosen: int
    vocabulary: int
    tokens: int


CONFIGS = {
    "moe-tiny": MoEConfig(1, 512, 8, 2, 1792, 4, 2, vocabulary=8192, tokens=512),
    "moe-mini": MoEConfig(4, 1024, 16, 4, 3584, 8, 2, vocabulary=32000, tokens=1024),
    "mixtral-8x7b": MoEConfig(32, 4096, 32, 8, 14336, 8, 2, vocabulary=32000, tokens=4096),
    "mixtral-block": MoEConfig(1, 4096, 32, 8, 14336, 8, 2, vocabulary=32000, tokens=512),
}
"""Name -> sizes. The tiny and the mini one are ours, for small instances; ``mixtral-block`` is one
block of Mixtral between embedding and head, on a short sequence."""


def moe(name: str, *, granularity: str = "fine", blocks: int | None = None) -> Architecture:
    """Return the mixture-of-experts transformer of that name.

    Parameters
    ----------
    name
        A key of :data:`CONFIGS`.
    granularity
        ``"fine"``, or ``"block"``: attention fused into one layer; router, dispatch, experts and
        combination always stay separate.
    blocks
        Number of blocks, by default that of the configuration.

    Raises
    ------
    InputError
        Unknown granularity, or no blocks.
    """
    check_granularity(granularity)
    config = CONFIGS[name]
    depth = number_of_blocks(config.depth, blocks)
    size = shape(
        config.width,
        config.heads,
        config.tokens,
        hidden=config.hidden,
        key_value_heads=config.key_value_heads,
        bias=False,
    )
    layers = [token_embedding("embed", config.vocabulary, config.width, size.tokens, 0)]
    for i in range(depth):
        layers += attention_half(f"h{i}", layers[-1].name, size, granularity)
        layers += expert_half(f"h{i}", layers[-1].name, size, config.experts, config.chosen)
    layers += head(layers[-1].name, size, config.vocabulary, granularity=granularity)
    published = name.startswith("mixtral") and depth == config.depth
    source = MIXTRAL if published else f"same form as {MIXTRAL}"
    return Architecture(titled(name, blocks), tuple(layers), size.tokens, source)


def expert_half(block: str, entry: str, size: BlockShape, experts: int, chosen: int) -> list[Layer]:
    """Return norm, router, dispatch, experts, combination and residual addition of one block."""
    served = ceil_div(size.tokens * chosen, experts)
    sent = served * experts * size.width
    names = tuple(f"{block}.expert{e}" for e in range(experts))
    parameters = GATED_PRODUCTS * size.width * size.hidden
    layers = [
        norm(f"{block}.ln2", entry, size, block=block),
        Layer(
            f"{block}.router",
            "router",
            (f"{block}.ln2",),
            2 * size.stream * experts,
            size.width * experts,
            size.tokens * experts,
            splits=FINE_SPLITS,
            block=block,
            space=kinds.matmul(1, size.tokens, experts, size.width),
        ),
        Layer(
            f"{block}.dispatch",
            "dispatch",
            (f"{block}.ln2", f"{block}.router"),
            0,
            0,
            sent,
            moved_elements=2 * sent,
            splits=("batch",),
            block=block,
            scattered=True,
            no_gradient=(f"{block}.router",),
            space=dispatch_space(size.tokens, size.width, experts, served),
        ),
    ]
    layers += [
        Layer(
            name,
            "expert",
            (f"{block}.dispatch",),
            2 * served * parameters,
            parameters,
            served * size.width,
            # reads and writes tokens; gate, up and their product are written and read again
            moved_elements=2 * served * size.width + 6 * served * size.hidden,
            saved_elements=GATED_PRODUCTS * served * size.hidden,
            splits=("batch", "tensor"),
            block=block,
            space=kinds.expert(1, served, size.width, size.hidden, matrices=GATED_PRODUCTS),
        )
        for name in names
    ]
    layers += [
        Layer(
            f"{block}.combine",
            "combine",
            (*names, f"{block}.router"),
            2 * sent,
            0,
            size.stream,
            splits=("batch",),
            block=block,
            space=combine_space(size.tokens, size.width, experts, served),
        ),
        add(f"{block}.add2", entry, f"{block}.combine", size, block=block),
    ]
    return layers
