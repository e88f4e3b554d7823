"""VGG-16 at the granularity of convolutions."""

from __future__ import annotations

from .architecture import Architecture
from .feature_maps import FeatureMaps, Shape, Window

SOURCE = (
    "Simonyan and Zisserman, Very Deep Convolutional Networks for Large-Scale Image Recognition, "
    "ICLR 2015 (arXiv:1409.1556), table 1, configuration D"
)
BLOCKS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Width and number of 3 x 3 convolutions of each block; a pooling ends it."""

HIDDEN = 4096
"""Width of the two fully connected layers before the last."""


def vgg16(image_size: int = 224, classes: int = 1000) -> Architecture:
    """Return VGG-16 with its loss; ReLU runs fused with the layer before it.

    Parameters
    ----------
    image_size
        Height and width of the input in pixels; at least 32.
    classes
        Number of classes.

    Raises
    ------
    ValueError
        The image is smaller than five poolings need.

    Notes
    -----
    torchvision publishes 138,357,544 parameters and 15.47 G multiply-adds at 224 pixels
    (``VGG16_Weights.IMAGENET1K_V1.meta``).
    """
    image = Shape(3, image_size, image_size)
    maps = FeatureMaps(image, norm=False)
    last = ""
    for number, (width, convolutions) in enumerate(BLOCKS, 1):
        block = f"block{number}"
        for index in range(1, convolutions + 1):
            name = f"{block}.conv{index}"
            last = maps.conv(name, last, width, Window.square(3, 1, 1), block)
        last = maps.pool(f"{block}.pool", last, Window.square(2, 2), block)
    for name, width in (("fc6", HIDDEN), ("fc7", HIDDEN), ("fc8", classes)):
        last = maps.linear(name, last, width)
    maps.loss("loss", (last,))
    return Architecture("vgg16", tuple(maps.layers), image.elements, SOURCE)
