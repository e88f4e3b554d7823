"""Architectures from the ``config.json`` that Hugging Face publishes with a model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from milp_plan.core import Finding, InputError
from milp_plan.io.defects import syntax_finding
from milp_plan.io.files import read_document

from .architecture import Architecture
from .blocks import Attention, Block, Mlp, Moe, Prediction
from .models import gpt, vision_language, vit
from .rows import MOST_BLOCKS

TITLE = "a Hugging Face config.json"

REMEDY = "give the config.json as it was published"

MISSING = "add the member, which a published file may leave to the default of transformers"

MOST_SIZE = 10**9
"""Every width, length and count at most."""


class _Config:
    """Members of a configuration; what is missing or no number is a finding with its name."""

    def __init__(
        self, members: Mapping[str, Any], file: str, at: str = "", notes: list[str] | None = None
    ) -> None:
        self.members, self.file, self.at = members, file, at
        self.notes = [] if notes is None else notes

    def assume(self, name: str, value: int, why: str) -> int:
        """Return a member, or a value in its place, which the answer then names."""
        if not self.has(name):
            self.notes.append(f"{self.at}{name} is missing, assumed {value} ({why})")
        return self.integer(name, value)

    def integer(self, name: str, default: int | None = None, least: int = 1) -> int:
        value = self.members.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            found = "nothing" if value is None else repr(value)
            remedy = REMEDY if value is not None else MISSING
            self.refuse(name, found, f"a whole number of at least {least}", remedy)
        most = MOST_BLOCKS if name in ("num_hidden_layers", "n_layer") else MOST_SIZE
        if value > most:  # type: ignore[operator]
            self.refuse(name, repr(value)[:40], f"at most {most:,}")
        return int(value)  # type: ignore[arg-type]

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.members.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(name, repr(value), "true or false")
        return bool(value)

    def numbers(self, name: str) -> tuple[int, ...]:
        value = self.members.get(name) or ()
        if not isinstance(value, list | tuple) or not all(type(one) is int for one in value):
            self.refuse(name, repr(value)[:60], "a list of whole numbers")
        return tuple(value)

    def has(self, name: str) -> bool:
        return self.members.get(name) is not None

    def part(self, name: str) -> _Config:
        members = self.members.get(name)
        if not isinstance(members, dict):
            self.refuse(name, "nothing" if members is None else repr(members)[:60], "an object")
        return _Config(members or {}, self.file, f"{self.at}{name}.", self.notes)

    def refuse(self, name: str, found: str, expected: str, remedy: str = REMEDY) -> None:
        raise InputError([Finding(f"{self.at}{name}", found, expected, remedy, self.file)])


def read_config(path: str | Path) -> Architecture:
    """Return the model that a ``config.json`` describes.

    Raises
    ------
    InputError
        The file is no JSON, is of an architecture that is not known, or lacks a member.
    """
    document = read_document(path, TITLE)
    finding = syntax_finding(document.data)
    if finding is not None:
        raise InputError([finding]).in_file(document.file)
    members = json.loads(document.data)
    if not isinstance(members, dict):
        found = type(members).__name__
        raise InputError([Finding("file", found, TITLE, REMEDY, document.file)])
    try:
        config = _Config(members, document.file)
        model = _architecture(config, _name(members, path))
        return replace(model, notes=tuple(dict.fromkeys(config.notes)))
    except InputError as error:
        raise error.in_file(document.file) from None


def _name(members: Mapping[str, Any], path: str | Path) -> str:
    given = members.get("_name_or_path")
    if isinstance(given, str) and given:
        return given.rsplit("/", 1)[-1]
    here = Path(path)
    return here.stem if here.stem != "config" or not here.parent.name else here.parent.name


def _architecture(config: _Config, name: str) -> Architecture:
    for member, consequence in UNREAD.items():
        if config.members.get(member) not in (None, 1):
            config.notes.append(f"{config.at}{member} is not read: {consequence}")
    if config.has("vision_config") and config.has("text_config"):
        text, vision = config.part("text_config"), config.part("vision_config")
        kind = vision.members.get("model_type")
        if kind not in (*TOWERS, None):
            config.notes.append(f"{vision.at}model_type {kind!r} is read as one of {TOWERS[0]}")
        return vision_language(name, _vit(vision, "vision"), _architecture(text, "text"))
    kind = config.members.get("model_type")
    if kind not in READERS:
        expected = f"one of {', '.join(sorted(READERS))}"
        remedy = "give another model, or the sizes of this one as a config.json of such a type"
        config.refuse("model_type", "nothing" if kind is None else repr(kind), expected, remedy)
    return READERS[str(kind)](config, name)


def _gpt2(config: _Config, name: str) -> Architecture:
    model = gpt(
        name,
        config.integer("n_layer"),
        config.integer("n_embd"),
        config.integer("n_head"),
        vocabulary=config.integer("vocab_size"),
        sequence=config.integer("n_positions", config.integer("n_ctx", 1024)),
        inner=config.integer("n_inner", 4 * config.integer("n_embd")),
        source=config.file,
    )
    return replace(model, tied=config.flag("tie_word_embeddings", True))


def _vit(config: _Config, name: str) -> Architecture:
    return vit(
        name,
        config.integer("num_hidden_layers"),
        config.integer("hidden_size"),
        config.integer("num_attention_heads"),
        config.integer("intermediate_size"),
        patch=config.integer("patch_size"),
        image=config.integer("image_size"),
        source=config.file,
    )


def _attention(
    config: _Config,
    *,
    window: int | None = None,
    bias: bool = False,
    output_bias: bool = False,
    query_key_norm: bool = False,
    sinks: bool = False,
) -> Attention:
    heads, hidden = config.integer("num_attention_heads"), config.integer("hidden_size")
    kv_heads = config.assume("num_key_value_heads", heads, "as num_attention_heads")
    if heads % kv_heads:
        expected = f"a divisor of num_attention_heads, {heads}"
        config.refuse("num_key_value_heads", str(kv_heads), expected)
    return Attention(
        heads,
        kv_heads,
        config.integer("head_dim", max(1, hidden // heads)),
        window=window,
        bias=config.flag("attention_bias", bias),
        output_bias=config.flag("attention_bias") if not output_bias else True,
        query_key_norm=query_key_norm,
        sinks=sinks,
    )


def _latent(config: _Config) -> Attention:
    heads = config.integer("num_attention_heads")
    return Attention(
        heads,
        heads,
        config.integer("qk_nope_head_dim"),
        query_rank=config.integer("q_lora_rank", 0, 0),
        kv_rank=config.integer("kv_lora_rank"),
        rope_size=config.integer("qk_rope_head_dim"),
        value_size=config.integer("v_head_dim"),
    )


def _decoder(config: _Config, name: str, blocks: tuple[Block, ...]) -> Architecture:
    modules = config.integer("num_nextn_predict_layers", 0, 0)
    positions = config.integer("max_position_embeddings", 4096)
    return Architecture(
        name,
        blocks,
        config.integer("vocab_size"),
        min(positions, 8192),
        config.flag("tie_word_embeddings"),
        prediction=Prediction(modules, blocks[-1]) if modules else None,
        source=config.file,
    )


def _blocks(
    config: _Config,
    part_of: Callable[[int], Mlp | Moe],
    windows: Sequence[int | None],
    **attention: bool,
) -> tuple[Block, ...]:
    """Return every block; equal ones are one object."""
    hidden = config.integer("hidden_size")
    attentions = {w: _attention(config, window=w, **attention) for w in dict.fromkeys(windows)}
    made: dict[tuple[int | None, Mlp | Moe], Block] = {}
    return tuple(
        made.setdefault((window, part), Block(hidden, attentions[window], part))
        for window, part in ((w, part_of(number)) for number, w in enumerate(windows))
    )


def _windows(config: _Config, window: int, usual: Callable[[int], bool]) -> tuple[int | None, ...]:
    """Return the sliding window of each block; ``usual``: whether it has one by default."""
    layers = config.integer("num_hidden_layers")
    kinds = config.members.get("layer_types")
    if not isinstance(kinds, list) or len(kinds) != layers:
        kinds = ["sliding_attention" if usual(i) else "full_attention" for i in range(layers)]
    return tuple(window or None if kind == "sliding_attention" else None for kind in kinds)


def _window(config: _Config) -> int:
    return config.integer("sliding_window", 0, 0)


def _some_windows(config: _Config) -> tuple[int | None, ...]:
    """Return the windows of a Qwen: of its last blocks, where it uses any."""
    if not config.flag("use_sliding_window"):
        return (None,) * config.integer("num_hidden_layers")
    first = config.integer("max_window_layers", 28, 0)
    return _windows(config, _window(config), lambda number: number >= first)


def _mlp(config: _Config) -> Mlp:
    return Mlp(config.integer("intermediate_size"), bias=config.flag("mlp_bias"))


def _llama(config: _Config, name: str) -> Architecture:
    none = (None,) * config.integer("num_hidden_layers")
    return _decoder(config, name, _blocks(config, lambda _: _mlp(config), none))


def _mistral(config: _Config, name: str) -> Architecture:
    windows = _windows(config, _window(config), lambda _: True)
    return _decoder(config, name, _blocks(config, lambda _: _mlp(config), windows))


def _qwen(config: _Config, name: str, *, query_key_norm: bool) -> Architecture:
    kind = {"query_key_norm": query_key_norm, "bias": not query_key_norm}
    blocks = _blocks(config, lambda _: _mlp(config), _some_windows(config), **kind)
    return _decoder(config, name, blocks)


def _mixtral(config: _Config, name: str) -> Architecture:
    moe = Moe(
        config.integer("num_local_experts"),
        config.integer("num_experts_per_tok"),
        config.integer("intermediate_size"),
    )
    windows = _windows(config, _window(config), lambda _: True)
    return _decoder(config, name, _blocks(config, lambda _: moe, windows))


def _qwen_moe(config: _Config, name: str, *, query_key_norm: bool) -> Architecture:
    moe = Moe(
        config.integer("num_experts"),
        config.integer("num_experts_per_tok"),
        config.integer("moe_intermediate_size"),
        config.integer("shared_expert_intermediate_size", 0, 0),
    )
    dense, step = config.numbers("mlp_only_layers"), config.integer("decoder_sparse_step", 1)

    def part_of(number: int) -> Mlp | Moe:
        return _mlp(config) if number in dense or (number + 1) % step else moe

    kind = {"query_key_norm": query_key_norm, "bias": not query_key_norm}
    blocks = _blocks(config, part_of, _some_windows(config), **kind)
    return _decoder(config, name, blocks)


def _deepseek(config: _Config, name: str) -> Architecture:
    hidden, layers = config.integer("hidden_size"), config.integer("num_hidden_layers")
    inner = config.integer("moe_intermediate_size")
    limited = config.integer("n_group", 1) > 1
    moe = Moe(
        config.integer("n_routed_experts"),
        config.integer("num_experts_per_tok"),
        inner,
        inner * config.integer("n_shared_experts", 0, 0),
        router_bias=config.members.get("topk_method") == "noaux_tc",
        nodes=config.integer("topk_group", 0, 0) if limited else 0,
    )
    attention = _latent(config)
    first = min(layers, config.integer("first_k_dense_replace", 0, 0))
    dense = Block(hidden, attention, Mlp(config.integer("intermediate_size")))
    blocks = (dense,) * first + (Block(hidden, attention, moe),) * (layers - first)
    return _decoder(config, name, blocks)


def _gpt_oss(config: _Config, name: str) -> Architecture:
    moe = Moe(
        config.integer("num_local_experts"),
        config.integer("num_experts_per_tok"),
        config.integer("intermediate_size"),
        bias=True,
        router_bias=True,
    )
    window = config.assume("sliding_window", 128, "as published")
    windows = _windows(config, window, lambda number: number % 2 == 0)
    kind = {"bias": True, "output_bias": True, "sinks": True}
    return _decoder(config, name, _blocks(config, lambda _: moe, windows, **kind))


UNREAD = {
    "quantization_config": "weights and products are planned as without it",
    "moe_layer_freq": "every block after the dense ones is taken to have experts",
}
"""Members that change times or memory and are no part of the model here; why that matters."""

TOWERS = ("clip_vision_model", "vit")
"""Types of vision towers: with a class token, learned positions and a plain feed-forward part."""

READERS: dict[str, Callable[[_Config, str], Architecture]] = {
    "gpt2": _gpt2,
    "vit": _vit,
    "llama": _llama,
    "mistral": _mistral,
    "qwen2": lambda config, name: _qwen(config, name, query_key_norm=False),
    "qwen3": lambda config, name: _qwen(config, name, query_key_norm=True),
    "mixtral": _mixtral,
    "qwen2_moe": lambda config, name: _qwen_moe(config, name, query_key_norm=False),
    "qwen3_moe": lambda config, name: _qwen_moe(config, name, query_key_norm=True),
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "gpt_oss": _gpt_oss,
}
"""``model_type`` -> reader."""
