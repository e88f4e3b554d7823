import pytest

from milp_plan.zoo.alexnet import alexnet


def test_published_counts():
    """torchvision, ``AlexNet_Weights.IMAGENET1K_V1.meta``: 61,100,840 parameters, 0.71 GFLOPS."""
    net = alexnet()
    assert net.parameters == 61_100_840
    assert round(net.flops / 2e9, 2) == 0.71


def test_eight_layers_with_weights():
    """arXiv:1404.5997: five convolutions and three fully connected layers."""
    kinds = [layer.kind for layer in alexnet().layers]
    assert (kinds.count("conv"), kinds.count("linear"), kinds.count("pool")) == (5, 3, 3)


def test_last_map_is_six_by_six():
    assert alexnet().layer("pool5").output_elements == 256 * 6 * 6


def test_image_too_small():
    with pytest.raises(ValueError, match="does not fit"):
        alexnet(62)
