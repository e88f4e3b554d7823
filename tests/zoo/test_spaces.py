"""Loops and tensors of layers agree with the figures of the layers."""

import pytest

from milp_plan.zoo import architecture


@pytest.mark.parametrize(
    ("name", "granularity"),
    [
        ("gpt-tiny", "fine"),
        ("gpt-tiny", "block"),
        ("moe-tiny", "fine"),
        ("mixtral-8x7b", "block"),
        ("two-tower-tiny", "fine"),
        ("two-tower-tiny", "block"),
        ("resnet50", "fine"),
        ("inception_v3", "fine"),
        ("unet", "fine"),
        ("alexnet", "fine"),
        ("vgg16", "fine"),
    ],
)
def test_figures_agree(name, granularity):
    network = architecture(name, granularity)
    for layer in network.layers:
        space = layer.space
        assert space is not None, layer.name
        assert space.flops == layer.flops, layer.name
        own = 0 if layer.shares else layer.parameters
        assert layer.shares or sum(one.elements for one in space.parameters) == own, layer.name
        assert space.output.elements == layer.output_elements, layer.name
        assert len(space.inputs) == max(1, len(layer.inputs)), layer.name
        for source, tensor in zip(layer.inputs, space.inputs, strict=False):
            made = network.layer(source).space.output
            assert len(made.dims) == len(tensor.dims), layer.name
            larger = network.layer(source).scattered or layer.kind == "crop"
            assert larger or made.elements == tensor.elements, layer.name
