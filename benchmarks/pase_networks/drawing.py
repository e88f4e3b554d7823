"""Drawing networks layer by layer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pase_costs import (
    Layer,
    LayerGraph,
    Loss,
    Mean,
    Normalise,
    Nothing,
    Pointwise,
    Pooling,
    Product,
    Tensor,
    Work,
)

IMAGE_GRAIN = 4
"""Smallest local extent of a split loop in image networks."""


IMAGE = "bchw"
"""Dimensions of images: samples, channels, height, width."""


class Drawing:
    """A network being drawn; layers are numbered in the order in which they are added."""

    def __init__(self, name: str, grain: int = 1) -> None:
        self.name = name
        self.grain = grain
        self.layers: list[Layer] = []
        self.names: list[str] = []
        self.edges: list[tuple[int, int, int]] = []

    def add(
        self,
        name: str,
        kind: str,
        loops: str,
        extents: Sequence[int],
        work: Work,
        *,
        output: Tensor,
        sources: Sequence[int | None] = (),
        inputs: Sequence[Tensor] = (),
        whole: Sequence[int] = (),
        contiguous: bool = False,
    ) -> int:
        """Add a layer fed by earlier layers; ``None`` stands for an input of the network."""
        layer = Layer(
            kind,
            loops,
            tuple(extents),
            work,
            tuple(inputs),
            output,
            frozenset(whole),
            self.grain,
            contiguous,
        )
        number = len(self.layers)
        self.layers.append(layer)
        self.names.append(name)
        for port, source in enumerate(sources):
            if source is not None:
                self.edges.append((source, number, port))
        return number

    def extents(self, layer: int) -> tuple[int, ...]:
        """Extents of what a layer writes."""
        return self.layers[layer].output.extents

    def letters(self, layer: int) -> str:
        """Letters of the dimensions of what a layer writes; a merged one has its first loop's."""
        found = self.layers[layer]
        if not all(found.output.axes):
            return IMAGE
        return "".join(found.loops[axes[0]] for axes in found.output.axes)

    def graph(self) -> LayerGraph:
        """The network so far."""
        return LayerGraph(self.name, tuple(self.layers), tuple(self.names), tuple(self.edges))

    def pointwise(self, name: str, kind: str, work: Work, *sources: int | None) -> int:
        """Add a layer whose loops are the dimensions of its equally shaped inputs and output."""
        known = next((source for source in sources if source is not None), None)
        if known is None:
            raise ValueError(f"{name} has no input to take its shape from")
        extents, loops = self.extents(known), self.letters(known)
        same = same_axes(len(extents))
        reads = [Tensor(same)] * len(sources)
        return self.add(
            name,
            kind,
            loops,
            extents,
            work,
            output=Tensor(same, extents),
            sources=sources,
            inputs=reads,
        )

    def add_up(self, name: str, first: int, second: int | None, fused: int = 0) -> int:
        """Add the sum of two tensors; the second may be an input of the network."""
        return self.pointwise(name, "add", Pointwise(fused), first, second)

    def normalise(self, name: str, source: int, axis: int) -> int:
        """Add a normalisation."""
        return self.pointwise(name, "norm", Normalise(axis), source)

    def unit(
        self,
        name: str,
        source: int | tuple[int, int, int, int],
        channels: int,
        window: int | tuple[int, int],
        *,
        stride: int = 1,
        pad: int | tuple[int, int] = 0,
    ) -> int:
        """Add a convolution and its normalisation over the batch."""
        at = self.conv(f"{name} conv", source, channels, window, stride=stride, pad=pad)
        return self.normalise(f"{name} norm", at, axis=0)

    def loss(self, name: str, source: int) -> int:
        """Add softmax with cross-entropy over the last dimension."""
        return self.pointwise(name, "softmax-cross-entropy", Loss(), source)

    def linear(self, name: str, source: int, features: int, fused: int = 0) -> int:
        """Add a fully connected layer over the last dimension; loops [..., n, k]."""
        *lead, depth = self.extents(source)
        rank = len(lead)
        rows = same_axes(rank)
        work = Product(tuple(range(rank)), (rank,), (rank + 1,), fused=fused)
        output = Tensor((*rows, (rank,)), (*lead, features))
        reads = Tensor((*rows, (rank + 1,)))
        extents = (*lead, features, depth)
        loops = self.letters(source)[:-1] + "nk"
        return self.add(
            name, "linear", loops, extents, work, output=output, sources=[source], inputs=[reads]
        )

    def einsum(
        self,
        name: str,
        labels: str,
        sources: Sequence[int | None],
        sizes: dict[str, int],
        fused: int = 0,
    ) -> int:
        """Add a product of two tensors, such as ``"ble,en->bln"``; loops [output..., summed...]."""
        operands, written = labels.split("->")
        first, second = operands.split(",")
        loops = written + "".join(x for x in dict.fromkeys(first + second) if x not in written)
        roles: dict[str, list[int]] = {role: [] for role in ("batch", "m", "n", "k")}
        for number, loop in enumerate(loops):
            in_both = loop in first and loop in second
            outside = "m" if loop in first else "n"
            role = "batch" if in_both and loop in written else "k" if in_both else outside
            roles[role].append(number)
        m, n, k, batch = (tuple(roles[role]) for role in ("m", "n", "k", "batch"))
        work = Product(m, n, k, batch, fused)
        axes = [Tensor(tuple((loops.index(x),) for x in term)) for term in (first, second)]
        output = Tensor(tuple((loops.index(x),) for x in written), tuple(sizes[x] for x in written))
        extents = tuple(sizes[x] for x in loops)
        return self.add(
            name, "einsum", loops, extents, work, output=output, sources=sources, inputs=axes
        )

    def conv(
        self,
        name: str,
        source: int | tuple[int, int, int, int],
        channels: int,
        window: int | tuple[int, int],
        *,
        stride: int = 1,
        pad: int | tuple[int, int] = 0,
        fused: int = 0,
    ) -> int:
        """Add a convolution; loops [b, c, h, w, r, s, n], of which h and w stay whole."""
        shape = source if isinstance(source, tuple) else self.extents(source)
        batch, depth, height, width = shape
        (tall, broad), (up, left) = pair(window), pair(pad)
        high, wide = rows(height, tall, stride, up), rows(width, broad, stride, left)
        work = Product((0, 2, 3), (6,), (1, 4, 5), fused=fused)
        output = Tensor(((0,), (6,), (), ()), (batch, channels, high, wide))
        sources = [None] if isinstance(source, tuple) else [source]
        return self.add(
            name,
            "conv",
            "bchwrsn",
            (batch, depth, high, wide, tall, broad, channels),
            work,
            output=output,
            sources=sources,
            inputs=[Tensor(((0,), (1,), (), ()))],
            whole=(2, 3),
        )

    def pool(self, name: str, source: int, window: int, stride: int, pad: int = 0) -> int:
        """Add a pooling; loops [b, c, h, w] of its output."""
        batch, channels, height, width = self.extents(source)
        high, wide = rows(height, window, stride, pad), rows(width, window, stride, pad)
        work = Pooling(height, width, (window, window))
        extents = (batch, channels, high, wide)
        same = same_axes(4)
        return self.add(
            name,
            "pool",
            IMAGE,
            extents,
            work,
            output=Tensor(same, extents),
            sources=[source],
            inputs=[Tensor(same)],
        )

    def concat(self, name: str, sources: Sequence[int]) -> int:
        """Add a concatenation of channels, which stay whole."""
        batch, _, height, width = self.extents(sources[0])
        channels = sum(self.extents(source)[1] for source in sources)
        extents = (batch, channels, height, width)
        same = same_axes(4)
        reads = [Tensor(same)] * len(sources)
        output = Tensor(same, extents)
        return self.add(
            name,
            "concat",
            IMAGE,
            extents,
            Nothing(),
            output=output,
            sources=sources,
            inputs=reads,
            whole=(1,),
        )

    def mean(self, name: str, source: int) -> int:
        """Add the mean over height and width."""
        extents = self.extents(source)
        output = Tensor(((0,), (1,)), extents[:2])
        same = Tensor(same_axes(4))
        return self.add(
            name,
            "mean",
            IMAGE,
            extents,
            Mean((2, 3)),
            output=output,
            sources=[source],
            inputs=[same],
        )

    def flatten(self, name: str, source: int) -> int:
        """Add two reshapings: to one dimension, and to samples by features."""
        extents = self.extents(source)
        line = Tensor((tuple(range(len(extents))),), (math.prod(extents),))
        reads = Tensor(same_axes(len(extents)))
        flat = self.add(
            f"{name} line",
            "ravel",
            self.letters(source),
            extents,
            Nothing(),
            output=line,
            sources=[source],
            inputs=[reads],
            contiguous=True,
        )
        shape = (extents[0], math.prod(extents[1:]))
        return self.add(
            name,
            "unravel",
            "bf",
            shape,
            Nothing(),
            output=Tensor(same_axes(2), shape),
            sources=[flat],
            inputs=[Tensor(((0, 1),))],
            contiguous=True,
        )


def same_axes(rank: int) -> tuple[tuple[int, ...], ...]:
    """Each dimension split by its own loop."""
    return tuple((axis,) for axis in range(rank))


def pair(value: int | tuple[int, int]) -> tuple[int, int]:
    """One number for both directions, or two."""
    return value if isinstance(value, tuple) else (value, value)


def rows(extent: int, window: int, stride: int, pad: int) -> int:
    """Outputs of a sliding window."""
    return (extent - window + 2 * pad) // stride + 1
