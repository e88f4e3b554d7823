"""GPT against published parameter counts and flop formulas.

Parameters: the released GPT-2 checkpoints (Radford et al. 2019). Flops: Kaplan et al. 2020,
"Scaling laws for neural language models", table 1 (2N per token, N without embeddings, plus
attention), and Narayanan et al. 2021, "Efficient large-scale language model training on GPU
clusters using Megatron-LM", equation 3 before its factor 4 for backward and recomputation.
"""

import pytest

from milp_plan.core import InputError
from milp_plan.zoo.transformer import CONFIGS, gpt

PUBLISHED = {
    "gpt2-small": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
}
PRODUCTS = ("linear", "attention")


@pytest.mark.parametrize("granularity", ["fine", "block"])
@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_parameters(name, granularity):
    assert gpt(name, granularity=granularity).parameters == PUBLISHED[name]


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_flops_of_megatron(name):
    config = CONFIGS[name]
    s, h, layers, v = config.positions, config.width, config.depth, config.vocabulary
    exact = 24 * s * layers * h**2 + 4 * layers * s**2 * h + 2 * s * h * v
    network = gpt(name)
    assert sum(layer.flops for layer in network.layers if layer.kind in PRODUCTS) == exact
    # norms, activations and the loss are small beside it, except in the narrow tiny model
    assert network.flops - exact < exact // (20 if name == "gpt-tiny" else 50)


def test_flops_of_kaplan():
    config = CONFIGS["gpt2-xl"]
    tokens, h = config.positions, config.width
    without_embeddings = 12 * config.depth * h**2
    attention = 2 * (2 * config.depth * tokens * h)
    blocks = [layer for layer in gpt("gpt2-xl").layers if layer.kind in PRODUCTS and layer.block]
    assert sum(layer.flops for layer in blocks) == tokens * (2 * without_embeddings + attention)


@pytest.mark.parametrize("name", ["gpt-tiny", "gpt2-small"])
def test_granularities_do_the_same_work(name):
    fine, block = gpt(name), gpt(name, granularity="block")
    assert fine.flops == block.flops
    weights = [sum(layer.flops_with_weights for layer in a.layers) for a in (fine, block)]
    assert weights[0] == weights[1]
    assert len(block.layers) == 2 * CONFIGS[name].depth + 3
    assert len(fine.layers) == 10 * CONFIGS[name].depth + 4


def test_fused_layers_save_what_lies_between():
    """Korthikanti et al. 2022: without scores (flash attention), 16 s h elements per block."""
    config = CONFIGS["gpt2-small"]
    network = gpt("gpt2-small", granularity="block")
    halves = [layer for layer in network.layers if layer.block == "h0"]
    inputs = 2 * config.positions * config.width
    saved = sum(layer.saved_elements for layer in halves) + inputs
    assert saved == 16 * config.positions * config.width


def test_unknown_granularity():
    with pytest.raises(InputError, match="fine, block"):
        gpt("gpt2-small", granularity="sandy")
