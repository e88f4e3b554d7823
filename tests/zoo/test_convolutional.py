"""AlexNet, VGG-16, ResNet-50 and U-Net against published counts and shapes."""

import pytest

from milp_plan.zoo.convolutional import alexnet, resnet50, unet, vgg16


@pytest.mark.parametrize(
    ("make", "parameters", "multiply_adds", "convolutions", "linear"),
    [
        (alexnet, 61_100_840, 0.71, 5, 3),
        (vgg16, 138_357_544, 15.47, 13, 3),
        (resnet50, 25_557_032, 4.09, 53, 1),
    ],
)
def test_published_counts(make, parameters, multiply_adds, convolutions, linear):
    """Figures of torchvision (``..._Weights.IMAGENET1K_V1.meta``) and of the papers' tables."""
    net = make()
    assert net.parameters == parameters
    assert round(net.flops / 2e9, 2) == multiply_adds
    kinds = [layer.kind for layer in net.layers]
    assert (kinds.count("conv"), kinds.count("linear")) == (convolutions, linear)


def test_last_maps():
    assert alexnet().layer("pool5").output_elements == 256 * 6 * 6
    net = vgg16()
    sides = {1: (64, 112), 2: (128, 56), 3: (256, 28), 4: (512, 14), 5: (512, 7)}
    for block, (width, side) in sides.items():
        assert net.layer(f"block{block}.pool").output_elements == width * side * side


@pytest.mark.parametrize(("make", "size"), [(alexnet, 62), (vgg16, 16)])
def test_image_too_small(make, size):
    with pytest.raises(ValueError, match="does not fit"):
        make(size)


def test_shape_of_resnet():
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


def test_unet_counts_of_figure_1():
    """Sums over figure 1 of arXiv:1505.04597; faithful re-implementations count 31,030,658."""
    net = unet()
    assert net.parameters == 31_030_658
    # (in, out, side of the output) of each 3 x 3 convolution, read off the figure
    threes = [
        *[(1, 64, 570), (64, 64, 568), (64, 128, 282), (128, 128, 280)],
        *[(128, 256, 138), (256, 256, 136), (256, 512, 66), (512, 512, 64)],
        *[(512, 1024, 30), (1024, 1024, 28), (1024, 512, 54), (512, 512, 52)],
        *[(512, 256, 102), (256, 256, 100), (256, 128, 198), (128, 128, 196)],
        *[(128, 64, 390), (64, 64, 388)],
    ]
    # (in, out, side of the input) of each up-convolution
    twos = [(1024, 512, 28), (512, 256, 52), (256, 128, 100), (128, 64, 196)]
    multiply_adds = sum(9 * a * b * n * n for a, b, n in threes)
    multiply_adds += sum(4 * a * b * n * n for a, b, n in twos) + 64 * 2 * 388 * 388
    assert net.flops == 2 * multiply_adds
    parameters = sum(9 * a * b + b for a, b, _ in threes)
    parameters += sum(4 * a * b + b for a, b, _ in twos) + 64 * 2 + 2
    assert net.parameters == parameters


def test_unet_has_23_convolutions():
    """Section 2 of the paper: "In total the network has 23 convolutional layers"."""
    kinds = [layer.kind for layer in unet().layers]
    assert kinds.count("conv") == 23
    assert kinds.count("concat") == kinds.count("crop") == 4


@pytest.mark.parametrize(
    ("depth", "channels", "full", "cropped"),
    [(1, 64, 568, 392), (2, 128, 280, 200), (3, 256, 136, 104), (4, 512, 64, 56)],
)
def test_unet_skip_connections(depth, channels, full, cropped):
    """Sides before and after each copy-and-crop arrow of figure 1."""
    net = unet()
    skip = f"down{depth}.conv2"
    assert net.readers[skip] == (f"down{depth}.pool", f"up{depth}.crop")
    assert net.layer(skip).output_elements == channels * full**2
    crop = net.layer(f"up{depth}.crop")
    assert crop.output_elements == channels * cropped**2
    assert net.moved_elements(crop) == 2 * crop.output_elements
    concat = net.layer(f"up{depth}.concat")
    assert concat.inputs == (crop.name, f"up{depth}.up_conv")
    assert concat.output_elements == 2 * crop.output_elements


def test_unet_output_tile():
    """572 in, 388 out (figure 1)."""
    assert unet().layer("head").output_elements == 2 * 388 * 388


@pytest.mark.parametrize("size", [570, 184, 140, 5])
def test_unet_tile_that_does_not_halve(size):
    with pytest.raises(ValueError, match=r"even number|does not fit"):
        unet(size)
