"""What a pass computes and sends, without any rate: operations, bytes, kernels, traffic."""

from __future__ import annotations

from operator import add
from typing import NamedTuple

from .collectives import Traffic


class Compute(NamedTuple):
    """What a device computes.

    Parameters
    ----------
    matrix_flops, grouped_flops
        Operations of matrix products, and of those of experts.
    matrix_bytes
        Bytes of operands and results of both.
    attention_flops
        Operations of scores and their product with values.
    moved_bytes
        Bytes that other kernels read and write.
    kernels
        Number of kernels.
    measured_s
        Seconds that were measured.
    """

    matrix_flops: float = 0.0
    grouped_flops: float = 0.0
    matrix_bytes: float = 0.0
    attention_flops: float = 0.0
    moved_bytes: float = 0.0
    kernels: float = 0.0
    measured_s: float = 0.0

    def plus(self, other: Compute) -> Compute:
        """Return both, one after the other."""
        return Compute(*map(add, self, other))

    def times(self, factor: float) -> Compute:
        """Return the work ``factor`` times."""
        return Compute(*[factor * value for value in self])


class Pass(NamedTuple):
    """One pass of a chunk of the model over one micro-batch, on one device.

    Parameters
    ----------
    compute
        Everything but communication.
    tensor, expert, context
        Traffic of each kind of parallelism.
    copied_bytes
        Bytes that are copied from or to the host beside all of it.
    """

    compute: Compute = Compute()
    tensor: Traffic = Traffic()
    expert: Traffic = Traffic()
    context: Traffic = Traffic()
    copied_bytes: float = 0.0

    def plus(self, other: Pass) -> Pass:
        """Return both, one after the other."""
        return Pass(
            self.compute.plus(other.compute),
            self.tensor.plus(other.tensor),
            self.expert.plus(other.expert),
            self.context.plus(other.context),
            self.copied_bytes + other.copied_bytes,
        )

    def times(self, factor: float) -> Pass:
        """Return the pass ``factor`` times."""
        return Pass(
            self.compute.times(factor),
            self.tensor.times(factor),
            self.expert.times(factor),
            self.context.times(factor),
            self.copied_bytes * factor,
        )


class Passes(NamedTuple):
    """Forward pass, backward pass for inputs, products for weights, each of one micro-batch."""

    forward: Pass = Pass()
    backward: Pass = Pass()
    weight: Pass = Pass()

    def plus(self, other: Passes) -> Passes:
        """Return both, one after the other."""
        return Passes(*(a.plus(b) for a, b in zip(self, other, strict=True)))

    def times(self, factor: float) -> Passes:
        """Return the passes ``factor`` times."""
        return Passes(*(part.times(factor) for part in self))
