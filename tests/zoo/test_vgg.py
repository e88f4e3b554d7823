import pytest

from milp_plan.zoo.vgg import vgg16


def test_published_counts():
    """torchvision, ``VGG16_Weights.IMAGENET1K_V1.meta``: 138,357,544 parameters, 15.47 GFLOPS."""
    net = vgg16()
    assert net.parameters == 138_357_544
    assert round(net.flops / 2e9, 2) == 15.47


def test_sixteen_layers_with_weights():
    """Table 1 of arXiv:1409.1556: 13 convolutions and 3 fully connected layers."""
    kinds = [layer.kind for layer in vgg16().layers]
    assert (kinds.count("conv"), kinds.count("linear"), kinds.count("pool")) == (13, 3, 5)


def test_maps_halve_block_by_block():
    net = vgg16()
    sides = {1: (64, 112), 2: (128, 56), 3: (256, 28), 4: (512, 14), 5: (512, 7)}
    for block, (width, side) in sides.items():
        assert net.layer(f"block{block}.pool").output_elements == width * side * side


def test_image_too_small():
    with pytest.raises(ValueError, match="does not fit"):
        vgg16(16)
