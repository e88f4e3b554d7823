"""Inception-v3 at the granularity of convolutions."""

from __future__ import annotations

from .architecture import Architecture
from .feature_maps import FeatureMaps, MapShape, Window

SOURCE = (
    "Szegedy et al., Rethinking the Inception Architecture for Computer Vision, CVPR 2016 "
    "(arXiv:1512.00567), table 1 and figures 5-7 and 10; module sizes as in torchvision"
)

_ONE = Window.square(1)
_THREE = Window.square(3, 1, 1)
_FIVE = Window.square(5, 1, 2)
_HALVE = Window.square(3, 2)
_ROW7, _COLUMN7 = Window((1, 7), 1, (0, 3)), Window((7, 1), 1, (3, 0))
_ROW3, _COLUMN3 = Window((1, 3), 1, (0, 1)), Window((3, 1), 1, (1, 0))

Branch = tuple[tuple[str, int, Window], ...]
"""Convolutions in a row: name, channels, window."""


def inception_v3(image_size: int = 299, classes: int = 1000) -> Architecture:
    """Return Inception-v3 with its loss, without the auxiliary head.

    Batch norm and ReLU run fused with the convolution before them. Layers have the names of
    torchvision's modules. The nested concatenations of the last two modules are one.

    Parameters
    ----------
    image_size
        Height and width of the input in pixels; at least 75.
    classes
        Number of classes.

    Raises
    ------
    ValueError
        The image is too small for the network.

    Notes
    -----
    23,834,568 parameters (Gluon model zoo, as listed by the imgclsmob collection) and 5.713 G
    multiply-adds at 299 pixels (``Inception_V3_Weights.IMAGENET1K_V1.meta`` of torchvision).
    """
    image = MapShape(3, image_size, image_size)
    maps = FeatureMaps(image, norm=True)
    last = _stem(maps)
    for name, pool_channels in (("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)):
        last = _module_a(maps, name, last, pool_channels)
    last = _module_b(maps, "Mixed_6a", last)
    for name, channels in (
        ("Mixed_6b", 128),
        ("Mixed_6c", 160),
        ("Mixed_6d", 160),
        ("Mixed_6e", 192),
    ):
        last = _module_c(maps, name, last, channels)
    last = _module_d(maps, "Mixed_7a", last)
    for name in ("Mixed_7b", "Mixed_7c"):
        last = _module_e(maps, name, last)
    last = maps.linear("fc", maps.global_pool("avgpool", last), classes)
    maps.loss("loss", last)
    return Architecture("inception_v3", tuple(maps.layers), image.elements, SOURCE)


def _stem(maps: FeatureMaps) -> str:
    last = maps.conv("Conv2d_1a_3x3", "", 32, _HALVE)
    last = maps.conv("Conv2d_2a_3x3", last, 32, Window.square(3))
    last = maps.conv("Conv2d_2b_3x3", last, 64, _THREE)
    last = maps.pool("maxpool1", last, _HALVE)
    last = maps.conv("Conv2d_3b_1x1", last, 80, _ONE)
    last = maps.conv("Conv2d_4a_3x3", last, 192, Window.square(3))
    return maps.pool("maxpool2", last, _HALVE)


def _branch(maps: FeatureMaps, block: str, source: str, branch: Branch) -> str:
    for name, channels, window in branch:
        source = maps.conv(f"{block}.{name}", source, channels, window, block)
    return source


def _pool_branch(maps: FeatureMaps, block: str, source: str, channels: int) -> str:
    pooled = maps.pool(f"{block}.avg_pool", source, _THREE, block)
    return maps.conv(f"{block}.branch_pool", pooled, channels, _ONE, block)


def _module_a(maps: FeatureMaps, block: str, source: str, pool_channels: int) -> str:
    """Add figure 5: 1 x 1, 5 x 5 and double 3 x 3 at 35 x 35."""
    branches: tuple[Branch, ...] = (
        (("branch1x1", 64, _ONE),),
        (("branch5x5_1", 48, _ONE), ("branch5x5_2", 64, _FIVE)),
        (
            ("branch3x3dbl_1", 64, _ONE),
            ("branch3x3dbl_2", 96, _THREE),
            ("branch3x3dbl_3", 96, _THREE),
        ),
    )
    ends = [_branch(maps, block, source, branch) for branch in branches]
    ends.append(_pool_branch(maps, block, source, pool_channels))
    return maps.concat(f"{block}.concat", tuple(ends), block)


def _module_b(maps: FeatureMaps, block: str, source: str) -> str:
    """Add figure 10: reduction from 35 x 35 to 17 x 17."""
    branches: tuple[Branch, ...] = (
        (("branch3x3", 384, _HALVE),),
        (
            ("branch3x3dbl_1", 64, _ONE),
            ("branch3x3dbl_2", 96, _THREE),
            ("branch3x3dbl_3", 96, _HALVE),
        ),
    )
    ends = [_branch(maps, block, source, branch) for branch in branches]
    ends.append(maps.pool(f"{block}.max_pool", source, _HALVE, block))
    return maps.concat(f"{block}.concat", tuple(ends), block)


def _module_c(maps: FeatureMaps, block: str, source: str, channels: int) -> str:
    """Add figure 6: 7 x 7 factored into rows and columns, at 17 x 17."""
    branches: tuple[Branch, ...] = (
        (("branch1x1", 192, _ONE),),
        (
            ("branch7x7_1", channels, _ONE),
            ("branch7x7_2", channels, _ROW7),
            ("branch7x7_3", 192, _COLUMN7),
        ),
        (
            ("branch7x7dbl_1", channels, _ONE),
            ("branch7x7dbl_2", channels, _COLUMN7),
            ("branch7x7dbl_3", channels, _ROW7),
            ("branch7x7dbl_4", channels, _COLUMN7),
            ("branch7x7dbl_5", 192, _ROW7),
        ),
    )
    ends = [_branch(maps, block, source, branch) for branch in branches]
    ends.append(_pool_branch(maps, block, source, 192))
    return maps.concat(f"{block}.concat", tuple(ends), block)


def _module_d(maps: FeatureMaps, block: str, source: str) -> str:
    """Add the reduction from 17 x 17 to 8 x 8."""
    branches: tuple[Branch, ...] = (
        (("branch3x3_1", 192, _ONE), ("branch3x3_2", 320, _HALVE)),
        (
            ("branch7x7x3_1", 192, _ONE),
            ("branch7x7x3_2", 192, _ROW7),
            ("branch7x7x3_3", 192, _COLUMN7),
            ("branch7x7x3_4", 192, _HALVE),
        ),
    )
    ends = [_branch(maps, block, source, branch) for branch in branches]
    ends.append(maps.pool(f"{block}.max_pool", source, _HALVE, block))
    return maps.concat(f"{block}.concat", tuple(ends), block)


def _module_e(maps: FeatureMaps, block: str, source: str) -> str:
    """Add figure 7: 3 x 3 split into a parallel row and column, at 8 x 8."""
    single = _branch(maps, block, source, (("branch3x3_1", 384, _ONE),))
    double = _branch(
        maps, block, source, (("branch3x3dbl_1", 448, _ONE), ("branch3x3dbl_2", 384, _THREE))
    )
    ends = (
        maps.conv(f"{block}.branch1x1", source, 320, _ONE, block),
        maps.conv(f"{block}.branch3x3_2a", single, 384, _ROW3, block),
        maps.conv(f"{block}.branch3x3_2b", single, 384, _COLUMN3, block),
        maps.conv(f"{block}.branch3x3dbl_3a", double, 384, _ROW3, block),
        maps.conv(f"{block}.branch3x3dbl_3b", double, 384, _COLUMN3, block),
        _pool_branch(maps, block, source, 192),
    )
    return maps.concat(f"{block}.concat", ends, block)
