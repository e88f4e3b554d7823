"""What a layer computes on each device, and the collectives inside it (PaSE, section IV).

Costs are in multiply-adds of one device; words that are sent cost :attr:`Rates.word` each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from .rates import Floats, Rates


@dataclass(frozen=True)
class Split:
    """A layer in all its configurations, one row each.

    Parameters
    ----------
    local, parts
        Local extents and numbers of parts of the loops.
    rates
        Of the devices.
    """

    local: Floats
    parts: Floats
    rates: Rates


class Work(ABC):
    """What the loops of a layer compute."""

    @abstractmethod
    def cost(self, at: Split) -> Floats:
        """Cost of each configuration, from local extents and parts of the loops."""


def volume(rows: Floats) -> Floats:
    """Product of each row."""
    return np.asarray(rows.prod(axis=1), dtype=np.float64)


def _over(rows: Floats, loops: tuple[int, ...]) -> Floats:
    return volume(rows[:, list(loops)])


@dataclass(frozen=True)
class Nothing(Work):
    """Concatenation, stacking, reshaping: no cost of their own."""

    def cost(self, at: Split) -> Floats:
        """Zero."""
        return np.zeros(len(at.local))


@dataclass(frozen=True)
class Product(Work):
    """Matrix product, forward and both gradients, for each element of some batch loops.

    Output [m, n] is summed over k; ``fused`` pointwise operations follow. Each of the three
    products needs an all-reduce over the loop that it sums.

    Parameters
    ----------
    m, n, k, batch
        Loops of each role.
    fused
        Pointwise operations on the output.
    wide, deep
        Factors of the extents n and k that are no loops.
    """

    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    batch: tuple[int, ...] = ()
    fused: int = 0
    wide: int = 1
    deep: int = 1

    def cost(self, at: Split) -> Floats:
        """Three products and three all-reduces."""
        m, n, k = (_over(at.local, loops) for loops in (self.m, self.n, self.k))
        n, k = self.wide * n, self.deep * k
        computed = 3.0 * m * n * k + 3.0 * self.fused * m * n
        sent = at.rates.all_reduce(m * n, _over(at.parts, self.k))
        sent += at.rates.all_reduce(m * k, _over(at.parts, self.n))
        sent += at.rates.all_reduce(n * k, _over(at.parts, self.m))
        return np.asarray(_over(at.local, self.batch) * (computed + sent))


@dataclass(frozen=True)
class Recurrence(Work):
    """LSTM over loops [layers, steps, batch, n, k]: four gates, input and hidden state.

    Splitting the loop over layers is PaSE's form of pipelining. The hidden state moves from the
    split of its producer (n) to that of its consumer (k) at every step of all layers.
    """

    def cost(self, at: Split) -> Floats:
        """Gates, and the exchange of the hidden state."""
        gates = Product((1, 2), (3,), (4,), batch=(0,), fused=3, wide=4, deep=2)
        batch, written, read = at.local[:, 2], at.local[:, 3], at.local[:, 4]
        held = np.where(at.parts[:, 4] > at.parts[:, 3], 0.0, batch * np.minimum(written, read))
        moved = np.maximum(0.0, batch * read - held)
        steps = at.local[:, 0] * at.parts[:, 0] * at.local[:, 1]
        return gates.cost(at) + steps * at.rates.word * moved


@dataclass(frozen=True)
class Pooling(Work):
    """Pooling over loops [batch, channels, height, width] of its output, with halos.

    Parameters
    ----------
    height, width
        Extents of the input.
    window
        Rows and columns of the window.
    """

    height: int
    width: int
    window: tuple[int, int]

    def cost(self, at: Split) -> Floats:
        """One operation per output, and the rows and columns read from neighbours."""
        height, width = self.height / at.parts[:, 2], self.width / at.parts[:, 3]
        tall = height + self.window[0] * (at.parts[:, 2] > 1)
        broad = width + self.window[1] * (at.parts[:, 3] > 1)
        halo = at.local[:, 0] * at.local[:, 1] * (tall * broad - height * width)
        return volume(at.local) + at.rates.word * halo


@dataclass(frozen=True)
class Normalise(Work):
    """Normalisation along one loop, with scale and shift per element of that loop.

    Parameters
    ----------
    axis
        The loop of the statistics.
    """

    axis: int

    def cost(self, at: Split) -> Floats:
        """Sixteen operations per element, statistics, gradients of scale and shift."""
        elements, along = volume(at.local), at.local[:, self.axis]
        split = at.parts[:, self.axis]
        statistics = at.rates.all_reduce(elements / along, split)
        gradients = at.rates.all_reduce(along, volume(at.parts) / split)
        return 16.0 * elements + 4.0 * (statistics + gradients)


@dataclass(frozen=True)
class Pointwise(Work):
    """One operation per element, and ``fused`` more."""

    fused: int = 0

    def cost(self, at: Split) -> Floats:
        """Operations of all at.local elements."""
        return (1.0 + self.fused) * volume(at.local)


@dataclass(frozen=True)
class Softmax(Work):
    """Softmax along one loop of this many elements.

    Parameters
    ----------
    axis, extent
        The loop, and all its iterations.
    """

    axis: int
    extent: int

    def cost(self, at: Split) -> Floats:
        """Operations, statistics forward, and the gradient of whole rows."""
        elements, split = volume(at.local), at.parts[:, self.axis]
        rows = elements / at.local[:, self.axis]
        sent = 2.0 * at.rates.all_reduce(rows, split) + at.rates.all_reduce(
            rows * self.extent, split
        )
        return 4.0 * elements + elements * self.extent + sent


@dataclass(frozen=True)
class Loss(Work):
    """Softmax with cross-entropy along the last loop."""

    def cost(self, at: Split) -> Floats:
        """Operations, and two words per row if rows are split."""
        rows = volume(at.local[:, :-1])
        sent = np.where(at.parts[:, -1] > 1, at.rates.word * 2.0 * rows, 0.0)
        return 4.0 * volume(at.local) + 2.0 * rows + sent


@dataclass(frozen=True)
class Mean(Work):
    """Mean over some loops.

    Parameters
    ----------
    axes
        The loops.
    """

    axes: tuple[int, ...]

    def cost(self, at: Split) -> Floats:
        """All-reduce over the parts of the loops."""
        return at.rates.all_reduce(volume(at.local), _over(at.parts, self.axes))
