"""Counts of parameters against published ones."""

from __future__ import annotations

import pytest

from milp_plan.core import InputError
from milp_plan.kinds.training import MODELS, model

EXACT = {
    # the checkpoints' own counts, as published with them
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3-405b": 405_853_388_800,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_630_071_296,
    "deepseek-v3": 671_026_419_200,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "vit-l": 304_326_632,
    "vit-h": 632_045_800,
}

ROUNDED = {
    # billions, as printed in papers
    "gpt3-175b": 174.6,
    "gpt3-6.7b": 6.7,
    "gpt3-13b": 12.9,
    "megatron-1.7b": 1.7,
    "megatron-18b": 18.4,
    "megatron-39b": 39.1,
    "megatron-145b": 145.6,
    "megatron-530b": 529.6,
    "megatron-1t": 1008.0,
    "deepseek-v2-lite": 15.7,
    "deepseek-v2": 236,
}

ACTIVE = {
    "mixtral-8x7b": 12.9,
    "mixtral-8x22b": 39.1,
    "qwen3-30b-a3b": 3.3,
    "qwen3-235b-a22b": 22.2,
    "deepseek-v2": 21.0,
    "deepseek-v3": 37.0,
    "gpt-oss-120b": 5.7,
}


@pytest.mark.parametrize(("name", "count"), EXACT.items())
def test_parameters_are_those_of_the_published_checkpoints(name: str, count: int) -> None:
    assert model(name).parameters == count


@pytest.mark.parametrize(("name", "billions"), ROUNDED.items())
def test_parameters_are_those_of_the_papers(name: str, billions: float) -> None:
    digits = len(str(billions).partition(".")[2])
    assert abs(model(name).parameters / 1e9 - billions) <= 1.01 * 0.5 * 10**-digits


@pytest.mark.parametrize(("name", "billions"), ACTIVE.items())
def test_a_token_visits_as_many_parameters_as_published(name: str, billions: float) -> None:
    assert model(name).active_parameters / 1e9 == pytest.approx(billions, rel=0.03)


def test_multi_token_prediction_of_deepseek_v3_has_14_billion_parameters() -> None:
    """The release counts 14 B for the module with its copies of embedding and head (1.85 B)."""
    deepseek = model("deepseek-v3")
    assert deepseek.prediction is not None
    copies = 2 * deepseek.vocabulary * deepseek.hidden
    assert (deepseek.prediction.parameters + copies) / 1e9 == pytest.approx(14.0, rel=0.05)


def test_matrices_of_vit_22b_have_the_published_21743_million_parameters() -> None:
    tower = model("vit-22b")
    block = tower.blocks[0]
    assert block.token_matrix_parameters * len(tower.blocks) // 10**6 == 21_743


def test_every_name_has_a_model_with_a_source() -> None:
    assert len(MODELS) > 30
    for name in MODELS:
        entry = model(name)
        assert entry.name == name
        assert entry.source


def test_flops_of_gpt3_are_those_of_the_closed_form() -> None:
    """Narayanan et al.: 72 b s l h^2 (1 + s/6h + V/12lh), which counts attention in full."""
    gpt = model("gpt3-175b")
    length, layers, hidden = 2048, 96, 12288
    closed = 72 * length * layers * hidden**2
    causal_half = 6 * length**2 * hidden * layers
    head = 6 * length * hidden * gpt.vocabulary
    assert gpt.model_flops(length) == closed + causal_half + head


def test_frozen_blocks_with_nothing_trained_before_them_run_forward_alone() -> None:
    llava, llama = model("llava-7b"), model("llama2-7b")
    tower = llava.blocks[0]
    assert tower.frozen
    assert llava.model_flops(4096) - llama.model_flops(4096) == 24 * tower.flops(4096)


@pytest.mark.parametrize("name", ["Llama-3-70B", "llama3_70b"])
def test_names_are_read_as_people_write_them(name: str) -> None:
    assert model(name).name == "llama3-70b"


def test_an_unknown_name_is_refused_with_the_near_ones() -> None:
    with pytest.raises(InputError, match="llama3-70b"):
        model("llama3-71b")
