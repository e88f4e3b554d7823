"""The original U-Net at the granularity of convolutions."""

from __future__ import annotations

from .architecture import Architecture
from .feature_maps import FeatureMaps, Shape, Window

SOURCE = (
    "Ronneberger, Fischer, Brox, U-Net: Convolutional Networks for Biomedical Image "
    "Segmentation, MICCAI 2015 (arXiv:1505.04597), figure 1"
)
WIDTHS = (64, 128, 256, 512, 1024)
"""Channels at each depth, from the top."""

_VALID = Window.square(3)


def unet(image_size: int = 572, classes: int = 2) -> Architecture:
    """Return the U-Net of the paper with its loss: one grey channel in, unpadded convolutions.

    ReLU runs fused with the convolution before it; there is no batch norm. Each *copy and crop*
    arrow of figure 1 is a layer, so that a skip connection carries no more than is read. An
    up-convolution is a transposed 2 x 2 convolution of stride 2.

    Parameters
    ----------
    image_size
        Height and width of the input tile; each pooling must meet an even size (572, 188, ...).
    classes
        Number of classes.

    Raises
    ------
    ValueError
        The tile size does not go through the four poolings without a rest.

    Notes
    -----
    31,030,658 parameters: the sum over figure 1 of ``k * k * in * out + out`` for its 23
    convolutions (18 of 3 x 3, 4 of 2 x 2, one of 1 x 1), which is what counts of faithful
    re-implementations give. The often quoted 31,031,685 belongs to a padded variant with one more
    3 x 3 convolution and a single output channel.
    """
    image = Shape(1, image_size, image_size)
    maps = FeatureMaps(image, norm=False)
    last = ""
    skips = []
    for depth, width in enumerate(WIDTHS, 1):
        last = _twice(maps, f"down{depth}", last, width)
        if depth < len(WIDTHS):
            if maps.shapes[last].height < 2 or maps.shapes[last].height % 2:
                raise ValueError(
                    f"image_size {image_size} leaves {maps.shapes[last].height} pixels at depth "
                    f"{depth}, expected an even number of at least 2; 572 and 188 are good sizes"
                )
            skips.append(last)
            last = maps.pool(f"down{depth}.pool", last, Window.square(2, 2), f"down{depth}")
    for depth in range(len(skips), 0, -1):
        block = f"up{depth}"
        width = WIDTHS[depth - 1]
        raised = maps.up_conv(f"{block}.up_conv", last, width, block)
        skip = maps.crop(f"{block}.crop", skips[depth - 1], raised, block)
        last = maps.concat(f"{block}.concat", (skip, raised), block)
        last = _twice(maps, block, last, width)
    last = maps.conv("head", last, classes, Window.square(1))
    maps.loss("loss", (last,))
    return Architecture("unet", tuple(maps.layers), image.elements, SOURCE)


def _twice(maps: FeatureMaps, block: str, source: str, width: int) -> str:
    last = maps.conv(f"{block}.conv1", source, width, _VALID, block)
    return maps.conv(f"{block}.conv2", last, width, _VALID, block)
