"""Two-tower multimodal models: an image and a text transformer under one contrastive loss.

Source: Radford et al., "Learning transferable visual models from natural language supervision",
2021 (CLIP), and the released ViT-B/32 checkpoint: 151,277,313 parameters, of which 87,849,216 in
the image tower, 63,428,096 in the text tower and one temperature.
"""

from __future__ import annotations

from dataclasses import dataclass

from .architecture import Architecture, Layer
from .blocks import BlockShape, check_granularity, encoder, norm, shape, token_embedding
from .spaces import contrastive_space, patches_space, projection_space

CLIP = "Radford et al. 2021, Learning transferable visual models (CLIP ViT-B/32)"


@dataclass(frozen=True, slots=True)
class TwoTowerConfig:
    """Sizes of a two-tower model.

    Parameters
    ----------
    pixels, patch
        Edge of the square image and of its square patches.
    image_width, image_heads, image_depth
        Image transformer.
    text_width, text_heads, text_depth, text_tokens, vocabulary
        Text transformer.
    shared_width
        Width of the common space.
    """

    pixels: int
    patch: int
    image_width: int
    image_heads: int
    image_depth: int
    text_width: int
    text_heads: int
    text_depth: int
    text_tokens: int
    vocabulary: int
    shared_width: int


PAIRS = 256
"""Number of pairs that the loss compares each pair with; it sets the work per sample."""

CONFIGS = {
    "two-tower-tiny": TwoTowerConfig(64, 16, 192, 3, 1, 128, 2, 1, 32, 4096, 128),
    "clip-vit-b32": TwoTowerConfig(224, 32, 768, 12, 12, 512, 8, 12, 77, 49408, 512),
}
"""Name -> sizes. The tiny one is ours, for small instances."""


def two_tower(name: str, *, granularity: str = "fine") -> Architecture:
    """Return the two-tower model of that name.

    Parameters
    ----------
    name
        A key of :data:`CONFIGS`.
    granularity
        ``"fine"`` or ``"block"``.

    Raises
    ------
    InputError
        Unknown granularity.
    """
    check_granularity(granularity)
    config = CONFIGS[name]
    image = image_tower(config, granularity)
    text = text_tower(config, granularity)
    loss = Layer(
        "loss",
        "loss",
        (image[-1].name, text[-1].name),
        2 * config.shared_width * PAIRS + 10 * PAIRS,
        1,
        1,
        moved_elements=2 * config.shared_width + 4 * PAIRS,
        space=contrastive_space(config.shared_width, PAIRS),
    )
    inputs = 3 * config.pixels**2 + config.text_tokens
    source = CLIP if name.startswith("clip") else f"same form as {CLIP}"
    return Architecture(name, (*image, *text, loss), inputs, source)


def image_tower(config: TwoTowerConfig, granularity: str) -> list[Layer]:
    """Return patch embedding, class token and positions, blocks, projection of the class token."""
    patches = (config.pixels // config.patch) ** 2
    size = shape(config.image_width, config.image_heads, patches + 1)
    per_patch = 3 * config.patch**2
    layers = [
        Layer(
            "image.patches",
            "conv",
            (),
            2 * patches * per_patch * size.width,
            # product without bias, class token, positions
            per_patch * size.width + size.width + size.stream,
            size.stream,
            moved_elements=3 * config.pixels**2 + 2 * size.stream,
            splits=("batch", "column"),
            space=patches_space(patches, per_patch, size.width),
        ),
        norm("image.ln_pre", "image.patches", size),
    ]
    layers += encoder("image.h", "image.ln_pre", size, config.image_depth, granularity)
    return [*layers, *_ending("image", layers[-1].name, size, config.shared_width)]


def text_tower(config: TwoTowerConfig, granularity: str) -> list[Layer]:
    """Return token embedding and positions, blocks, projection of the last token."""
    size = shape(config.text_width, config.text_heads, config.text_tokens)
    layers = [
        token_embedding(
            "text.embed", config.vocabulary, size.width, size.tokens, config.text_tokens
        )
    ]
    layers += encoder("text.h", "text.embed", size, config.text_depth, granularity)
    return [*layers, *_ending("text", layers[-1].name, size, config.shared_width)]


def _ending(tower: str, entry: str, size: BlockShape, shared_width: int) -> list[Layer]:
    """Return norm, then projection of one token into the common space."""
    return [
        norm(f"{tower}.ln_post", entry, size),
        Layer(
            f"{tower}.project",
            "linear",
            (f"{tower}.ln_post",),
            2 * size.width * shared_width,
            size.width * shared_width,
            shared_width,
            moved_elements=size.width + shared_width,
            splits=("batch",),
            space=projection_space(size.tokens, size.width, shared_width),
        ),
    ]
