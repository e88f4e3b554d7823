from milp_plan.zoo.resnet import resnet50


def test_published_counts():
    """torchvision, ResNet50_Weights.IMAGENET1K_V1.meta: num_params 25557032, _ops 4.089."""
    net = resnet50()
    assert net.parameters == 25_557_032
    assert round(net.flops / 2e9, 3) == 4.089


def test_shape_of_the_network():
    """Table 1 of the paper: 53 convolutions (16 blocks of 3, the stem, 4 projections), 1 linear."""
    net = resnet50()
    kinds = [layer.kind for layer in net.layers]
    assert kinds.count("conv") == 53
    assert kinds.count("linear") == 1
    assert kinds.count("add") == 16
    assert kinds[-1] == "loss"
    sizes = {f"layer{stage}.0.add": size for stage, size in enumerate((56, 28, 14, 7), 1)}
    for name, size in sizes.items():
        channels = 256 * 56 // size
        assert net.layer(name).output_elements == channels * size * size


def test_shortcuts():
    """The first block of a stage projects, the others add their own input."""
    net = resnet50()
    assert net.layer("layer1.0.add").inputs == ("layer1.0.conv3", "layer1.0.downsample")
    assert net.layer("layer1.0.downsample").inputs == ("maxpool",)
    assert net.layer("layer3.4.add").inputs == ("layer3.4.conv3", "layer3.3.add")
    assert net.readers["layer3.3.add"] == ("layer3.4.conv1", "layer3.4.add")
    assert {layer.block for layer in net.layers if layer.block} == {
        f"layer{stage}.{index}"
        for stage, blocks in enumerate((3, 4, 6, 3), 1)
        for index in range(blocks)
    }


def test_size_and_classes():
    """Convolutions scale with the pixels, parameters only with the classes."""
    small, large = resnet50(224, 10), resnet50(448, 10)
    assert small.parameters == large.parameters == 25_557_032 - 990 * 2049
    fc = 2 * 2048 * 10
    assert large.flops - fc == 4 * (small.flops - fc)
