"""A model as pieces, and how it is cut into stages: runs of neighbouring pieces.

All numbers are exact fractions in the units of their source: times of one micro-batch, sizes in
whatever the source counts (for ``--times`` one device's share of the activations is 1).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate, pairwise
from math import lcm

from milp_plan.core import Units
from milp_plan.core.quantity import UNSPECIFIED

Number = Fraction | int

Cut = tuple[int, ...]
"""Number of pieces of each stage, in the order of the forward pass."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the model that is not cut further; costs of one micro-batch.

    Parameters
    ----------
    forward, backward, weight
        Times of forward pass, input gradient and weight gradient.
    held_to_backward, held_to_weight
        Activations held from the start of the forward pass to the end of the input gradient, and
        to the end of the weight gradient.
    gradient
        Bytes held from the start of the input gradient to the end of the weight gradient.
    parameters
        Bytes held all the time.
    arrives
        Bytes that come from the piece before it. They may arrive ahead of their pass, as may the
        gradient on the other side: a stage that begins with the piece, and the one before, hold
        as much in addition.
    name
        Its name in the source; empty where it has none.
    """

    forward: Number
    backward: Number
    weight: Number
    held_to_backward: Number = 0
    held_to_weight: Number = 0
    gradient: Number = 0
    parameters: Number = 0
    arrives: Number = field(default=0, kw_only=True)
    name: str = field(default="", kw_only=True)

    def scaled(self, factor: Number) -> Piece:
        """Return the piece with everything but its parameters multiplied: another batch size."""
        return Piece(
            self.forward * factor,
            self.backward * factor,
            self.weight * factor,
            self.held_to_backward * factor,
            self.held_to_weight * factor,
            self.gradient * factor,
            self.parameters,
            arrives=self.arrives * factor,
            name=self.name,
        )

    @property
    def times(self) -> tuple[Number, Number, Number]:
        """Times of forward pass, input gradient and weight gradient."""
        return self.forward, self.backward, self.weight

    @property
    def sizes(self) -> tuple[Number, Number, Number, Number]:
        """Sizes held to the input gradient, to the weight gradient, between them, and always."""
        return self.held_to_backward, self.held_to_weight, self.gradient, self.parameters

    @property
    def time(self) -> Number:
        """Time of all its work on one micro-batch."""
        return self.forward + self.backward + self.weight


@dataclass(frozen=True)
class Model:
    """A model that is cut into stages.

    Parameters
    ----------
    pieces
        Its pieces in the order of the forward pass; stages are runs of consecutive pieces.
    transfer
        Time of a transfer between neighbouring stages on different devices.
    even
        The only piece is one device's share of a model that can be cut anywhere into equal parts.
    time_unit, size_unit
        Units of the numbers; ``unspecified`` where unknown.
    memory
        Memory of a device, where the source has it.
    workspace
        Memory of each device that is always in use, whatever it runs.
    """

    pieces: tuple[Piece, ...]
    transfer: Number = 0
    even: bool = False
    time_unit: str = UNSPECIFIED
    size_unit: str = UNSPECIFIED
    memory: Number | None = None
    workspace: Number = 0

    @property
    def units(self) -> Units:
        """Units of the numbers, unscaled."""
        return Units(self.time_unit, self.size_unit)

    @classmethod
    def from_share(
        cls,
        times: tuple[Number, Number, Number],
        transfer: Number = 0,
        freed_at_backward: Number = 0,
        time_unit: str = UNSPECIFIED,
    ) -> Model:
        """Return the model whose share per device has these F, B and W, and one activation."""
        share = Piece(*times, freed_at_backward, 1 - freed_at_backward)
        return cls((share,), transfer, even=True, time_unit=time_unit)

    def parts(self, devices: int, stages: int) -> tuple[Piece, ...]:
        """Return its pieces, or equal parts, one per stage, where it can be cut anywhere."""
        if not self.even:
            return self.pieces
        share, size = self.pieces[0], Fraction(devices, stages)
        return (replace(share.scaled(size), parameters=share.parameters * size),) * stages


def most_even(pieces: Sequence[Piece], stages: int) -> Cut:
    """Return the cut whose longest stage is shortest; of equals, the earliest last cuts.

    A dynamic programme over last cuts. The later the last cut, the shorter the last run and the
    longer the longest before it, so the best one stands where the two cross: it is bisected for.

    Raises
    ------
    ValueError
        There are fewer pieces than stages.
    """
    if len(pieces) < stages:
        raise ValueError(f"{len(pieces)} pieces cannot be cut into {stages} stages")
    scale = denominator(piece.time for piece in pieces)
    total = [0, *accumulate(int(Fraction(piece.time) * scale) for piece in pieces)]
    count = len(pieces)
    longest = list(total)
    last = [[0] * (count + 1)]
    for part in range(2, stages + 1):
        row, chosen = [0] * (count + 1), [0] * (count + 1)
        for end in range(part, count - (stages - part) + 1):
            chosen[end] = cut = _last_cut(total, longest, part - 1, end)
            row[end] = max(longest[cut], total[end] - total[cut])
        longest = row
        last.append(chosen)
    cuts = [count]
    for chosen in reversed(last):
        cuts.append(chosen[cuts[-1]])
    cuts.reverse()
    return tuple(b - a for a, b in pairwise(cuts))


def denominator(numbers: Iterable[Number]) -> int:
    """Return the least factor that makes all of them integers."""
    return lcm(*(Fraction(number).denominator for number in numbers))


def _last_cut(total: list[int], longest: list[int], least: int, end: int) -> int:
    """Return the first of the best places from ``least`` on for the last cut before ``end``."""
    low, high = least, end - 1
    while low < high:
        middle = (low + high) // 2
        if longest[middle] >= total[end] - total[middle]:
            high = middle
        else:
            low = middle + 1
    if low == least or max(longest[low], total[end] - total[low]) < total[end] - total[low - 1]:
        return low
    return max(least, bisect_left(total, total[low - 1]))
