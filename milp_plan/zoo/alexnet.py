"""AlexNet at the granularity of convolutions."""

from __future__ import annotations

from .architecture import Architecture
from .feature_maps import FeatureMaps, Shape, Window

SOURCE = (
    "Krizhevsky, One weird trick for parallelizing convolutional neural networks, 2014 "
    "(arXiv:1404.5997), one tower; as in torchvision, without dropout"
)
CONVOLUTIONS = (
    (64, Window.square(11, 4, 2), True),
    (192, Window.square(5, 1, 2), True),
    (384, Window.square(3, 1, 1), False),
    (256, Window.square(3, 1, 1), False),
    (256, Window.square(3, 1, 1), True),
)
"""Channels and window of each convolution, and whether a pooling follows."""

POOLING = Window.square(3, 2)
HIDDEN = 4096
"""Width of the two fully connected layers before the last."""


def alexnet(image_size: int = 224, classes: int = 1000) -> Architecture:
    """Return AlexNet with its loss; ReLU runs fused with the layer before it.

    Parameters
    ----------
    image_size
        Height and width of the input in pixels; at least 63. Fully connected layers read the last
        map whole: at 224 pixels torchvision's average pooling to 6 x 6 leaves it as it is.
    classes
        Number of classes.

    Raises
    ------
    ValueError
        The image is smaller than the poolings need.

    Notes
    -----
    torchvision publishes 61,100,840 parameters and 0.71 G multiply-adds at 224 pixels
    (``AlexNet_Weights.IMAGENET1K_V1.meta``).
    """
    image = Shape(3, image_size, image_size)
    maps = FeatureMaps(image, norm=False)
    last = ""
    for number, (channels, window, pooled) in enumerate(CONVOLUTIONS, 1):
        last = maps.conv(f"conv{number}", last, channels, window)
        if pooled:
            last = maps.pool(f"pool{number}", last, POOLING)
    for name, width in (("fc6", HIDDEN), ("fc7", HIDDEN), ("fc8", classes)):
        last = maps.linear(name, last, width)
    maps.loss("loss", (last,))
    return Architecture("alexnet", tuple(maps.layers), image.elements, SOURCE)
