"""Two towers against the released CLIP ViT-B/32 checkpoint (Radford et al. 2021).

151,277,313 parameters: image tower 87,849,216, text tower 63,428,096, one temperature. The image
tower takes about 4.4 G multiply-adds per image of 224 x 224 (the figure commonly reported for
ViT-B/32; 50 tokens).
"""

import pytest

from milp_plan.zoo.two_tower import two_tower


@pytest.mark.parametrize("granularity", ["fine", "block"])
def test_parameters(granularity):
    network = two_tower("clip-vit-b32", granularity=granularity)
    towers = {
        tower: sum(layer.parameters for layer in network.layers if layer.name.startswith(tower))
        for tower in ("image", "text")
    }
    assert towers == {"image": 87_849_216, "text": 63_428_096}
    assert network.parameters == 151_277_313


def test_image_flops():
    network = two_tower("clip-vit-b32")
    flops = sum(layer.flops for layer in network.layers if layer.name.startswith("image"))
    assert 4.3e9 < flops / 2 < 4.5e9


def test_towers_meet_only_in_the_loss():
    network = two_tower("two-tower-tiny")
    for layer in network.layers[:-1]:
        tower = layer.name.split(".")[0]
        assert all(name.startswith(tower) for name in layer.inputs)
    assert network.layers[-1].inputs == ("image.project", "text.project")
