import pytest

from milp_plan.zoo.inception import inception_v3


def test_published_counts():
    """torchvision, Inception_V3_Weights.IMAGENET1K_V1.meta: _ops 5.713 (inference).

    Parameters without the auxiliary head: Gluon model zoo as listed by imgclsmob, 23,834,568.
    """
    net = inception_v3()
    assert net.parameters == 23_834_568
    assert round(net.flops / 2e9, 3) == 5.713


@pytest.mark.parametrize(
    ("module", "shape", "branches"),
    [
        ("Mixed_5b", (256, 35), 4),
        ("Mixed_5c", (288, 35), 4),
        ("Mixed_5d", (288, 35), 4),
        ("Mixed_6a", (768, 17), 3),
        ("Mixed_6b", (768, 17), 4),
        ("Mixed_6e", (768, 17), 4),
        ("Mixed_7a", (1280, 8), 3),
        ("Mixed_7b", (2048, 8), 6),
        ("Mixed_7c", (2048, 8), 6),
    ],
)
def test_module_outputs(module, shape, branches):
    """Table 1 of the paper, and the shapes in torchvision's forward pass."""
    concat = inception_v3().layer(f"{module}.concat")
    channels, side = shape
    assert concat.output_elements == channels * side * side
    assert len(concat.inputs) == branches
    assert concat.kind == "concat"
    assert concat.block == module


def test_branches_fan_out():
    """Each module reads the concatenation before it once per branch; 94 convolutions in all."""
    net = inception_v3()
    assert sum(layer.kind == "conv" for layer in net.layers) == 94
    assert net.readers["Mixed_6b.concat"] == (
        "Mixed_6c.branch1x1",
        "Mixed_6c.branch7x7_1",
        "Mixed_6c.branch7x7dbl_1",
        "Mixed_6c.avg_pool",
    )
    assert net.readers["Mixed_7b.branch3x3_1"] == (
        "Mixed_7b.branch3x3_2a",
        "Mixed_7b.branch3x3_2b",
    )


def test_too_small_an_image():
    """The smallest image that passes the stem and both reductions has 75 pixels a side."""
    assert inception_v3(75).parameters == 23_834_568
    with pytest.raises(ValueError, match="does not fit"):
        inception_v3(74)
