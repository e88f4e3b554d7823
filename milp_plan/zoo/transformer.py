"""GPT-style transformers.

Sources: Radford et al., "Language models are unsupervised multitask learners", 2019 (GPT-2: layers,
widths, vocabulary of 50,257, context of 1,024). Parameter counts of the released checkpoints, with
tied embeddings: small 124,439,808; medium 354,823,168; large 774,030,080; xl 1,557,611,200.
"""

from __future__ import annotations

from dataclasses import dataclass

from milp_plan.cost.mesh import kinds

from .architecture import Architecture, Layer
from .blocks import (
    BlockShape,
    check_granularity,
    encoder,
    norm,
    number_of_blocks,
    shape,
    titled,
    token_embedding,
    with_norm,
)

GPT2 = "Radford et al. 2019, Language models are unsupervised multitask learners (GPT-2)"


@dataclass(frozen=True, slots=True)
class GPTConfig:
    """Sizes of a GPT.

    Parameters
    ----------
    depth, width, heads
        Blocks, model width, attention heads.
    vocabulary, positions
        Rows of the token and position tables.
    """

    depth: int
    width: int
    heads: int
    vocabulary: int = 50257
    positions: int = 1024


CONFIGS = {
    "gpt-tiny": GPTConfig(1, 256, 4, vocabulary=8192, positions=256),
    "gpt-mini": GPTConfig(4, 512, 8, vocabulary=16384, positions=512),
    "gpt2-small": GPTConfig(12, 768, 12),
    "gpt2-medium": GPTConfig(24, 1024, 16),
    "gpt2-large": GPTConfig(36, 1280, 20),
    "gpt2-xl": GPTConfig(48, 1600, 25),
}
"""Name -> sizes. The tiny and the mini one are ours, for small instances."""


def gpt(name: str, *, granularity: str = "fine", blocks: int | None = None) -> Architecture:
    """Return the GPT of that name.

    Parameters
    ----------
    name
        A key of :data:`CONFIGS`.
    granularity
        ``"fine"`` or ``"block"``.
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
    size = shape(config.width, config.heads, config.positions)
    layers = [
        token_embedding("embed", config.vocabulary, config.width, size.tokens, config.positions)
    ]
    layers += encoder("h", "embed", size, depth, granularity)
    layers += head(layers[-1].name, size, config.vocabulary, granularity=granularity, tied="embed")
    published = name.startswith("gpt2") and depth == config.depth
    source = GPT2 if published else f"same form as {GPT2}"
    return Architecture(titled(name, blocks), tuple(layers), size.tokens, source)


def head(
    entry: str, size: BlockShape, vocabulary: int, *, granularity: str, tied: str | None = None
) -> list[Layer]:
    """Return last norm, projection to the vocabulary, and cross-entropy loss over it."""
    logits = size.tokens * vocabulary
    projection = Layer(
        "head",
        "linear",
        ("ln_f",),
        2 * size.tokens * size.width * vocabulary,
        0 if tied else size.width * vocabulary,
        logits,
        splits=("batch", "column"),
        shares=tied,
        space=kinds.matmul(1, size.tokens, vocabulary, size.width),
    )
    layers = [norm("ln_f", entry, size), projection]
    if granularity == "block":
        layers = [with_norm(projection, layers[0])]
    loss = Layer(
        "loss",
        "loss",
        ("head",),
        5 * logits,
        0,
        1,
        splits=("batch", "row"),
        space=kinds.cross_entropy(1, size.tokens, vocabulary),
    )
    return [*layers, loss]
