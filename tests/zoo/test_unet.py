import pytest

from milp_plan.zoo.unet import unet


def test_counts_of_figure_1():
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


def test_23_convolutions():
    """Section 2 of the paper: "In total the network has 23 convolutional layers"."""
    kinds = [layer.kind for layer in unet().layers]
    assert kinds.count("conv") == 23
    assert kinds.count("concat") == kinds.count("crop") == 4


@pytest.mark.parametrize(
    ("depth", "channels", "full", "cropped"),
    [(1, 64, 568, 392), (2, 128, 280, 200), (3, 256, 136, 104), (4, 512, 64, 56)],
)
def test_skip_connections(depth, channels, full, cropped):
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


def test_output_tile():
    """572 in, 388 out (figure 1)."""
    assert unet().layer("head").output_elements == 2 * 388 * 388


@pytest.mark.parametrize("size", [570, 184, 140, 5])
def test_tile_that_does_not_halve(size):
    with pytest.raises(ValueError, match=r"even number|does not fit"):
        unet(size)
