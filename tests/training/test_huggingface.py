"""Published ``config.json`` files give the models that are known by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from milp_plan.core import InputError
from milp_plan.io.files import read_document
from milp_plan.kinds.training import Mlp, model
from milp_plan.kinds.training.api import training_problem
from milp_plan.kinds.training.huggingface import read_config
from milp_plan.kinds.training.problem import MODEL_NOTES
from milp_plan.kinds.training.problem_file import read, to_json
from milp_plan.kinds.training.report import TrainingAnswer
from milp_plan.kinds.training.result import SearchResult

LLAMA3_70B = {
    "model_type": "llama",
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
    "attention_bias": False,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama3-70b": LLAMA3_70B,
    "qwen3-4b": {
        "model_type": "qwen3",
        "hidden_size": 2560,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 9728,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
    },
    "qwen3-30b-a3b": {
        "model_type": "qwen3_moe",
        "hidden_size": 2048,
        "num_hidden_layers": 48,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
        "intermediate_size": 6144,
        "vocab_size": 151936,
    },
    "mixtral-8x7b": {
        "model_type": "mixtral",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "intermediate_size": 14336,
        "vocab_size": 32000,
        "sliding_window": None,
    },
    "deepseek-v3": {
        "model_type": "deepseek_v3",
        "hidden_size": 7168,
        "num_hidden_layers": 61,
        "num_attention_heads": 128,
        "num_key_value_heads": 128,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": 3,
        "num_nextn_predict_layers": 1,
        "topk_method": "noaux_tc",
        "n_group": 8,
        "topk_group": 4,
        "vocab_size": 129280,
    },
    "gpt-oss-20b": {
        "model_type": "gpt_oss",
        "hidden_size": 2880,
        "num_hidden_layers": 24,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "num_local_experts": 32,
        "num_experts_per_tok": 4,
        "intermediate_size": 2880,
        "sliding_window": 128,
        "attention_bias": True,
        "vocab_size": 201088,
    },
    "vit-l": {
        "model_type": "vit",
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
        "patch_size": 16,
        "image_size": 224,
    },
}


def written(folder: Path, members: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(members))
    return path


@pytest.mark.parametrize("name", CONFIGS)
def test_a_published_file_is_the_model_of_that_name(tmp_path: Path, name: str) -> None:
    read, known = read_config(written(tmp_path, CONFIGS[name])), model(name)
    assert read.blocks == known.blocks
    assert read.all_parameters == known.all_parameters


def test_vision_and_text_parts_are_joined(tmp_path: Path) -> None:
    vision = CONFIGS["vit-l"] | {"model_type": "clip_vision_model"}
    text = CONFIGS["qwen3-4b"]
    read = read_config(
        written(tmp_path, {"model_type": "llava", "vision_config": vision, "text_config": text})
    )
    assert [block.frozen for block in read.blocks] == [True] * 24 + [False] * 36


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "rwkv"}, "model_type: found 'rwkv'"),
        ({"hidden_size": None}, "hidden_size: found nothing"),
        ({"num_hidden_layers": "80"}, "num_hidden_layers: found '80'"),
        ({"num_key_value_heads": 7}, "num_key_value_heads: found 7, expected a divisor of"),
        ({"attention_bias": 1}, "attention_bias: found 1"),
    ],
)
def test_defects_name_file_and_member(tmp_path: Path, change: dict, words: str) -> None:
    with pytest.raises(InputError, match="config") as error:
        read_config(written(tmp_path, LLAMA3_70B | change))
    assert words in str(error.value)


def test_a_file_that_is_no_object_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"config\.json"):
        read_config(written(tmp_path, [1]))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="ends too early"):
        read_config(tmp_path / "config.json")


MISTRAL = {
    "model_type": "mistral",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
}


def test_a_sliding_window_is_read_and_its_operations_are_counted(tmp_path: Path) -> None:
    """By hand: of 8,192 tokens each attends to 4,096 at most, half of the first 4,096 squared less.

    Pairs of a causal sequence are s^2 / 2; with a window w they are w (2 s - w) / 2.
    """
    slides = read_config(written(tmp_path, MISTRAL))
    whole = read_config(written(tmp_path, MISTRAL | {"sliding_window": None}))
    assert {block.attention.window for block in slides.blocks} == {4096}
    assert {block.attention.window for block in whole.blocks} == {None}
    pairs = 8192**2 - 4096 * (2 * 8192 - 4096)
    less = 32 * pairs * 32 * (128 + 128)
    assert whole.model_flops(8192) - slides.model_flops(8192) == 3 * less


@pytest.mark.parametrize(
    ("change", "windows"),
    [
        ({}, [None] * 36),
        ({"sliding_window": 4096, "max_window_layers": 34}, [None] * 36),
        (
            {"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 34},
            [None] * 34 + [4096] * 2,
        ),
        (
            {
                "use_sliding_window": True,
                "sliding_window": 512,
                "layer_types": ["full_attention", "sliding_attention"] * 18,
            },
            [None, 512] * 18,
        ),
    ],
)
def test_windows_of_some_blocks(tmp_path: Path, change: dict, windows: list) -> None:
    read = read_config(written(tmp_path, CONFIGS["qwen3-4b"] | change))
    assert [block.attention.window for block in read.blocks] == windows
    assert len({id(block) for block in read.blocks}) == len(set(windows))


@pytest.mark.parametrize(
    ("change", "dense"),
    [
        ({}, set()),
        ({"mlp_only_layers": [0, 47]}, {0, 47}),
        ({"decoder_sparse_step": 2}, set(range(0, 48, 2))),
    ],
)
def test_dense_blocks_among_experts(tmp_path: Path, change: dict, dense: set[int]) -> None:
    read = read_config(written(tmp_path, CONFIGS["qwen3-30b-a3b"] | change))
    kinds = {i for i, block in enumerate(read.blocks) if isinstance(block.feed_forward, Mlp)}
    assert kinds == dense
    assert all(read.blocks[i].feed_forward.inner == 6144 for i in dense)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_key_value_heads": None}, "num_key_value_heads is missing, assumed 64 (as num_att"),
        ({"quantization_config": {"bits": 4}}, "quantization_config is not read: weights and"),
        ({"moe_layer_freq": 1}, None),
        ({}, None),
    ],
)
def test_the_answer_says_what_was_assumed_or_not_read(
    tmp_path: Path, change: dict, words: str | None
) -> None:
    config = written(tmp_path, LLAMA3_70B | change)
    of = training_problem(config, "8x8xH100", global_batch=64)
    assert (words is None) == (of.provenance == {})
    job = tmp_path / "job.json"
    job.write_bytes(to_json(of))
    answer = TrainingAnswer(read(read_document(job, "a job")), SearchResult(), None, {}, ())
    assert ("  model  " in str(answer)) == (words is not None)
    assert (words or "") in str(answer)
    usual = training_problem(written(tmp_path, LLAMA3_70B), "8x8xH100", global_batch=64)
    assert (of.fingerprint == usual.fingerprint) == ("num_key_value_heads" not in change)


def test_a_type_that_is_not_known_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, LLAMA3_70B | {"model_type": "gemma2"})
    with pytest.raises(InputError, match=r"'gemma2', expected one of .* give another model"):
        read_config(path)


def test_a_member_left_to_the_default_of_transformers_is_to_be_added(tmp_path: Path) -> None:
    """The published file of LLaVA 1.5 has no sizes of its decoder."""
    text = {"model_type": "llama", "vocab_size": 32064}
    path = written(tmp_path, {"text_config": text, "vision_config": CONFIGS["vit-l"]})
    with pytest.raises(InputError, match=r"text_config.num_hidden_layers.* add the member"):
        read_config(path)


def test_the_answer_says_how_a_vision_tower_is_read(tmp_path: Path) -> None:
    parts = {"text_config": LLAMA3_70B, "vision_config": CONFIGS["vit-l"]}
    assert read_config(written(tmp_path, parts)).notes == ()
    parts["vision_config"] = CONFIGS["vit-l"] | {"model_type": "pixtral"}
    model = read_config(written(tmp_path, parts))
    (note,) = model.notes
    assert note == "vision_config.model_type 'pixtral' is read as one of clip_vision_model"
    problem = training_problem(model, "8xH100", global_batch=8)
    assert problem.provenance[MODEL_NOTES] == f"24 of 104 blocks are frozen; {note}"


def test_a_gpt2_whose_head_is_not_tied_has_a_head_of_its_own(tmp_path: Path) -> None:
    sizes = {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 1000, "model_type": "gpt2"}
    tied = read_config(written(tmp_path, sizes)).parameters
    untied = read_config(written(tmp_path, sizes | {"tie_word_embeddings": False})).parameters
    assert untied - tied == 64 * 1000
