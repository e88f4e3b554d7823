"""ResNet-50 at the granularity of convolutions."""

from __future__ import annotations

from .architecture import Architecture
from .feature_maps import FeatureMaps, Shape, Window

SOURCE = (
    "He et al., Deep Residual Learning for Image Recognition, CVPR 2016 (arXiv:1512.03385), "
    "table 1; as in torchvision (stride in the 3 x 3 convolution)"
)
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Width and number of bottleneck blocks of each stage; a block puts out four times its width."""


def resnet50(image_size: int = 224, classes: int = 1000) -> Architecture:
    """Return ResNet-50 with its loss.

    Batch norm and ReLU run fused with the convolution before them, the last ReLU of a block with
    the residual sum. Layers bear the names of torchvision's modules.

    Parameters
    ----------
    image_size
        Height and width of the input in pixels.
    classes
        Number of classes.

    Notes
    -----
    torchvision publishes 25,557,032 parameters and 4.09 G multiply-adds at 224 pixels
    (``ResNet50_Weights.IMAGENET1K_V2.meta``).
    """
    image = Shape(3, image_size, image_size)
    maps = FeatureMaps(image, norm=True)
    last = maps.conv("conv1", "", 64, Window.square(7, 2, 3))
    last = maps.pool("maxpool", last, Window.square(3, 2, 1))
    for stage, (width, blocks) in enumerate(STAGES, 1):
        for index in range(blocks):
            stride = 2 if index == 0 and stage > 1 else 1
            last = _bottleneck(maps, f"layer{stage}.{index}", last, width, stride)
    last = maps.linear("fc", maps.global_pool("avgpool", last), classes)
    maps.loss("loss", (last,))
    return Architecture("resnet50", tuple(maps.layers), image.elements, SOURCE)


def _bottleneck(maps: FeatureMaps, block: str, source: str, width: int, stride: int) -> str:
    """Add 1 x 1, 3 x 3, 1 x 1 beside a shortcut, projected where the shape changes."""
    out = maps.conv(f"{block}.conv1", source, width, Window.square(1), block)
    out = maps.conv(f"{block}.conv2", out, width, Window.square(3, stride, 1), block)
    out = maps.conv(f"{block}.conv3", out, 4 * width, Window.square(1), block)
    shortcut = source
    if maps.shapes[source] != maps.shapes[out]:
        shortcut = maps.conv(
            f"{block}.downsample", source, 4 * width, Window.square(1, stride), block
        )
    return maps.add(f"{block}.add", (out, shortcut), block)
