"""Mixture of experts against the published counts of Mixtral 8x7B.

Jiang et al. 2024, "Mixtral of experts": 46.7 B parameters in all, 12.9 B used per token (model
card: 46,702,792,704).
"""

import pytest

from milp_plan.zoo.moe import CONFIGS, moe


@pytest.mark.parametrize("granularity", ["fine", "block"])
def test_mixtral_parameters(granularity):
    assert moe("mixtral-8x7b", granularity=granularity).parameters == 46_702_792_704


def test_mixtral_active_parameters():
    network = moe("mixtral-8x7b")
    experts = sum(layer.parameters for layer in network.layers if layer.kind == "expert")
    active = network.parameters - experts + experts * 2 // 8
    assert active == 12_879_925_248
    assert round(active / 1e9, 1) == 12.9


def test_flops_follow_the_active_parameters():
    config = CONFIGS["mixtral-8x7b"]
    network = moe("mixtral-8x7b")
    active_matrices = 12_879_925_248 - 32_000 * 4_096 - (2 * 32 + 1) * 4_096
    attention = 4 * config.tokens**2 * config.width * config.depth
    products = [
        layer.flops
        for layer in network.layers
        if layer.kind in ("linear", "attention", "expert", "router")
    ]
    assert sum(products) == 2 * config.tokens * active_matrices + attention


def test_every_expert_is_a_layer_that_waits_for_its_tokens_only():
    network = moe("moe-mini")
    experts = [layer for layer in network.layers if layer.block == "h0" and layer.kind == "expert"]
    assert len(experts) == 8
    assert {layer.inputs for layer in experts} == {("h0.dispatch",)}
    # two of eight experts per token: each serves a quarter of the tokens
    assert experts[0].output_elements == 1024 // 4 * 1024
