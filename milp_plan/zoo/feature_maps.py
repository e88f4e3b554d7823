"""Builder of layers over feature maps: the common part of the image networks.

Every count follows the convention of the published figures: only convolutions and matrix products
have floating-point operations (two per multiply-add); batch norm, activations, pooling, sums and
concatenations have none, and cost the elements they move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from milp_plan.cost.mesh import MeshOperator, kinds

from .architecture import Layer
from .spaces import concat_space, loss_space


class MapShape(NamedTuple):
    """Channels, height and width of a feature map."""

    channels: int
    height: int
    width: int

    @property
    def elements(self) -> int:
        """Elements of the map."""
        return self.channels * self.height * self.width


@dataclass(frozen=True, slots=True)
class Window:
    """Kernel of a convolution or a pooling: (height, width) each, the same stride both ways."""

    kernel: tuple[int, int]
    stride: int = 1
    padding: tuple[int, int] = (0, 0)

    @classmethod
    def square(cls, kernel: int, stride: int = 1, padding: int = 0) -> Window:
        """Return a window of equal sides."""
        return cls((kernel, kernel), stride, (padding, padding))

    def over(self, shape: MapShape, channels: int) -> MapShape:
        """Return the shape of the output for ``shape``; the last, incomplete stride is dropped.

        Raises
        ------
        ValueError
            The window is larger than the padded map.
        """
        height, width = (
            (side + 2 * pad - kernel) // self.stride + 1
            for side, pad, kernel in zip(shape[1:], self.padding, self.kernel, strict=True)
        )
        if min(height, width) < 1:
            raise ValueError(f"a {self.kernel} window does not fit a map of {tuple(shape)}")
        return MapShape(channels, height, width)


class FeatureMaps:
    """Collects layers and the shape of each output.

    Every method adds one layer and returns its name. A convolution is fused with batch norm and
    ReLU, as one layer named after the convolution.

    Parameters
    ----------
    image
        Shape of the input, which layers read as ``""``.
    norm
        Whether convolutions have batch norm (two parameters per channel, no bias) or a bias.
    """

    def __init__(self, image: MapShape, *, norm: bool) -> None:
        self.layers: list[Layer] = []
        self.shapes: dict[str, MapShape] = {"": image}
        self._norm = norm

    def _add(self, layer: Layer, shape: MapShape) -> str:
        self.layers.append(layer)
        self.shapes[layer.name] = shape
        return layer.name

    def conv(
        self, name: str, source: str, channels: int, window: Window, block: str | None = None
    ) -> str:
        """Add a convolution (with its norm or bias, and ReLU)."""
        read = self.shapes[source]
        shape = window.over(read, channels)
        weights = read.channels * channels * window.kernel[0] * window.kernel[1]
        return self._add(
            Layer(
                name,
                "conv",
                _reads(source),
                flops=2 * weights * shape.height * shape.width,
                parameters=weights + channels * (2 if self._norm else 1),
                output_elements=shape.elements,
                splits=("batch", "column"),
                block=block,
                space=kinds.convolution(
                    1,
                    (read.channels, channels),
                    read[1:],
                    shape[1:],
                    kernel=window.kernel,
                    bias=2 if self._norm else 1,
                ),
            ),
            shape,
        )

    def up_conv(self, name: str, source: str, channels: int, block: str | None = None) -> str:
        """Add a transposed 2 x 2 convolution of stride 2: each input pixel makes four."""
        read = self.shapes[source]
        shape = MapShape(channels, 2 * read.height, 2 * read.width)
        weights = 4 * read.channels * channels
        return self._add(
            Layer(
                name,
                "conv",
                _reads(source),
                flops=2 * weights * read.height * read.width,
                parameters=weights + channels,
                output_elements=shape.elements,
                splits=("batch", "column"),
                block=block,
                space=kinds.convolution(
                    1, (read.channels, channels), read[1:], shape[1:], kernel=(1, 1), taps=4, bias=1
                ),
            ),
            shape,
        )

    def pool(self, name: str, source: str, window: Window, block: str | None = None) -> str:
        """Add a pooling."""
        read = self.shapes[source]
        shape = window.over(read, read.channels)
        space = kinds.pool(1, read.channels, read[1:], shape[1:], window.kernel)
        return self._light(name, "pool", (source,), shape, space, block=block)

    def global_pool(self, name: str, source: str) -> str:
        """Add a pooling over the whole map."""
        read = self.shapes[source]
        space = kinds.pool(1, read.channels, read[1:], (1, 1), (1, 1))
        return self._light(name, "pool", (source,), MapShape(read.channels, 1, 1), space)

    def add(self, name: str, sources: tuple[str, ...], block: str | None = None) -> str:
        """Add a sum of equal shapes, with the ReLU that follows."""
        shape = self.shapes[sources[0]]
        space = kinds.elementwise((1, *shape), inputs=len(sources), flops=0)
        return self._light(name, "add", sources, shape, space, block=block)

    def concat(self, name: str, sources: tuple[str, ...], block: str | None = None) -> str:
        """Add a concatenation of channels."""
        shape = self.shapes[sources[0]]
        channels = sum(self.shapes[source].channels for source in sources)
        space = concat_space([self.shapes[source].channels for source in sources], shape[1:])
        made = shape._replace(channels=channels)
        return self._light(name, "concat", sources, made, space, block=block)

    def crop(self, name: str, source: str, like: str, block: str | None = None) -> str:
        """Add a central crop to the height and width of ``like``; it moves what remains."""
        shape = self.shapes[like]._replace(channels=self.shapes[source].channels)
        moved = 2 * shape.elements
        space = kinds.elementwise((1, *shape), flops=0)
        return self._light(name, "crop", (source,), shape, space, block=block, moved=moved)

    def linear(self, name: str, source: str, classes: int) -> str:
        """Add a fully connected layer with bias."""
        read = self.shapes[source]
        weights = read.elements * classes
        return self._add(
            Layer(
                name,
                "linear",
                _reads(source),
                flops=2 * weights,
                parameters=weights + classes,
                output_elements=classes,
                splits=("batch", "column", "row"),
                space=kinds.convolution(
                    1, (read.channels, classes), read[1:], (1, 1), kernel=read[1:], bias=1
                ),
            ),
            MapShape(classes, 1, 1),
        )

    def loss(self, name: str, source: str) -> str:
        """Add the loss: softmax and cross entropy."""
        space = loss_space(self.shapes[source])
        return self._light(name, "loss", (source,), MapShape(1, 1, 1), space)

    def _light(
        self,
        name: str,
        kind: str,
        sources: tuple[str, ...],
        shape: MapShape,
        space: MeshOperator,
        *,
        block: str | None = None,
        moved: int | None = None,
    ) -> str:
        layer = Layer(
            name,
            kind,
            tuple(read for source in sources for read in _reads(source)),
            flops=0,
            parameters=0,
            output_elements=shape.elements,
            moved_elements=moved,
            splits=("batch",),
            block=block,
            space=space,
        )
        return self._add(layer, shape)


def _reads(source: str) -> tuple[str, ...]:
    return (source,) if source else ()
