"""Transformers by name, each with the paper or model card that its figures come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from functools import partial

from milp_plan.core import Finding, InputError

from .architecture import Architecture
from .blocks import Attention, Block, Mlp, Moe, Prediction


def gpt(
    name: str,
    layers: int,
    hidden: int,
    heads: int,
    *,
    vocabulary: int = 50257,
    sequence: int = 2048,
    inner: int | None = None,
    source: str = "Brown et al., arXiv:2005.14165, table 2.1",
) -> Architecture:
    """Return a GPT: layer norms with biases, learned positions, tied head."""
    attention = Attention(heads, heads, hidden // heads, bias=True, output_bias=True)
    block = Block(hidden, attention, Mlp(inner or 4 * hidden, gated=False, bias=True), True)
    return Architecture(
        name, (block,) * layers, vocabulary, sequence, True, sequence, source=source
    )


def llama(
    name: str,
    layers: int,
    hidden: int,
    heads: tuple[int, int],
    inner: int,
    *,
    vocabulary: int,
    sequence: int,
    source: str,
    head_size: int | None = None,
    tied: bool = False,
    query_key_norm: bool = False,
) -> Architecture:
    """Return a decoder of the Llama family; ``heads`` of queries, and of keys and values."""
    size = head_size or hidden // heads[0]
    attention = Attention(*heads, size, query_key_norm=query_key_norm)
    block = Block(hidden, attention, Mlp(inner))
    return Architecture(name, (block,) * layers, vocabulary, sequence, tied, source=source)


def mixture(
    name: str,
    layers: int,
    hidden: int,
    attention: Attention,
    moe: Moe,
    *,
    vocabulary: int,
    sequence: int,
    source: str,
) -> Architecture:
    """Return a decoder whose every feed-forward part is the same mixture of experts."""
    block = Block(hidden, attention, moe)
    return Architecture(name, (block,) * layers, vocabulary, sequence, source=source)


def deepseek(
    name: str,
    layers: tuple[int, int],
    hidden: int,
    attention: Attention,
    parts: tuple[Mlp, Moe],
    *,
    vocabulary: int,
    prediction: int = 0,
    sequence: int = 4096,
    source: str,
) -> Architecture:
    """Return a decoder with latent attention; the first ``layers[0]`` blocks are dense."""
    dense, routed = (Block(hidden, attention, part) for part in parts)
    blocks = (dense,) * layers[0] + (routed,) * layers[1]
    further = Prediction(prediction, routed) if prediction else None
    return Architecture(name, blocks, vocabulary, sequence, prediction=further, source=source)


def gpt_oss(name: str, layers: int, experts: int) -> Architecture:
    """Return a GPT-OSS: windows of 128 tokens in every second block, biases, sinks."""
    source = "OpenAI, gpt-oss model card, arXiv:2508.10925, table 1"
    moe = Moe(experts, 4, 2880, bias=True, router_bias=True)
    windowed, full = (Block(2880, _oss_attention(window), moe) for window in (128, None))
    blocks = tuple(full if i % 2 else windowed for i in range(layers))
    return Architecture(name, blocks, 201088, 4096, source=source)


def _oss_attention(window: int | None) -> Attention:
    return Attention(64, 8, 64, window=window, bias=True, output_bias=True, sinks=True)


def vit(
    name: str,
    layers: int,
    hidden: int,
    heads: int,
    inner: int,
    *,
    patch: int,
    image: int = 224,
    classes: int = 1000,
    source: str = "Dosovitskiy et al., arXiv:2010.11929, table 1",
) -> Architecture:
    """Return a vision transformer with a class token and a linear classifier."""
    tokens = (image // patch) ** 2 + 1
    attention = Attention(heads, heads, hidden // heads, causal=False, bias=True, output_bias=True)
    block = Block(hidden, attention, Mlp(inner, gated=False, bias=True), True)
    patches = (3 * patch**2 + 1) * hidden + hidden
    return Architecture(
        name,
        (block,) * layers,
        vocabulary=0,
        sequence=tokens,
        positions=tokens,
        input_parameters=patches,
        output_classes=classes,
        source=source,
    )


def vision_language(
    name: str, tower: Architecture, decoder: Architecture, *, frozen: bool = True
) -> Architecture:
    """Return a decoder that reads the output of a vision tower through a two-layer projector.

    The projector's first matrix maps to the decoder's width, its second keeps it (LLaVA 1.5,
    arXiv:2310.03744). The tower's classifier is dropped; what is before its blocks is frozen with
    it.
    """
    before = tower.embedding_parameters
    projector = (tower.hidden + 1) * decoder.hidden + (decoder.hidden + 1) * decoder.hidden
    seen = replace(
        tower.blocks[0],
        tokens=tower.sequence,
        frozen=frozen,
        needs_input_gradient=not frozen,
    )
    return Architecture(
        name,
        (seen,) * len(tower.blocks) + decoder.blocks,
        decoder.vocabulary,
        decoder.sequence,
        decoder.tied,
        decoder.positions,
        before + projector,
        prediction=decoder.prediction,
        source=f"{tower.source}; {decoder.source}; projector of arXiv:2310.03744",
    )


def _llava(name: str, decoder: str) -> Architecture:
    tower = vit("vit-l", 24, 1024, 16, 4096, patch=14, image=336)
    return vision_language(name, tower, model(decoder))


_LLAMA2 = "Touvron et al., arXiv:2307.09288"
_LLAMA3 = "Grattafiori et al., arXiv:2407.21783, table 3"
_QWEN3 = "Yang et al., arXiv:2505.09388, tables 1 and 2, and the configurations published with it"
_MIXTRAL = "Jiang et al., arXiv:2401.04088, and the configurations published by Mistral AI"
_DEEPSEEK = "DeepSeek-AI, arXiv:2412.19437, section 4.2"
_MEGATRON = "Narayanan et al., arXiv:2104.04473, table 1"

_llama2 = partial(llama, vocabulary=32000, sequence=4096, source=_LLAMA2)
_llama3 = partial(llama, vocabulary=128256, sequence=8192, source=_LLAMA3)
_qwen3 = partial(
    llama, vocabulary=151936, sequence=4096, source=_QWEN3, head_size=128, query_key_norm=True
)
_sc21 = partial(gpt, vocabulary=51200, source=_MEGATRON)
_qwen3_moe = partial(mixture, vocabulary=151936, sequence=4096, source=_QWEN3)
_mixtral = partial(mixture, source=_MIXTRAL)

MODELS: dict[str, Callable[[str], Architecture]] = {
    "gpt3-6.7b": lambda n: gpt(n, 32, 4096, 32),
    "gpt3-13b": lambda n: gpt(n, 40, 5140, 40, inner=20560),
    "gpt3-175b": lambda n: gpt(n, 96, 12288, 96),
    "megatron-1.7b": lambda n: _sc21(n, 24, 2304, 24),
    "megatron-18b": lambda n: _sc21(n, 40, 6144, 48),
    "megatron-39b": lambda n: _sc21(n, 48, 8192, 64),
    "megatron-145b": lambda n: _sc21(n, 80, 12288, 96),
    "megatron-530b": lambda n: _sc21(n, 105, 20480, 128),
    "megatron-1t": lambda n: _sc21(n, 128, 25600, 160),
    "llama2-7b": lambda n: _llama2(n, 32, 4096, (32, 32), 11008),
    "llama2-13b": lambda n: _llama2(n, 40, 5120, (40, 40), 13824),
    "llama2-70b": lambda n: _llama2(n, 80, 8192, (64, 8), 28672),
    "llama3-8b": lambda n: _llama3(n, 32, 4096, (32, 8), 14336),
    "llama3-70b": lambda n: _llama3(n, 80, 8192, (64, 8), 28672),
    "llama3-405b": lambda n: _llama3(n, 126, 16384, (128, 8), 53248),
    "qwen3-0.6b": lambda n: _qwen3(n, 28, 1024, (16, 8), 3072, tied=True),
    "qwen3-1.7b": lambda n: _qwen3(n, 28, 2048, (16, 8), 6144, tied=True),
    "qwen3-4b": lambda n: _qwen3(n, 36, 2560, (32, 8), 9728, tied=True),
    "qwen3-8b": lambda n: _qwen3(n, 36, 4096, (32, 8), 12288),
    "qwen3-14b": lambda n: _qwen3(n, 40, 5120, (40, 8), 17408),
    "qwen3-32b": lambda n: _qwen3(n, 64, 5120, (64, 8), 25600),
    "qwen3-30b-a3b": lambda n: _qwen3_moe(
        n, 48, 2048, Attention(32, 4, 128, query_key_norm=True), Moe(128, 8, 768)
    ),
    "qwen3-235b-a22b": lambda n: _qwen3_moe(
        n, 94, 4096, Attention(64, 4, 128, query_key_norm=True), Moe(128, 8, 1536)
    ),
    "mixtral-8x7b": lambda n: _mixtral(
        *(n, 32, 4096, Attention(32, 8, 128), Moe(8, 2, 14336)), vocabulary=32000, sequence=4096
    ),
    "mixtral-8x22b": lambda n: _mixtral(
        *(n, 56, 6144, Attention(48, 8, 128), Moe(8, 2, 16384)), vocabulary=32768, sequence=4096
    ),
    "deepseek-v2-lite": lambda n: deepseek(
        n,
        (1, 26),
        2048,
        _latent(16, 0),
        (Mlp(10944), Moe(64, 6, 1408, shared_inner=2816)),
        vocabulary=102400,
        source="DeepSeek-AI, arXiv:2405.04434, appendix B",
    ),
    "deepseek-v2": lambda n: deepseek(
        n,
        (1, 59),
        5120,
        _latent(128, 1536),
        (Mlp(12288), Moe(160, 6, 1536, shared_inner=3072, nodes=3)),
        vocabulary=102400,
        source="DeepSeek-AI, arXiv:2405.04434, section 3.1",
    ),
    "deepseek-v3": lambda n: deepseek(
        n,
        (3, 58),
        7168,
        _latent(128, 1536),
        (Mlp(18432), Moe(256, 8, 2048, shared_inner=2048, router_bias=True, nodes=4)),
        vocabulary=129280,
        prediction=1,
        source=_DEEPSEEK,
    ),
    "gpt-oss-20b": lambda n: gpt_oss(n, 24, 32),
    "gpt-oss-120b": lambda n: gpt_oss(n, 36, 128),
    "vit-l": lambda n: vit(n, 24, 1024, 16, 4096, patch=16),
    "vit-h": lambda n: vit(n, 32, 1280, 16, 5120, patch=14),
    "vit-22b": lambda n: vit(
        *(n, 48, 6144, 48, 24576),
        patch=14,
        source="Dehghani et al., arXiv:2302.05442, table 1",
    ),
    "llava-7b": lambda n: _llava(n, "llama2-7b"),
    "llava-13b": lambda n: _llava(n, "llama2-13b"),
}
"""Name -> architecture."""


def _latent(heads: int, query_rank: int) -> Attention:
    return Attention(
        heads, heads, 128, query_rank=query_rank, kv_rank=512, rope_size=64, value_size=128
    )


def model(name: str) -> Architecture:
    """Return a model by name.

    Raises
    ------
    InputError
        No model of that name; the finding says which is near, or lists them.
    """
    key = name.lower().replace("_", "-").replace("llama-", "llama").replace("gpt-3", "gpt3")
    if key in MODELS:
        return MODELS[key](key)
    near = get_close_matches(key, MODELS, 3, 0.5)
    expected = f"one of {', '.join(near or sorted(MODELS))}"
    remedy = "correct the name, or give a config.json with --model-file"
    raise InputError([Finding("model", repr(name), expected, remedy)])
