"""Exact integers: time in ticks, sizes in bytes, and how decimals become them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import lcm

TICKS_PER_SECOND = 10**9

NANOSECONDS = {"ns": 1, "µs": 10**3, "us": 10**3, "ms": 10**6, "s": 10**9}
"""Ticks of units of time that sources name."""
"""One tick is a nanosecond; where the source names no unit, a 'second' is 10^9 ticks."""


@dataclass(frozen=True, slots=True)
class Units:
    """What one tick and one byte of a problem stand for in its source.

    Parameters
    ----------
    time
        ``"ns"``, the source's own unit (``"ms"``), or ``"unspecified"`` when it names none.
    size
        ``"bytes"`` or ``"unspecified"``.
    time_scale
        Ticks per unit of time of the source. 1 for native instances; a decimal source is scaled
        up exactly, so ``ticks / time_scale`` is the figure that stood in the file.
    """

    time: str = "ns"
    size: str = "bytes"
    time_scale: int = 1


def ceil_div(numerator: int, denominator: int) -> int:
    """Return the smallest integer that is at least ``numerator / denominator``."""
    return -(-numerator // denominator)


def exact_scale(numbers: Iterable[float | int]) -> int:
    """Return the smallest factor that turns every decimal literal into an integer.

    A float is read as the shortest decimal that prints it (``0.1`` is one tenth), which is what
    its JSON source says.
    """
    denominators = {Fraction(Decimal(repr(number))).denominator for number in numbers}
    return lcm(*denominators) if denominators else 1


def to_ticks(number: float | int, scale: int) -> int:
    """Scale one decimal literal to an integer exactly.

    Raises
    ------
    ValueError
        ``number * scale`` is not an integer.
    """
    scaled = Fraction(Decimal(repr(number))) * scale
    if scaled.denominator != 1:
        raise ValueError(f"{number!r} times {scale} is not an integer")
    return int(scaled)
