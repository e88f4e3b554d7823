"""AlexNet, VGG-16, ResNet-50 and U-Net at the granularity of convolutions."""

from __future__ import annotations

from .architecture import Architecture
from .feature_maps import FeatureMaps, MapShape, Window

HIDDEN = 4096
"""Width of the fully connected layers of AlexNet and VGG-16 before the last one."""

ALEXNET = (
    "Krizhevsky, One weird trick for parallelizing convolutional neural networks, 2014 "
    "(arXiv:1404.5997), one tower; as in torchvision, without dropout"
)
ALEXNET_CONVOLUTIONS = (
    (64, Window.square(11, 4, 2), True),
    (192, Window.square(5, 1, 2), True),
    (384, Window.square(3, 1, 1), False),
    (256, Window.square(3, 1, 1), False),
    (256, Window.square(3, 1, 1), True),
)
"""Channels and window of each convolution, and whether a pooling follows."""


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
    image = MapShape(3, image_size, image_size)
    maps = FeatureMaps(image, norm=False)
    last = ""
    for number, (channels, window, pooled) in enumerate(ALEXNET_CONVOLUTIONS, 1):
        last = maps.conv(f"conv{number}", last, channels, window)
        if pooled:
            last = maps.pool(f"pool{number}", last, Window.square(3, 2))
    _classifier(maps, last, classes)
    return Architecture("alexnet", tuple(maps.layers), image.elements, ALEXNET)


VGG = (
    "Simonyan and Zisserman, Very Deep Convolutional Networks for Large-Scale Image Recognition, "
    "ICLR 2015 (arXiv:1409.1556), table 1, configuration D"
)
VGG_BLOCKS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Width and number of 3 x 3 convolutions of each block; a pooling ends it."""


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
    image = MapShape(3, image_size, image_size)
    maps = FeatureMaps(image, norm=False)
    last = ""
    for number, (width, convolutions) in enumerate(VGG_BLOCKS, 1):
        block = f"block{number}"
        for index in range(1, convolutions + 1):
            name = f"{block}.conv{index}"
            last = maps.conv(name, last, width, Window.square(3, 1, 1), block)
        last = maps.pool(f"{block}.pool", last, Window.square(2, 2), block)
    _classifier(maps, last, classes)
    return Architecture("vgg16", tuple(maps.layers), image.elements, VGG)


def _classifier(maps: FeatureMaps, source: str, classes: int) -> None:
    """Add three fully connected layers and the loss."""
    for name, width in (("fc6", HIDDEN), ("fc7", HIDDEN), ("fc8", classes)):
        source = maps.linear(name, source, width)
    maps.loss("loss", source)


RESNET = (
    "He et al., Deep Residual Learning for Image Recognition, CVPR 2016 (arXiv:1512.03385), "
    "table 1; as in torchvision (stride in the 3 x 3 convolution)"
)
RESNET_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Width and number of bottleneck blocks of each stage; a block puts out four times its width."""


def resnet50(image_size: int = 224, classes: int = 1000) -> Architecture:
    """Return ResNet-50 with its loss.

    Batch norm and ReLU run fused with the convolution before them, the last ReLU of a block with
    the residual sum. Layers have the names of torchvision's modules.

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
    image = MapShape(3, image_size, image_size)
    maps = FeatureMaps(image, norm=True)
    last = maps.conv("conv1", "", 64, Window.square(7, 2, 3))
    last = maps.pool("maxpool", last, Window.square(3, 2, 1))
    for stage, (width, blocks) in enumerate(RESNET_STAGES, 1):
        for index in range(blocks):
            stride = 2 if index == 0 and stage > 1 else 1
            last = _bottleneck(maps, f"layer{stage}.{index}", last, width, stride)
    last = maps.linear("fc", maps.global_pool("avgpool", last), classes)
    maps.loss("loss", last)
    return Architecture("resnet50", tuple(maps.layers), image.elements, RESNET)


def _bottleneck(maps: FeatureMaps, block: str, source: str, width: int, stride: int) -> str:
    """Add 1 x 1, 3 x 3, 1 x 1 next to a shortcut, projected where the shape changes."""
    out = maps.conv(f"{block}.conv1", source, width, Window.square(1), block)
    out = maps.conv(f"{block}.conv2", out, width, Window.square(3, stride, 1), block)
    out = maps.conv(f"{block}.conv3", out, 4 * width, Window.square(1), block)
    shortcut = source
    if maps.shapes[source] != maps.shapes[out]:
        shortcut = maps.conv(
            f"{block}.downsample", source, 4 * width, Window.square(1, stride), block
        )
    return maps.add(f"{block}.add", (out, shortcut), block)


UNET = (
    "Ronneberger, Fischer, Brox, U-Net: Convolutional Networks for Biomedical Image "
    "Segmentation, MICCAI 2015 (arXiv:1505.04597), figure 1"
)
UNET_WIDTHS = (64, 128, 256, 512, 1024)
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
        The tile size is odd at one of the four poolings.

    Notes
    -----
    31,030,658 parameters: the sum over figure 1 of ``k * k * in * out + out`` for its 23
    convolutions (18 of 3 x 3, 4 of 2 x 2, one of 1 x 1), which is what counts of faithful
    re-implementations give. The often quoted 31,031,685 belongs to a padded variant with one more
    3 x 3 convolution and a single output channel.
    """
    image = MapShape(1, image_size, image_size)
    maps = FeatureMaps(image, norm=False)
    last = ""
    skips = []
    for depth, width in enumerate(UNET_WIDTHS, 1):
        last = _twice(maps, f"down{depth}", last, width)
        if depth < len(UNET_WIDTHS):
            if maps.shapes[last].height < 2 or maps.shapes[last].height % 2:
                raise ValueError(
                    f"image_size {image_size} leaves {maps.shapes[last].height} pixels at depth "
                    f"{depth}, expected an even number of at least 2; 572 and 188 are good sizes"
                )
            skips.append(last)
            last = maps.pool(f"down{depth}.pool", last, Window.square(2, 2), f"down{depth}")
    for depth in range(len(skips), 0, -1):
        block = f"up{depth}"
        width = UNET_WIDTHS[depth - 1]
        raised = maps.up_conv(f"{block}.up_conv", last, width, block)
        skip = maps.crop(f"{block}.crop", skips[depth - 1], raised, block)
        last = maps.concat(f"{block}.concat", (skip, raised), block)
        last = _twice(maps, block, last, width)
    last = maps.conv("head", last, classes, Window.square(1))
    maps.loss("loss", last)
    return Architecture("unet", tuple(maps.layers), image.elements, UNET)


def _twice(maps: FeatureMaps, block: str, source: str, width: int) -> str:
    last = maps.conv(f"{block}.conv1", source, width, _VALID, block)
    return maps.conv(f"{block}.conv2", last, width, _VALID, block)
