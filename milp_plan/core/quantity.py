"""Exact integers: time in ticks, sizes in bytes, and how amounts with units become them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from math import lcm

TICKS_PER_SECOND = 10**9
"""One tick is a nanosecond; where the source names no unit, a 'second' is 10^9 ticks."""

NANOSECONDS: Mapping[str, int] = {
    "ns": 1,
    **dict.fromkeys(("us", "µs", "μs"), 10**3),
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}
"""Nanoseconds of the units of time that are known; both letters for micro are in use."""

DECIMAL = tuple(unit for unit, ns in NANOSECONDS.items() if 10**9 % ns == 0)
"""Units of time in which a number of nanoseconds is a decimal that ends."""

BYTES: Mapping[str, int] = {
    **dict.fromkeys(("bytes", "byte", "B"), 1),
    **{f"{letter}iB": 2 ** (10 * power) for power, letter in enumerate("KMGTP", 1)},
    **{f"{letter}B": 10 ** (3 * power) for power, letter in enumerate("kMGTP", 1)},
}
"""Bytes of the units of size that are known."""

UNSPECIFIED = "unspecified"
"""The unit of a source that names none."""

_WRITTEN = re.compile(
    r"\s*((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?|[0-9]+/[0-9]+)"
    r"\s*([^\W\d]*)\s*(/\s*s)?\s*"
)


@dataclass(frozen=True, slots=True)
class Amount:
    """A number and its unit, as they were written.

    Parameters
    ----------
    number
        Exact number, at least 0.
    unit
        The unit as written; empty for a plain number, whose unit depends on its use.
    per_second
        Whether ``/s`` follows the unit.
    """

    number: Fraction
    unit: str = ""
    per_second: bool = False

    @classmethod
    def read(cls, text: str, *, rate: bool = False) -> Amount:
        """Read ``10``, ``0.5``, ``1/3``, ``1.5GiB`` or ``3.5 ms``; of a rate also ``25GB/s``.

        Raises
        ------
        ValueError
            The text is no amount.
        """
        match = _WRITTEN.fullmatch(text)
        if text.strip().startswith("-"):
            raise ValueError(f"{text} is negative")
        try:
            if match is None or (match[3] and not rate):
                raise ValueError
            return cls(Fraction(match[1]), match[2], match[3] is not None)
        except (ValueError, ZeroDivisionError):
            forms = "25GB/s" if rate else "10, 0.5, 1/3 or 1.5GiB"
            raise ValueError(f"{text!r} is no amount; write for example {forms}") from None

    def __str__(self) -> str:
        rate = "/s" if self.per_second else ""
        return f"{plain(self.number)} {self.unit}{rate}".rstrip()

    def in_bytes(self) -> Fraction:
        """Return a size, or a rate, in bytes; a plain number is one of bytes.

        Raises
        ------
        ValueError
            The unit is not a unit of size.
        """
        return self.number * _factor(self.unit or "bytes", BYTES, "size")

    def in_ns(self) -> Fraction:
        """Return a time in nanoseconds.

        Raises
        ------
        ValueError
            The unit is not a unit of time, or it is missing.
        """
        return self.number * _factor(self.unit, NANOSECONDS, "time")


def _factor(unit: str, known: Mapping[str, int], what: str) -> int:
    if unit not in known:
        raise ValueError(f"{unit!r} is no unit of {what}; known are {', '.join(known)}")
    return known[unit]


@dataclass(frozen=True, slots=True)
class Units:
    """Units of a problem's source, and their multiples in ticks and bytes.

    Parameters
    ----------
    time
        ``"ns"``, the source's own unit (``"ms"``), or ``"unspecified"`` when it names none.
    size
        ``"bytes"``, the source's own unit (``"GiB"``), or ``"unspecified"``.
    time_scale
        Ticks per unit of time of the source. 1 for native instances; a decimal source is scaled
        up exactly, so ``ticks / time_scale`` is the number in the file.
    size_scale
        The problem's bytes per unit of size of the source.
    """

    time: str = "ns"
    size: str = "bytes"
    time_scale: int = 1
    size_scale: int = field(default=1, metadata={"added": True})

    @property
    def ticks_per_ns(self) -> Fraction | None:
        """Ticks per nanosecond; ``None`` where the source's unit of time is not known."""
        known = NANOSECONDS.get(self.time)
        return None if known is None else Fraction(self.time_scale, known)

    @property
    def counts_per_byte(self) -> Fraction | None:
        """The problem's bytes per real byte; ``None`` where the source's unit is not known."""
        known = BYTES.get(self.size)
        return None if known is None else Fraction(self.size_scale, known)

    def ticks_of(self, other: Units) -> Fraction | None:
        """Return ticks per tick of other units; ``None`` where that is not known."""
        if self.time == other.time:
            return Fraction(self.time_scale, other.time_scale)
        one, two = self.ticks_per_ns, other.ticks_per_ns
        return None if one is None or two is None else one / two

    def counts_of(self, other: Units) -> Fraction | None:
        """Return the problem's bytes per byte of other units; ``None`` where that is not known."""
        if self.size == other.size:
            return Fraction(self.size_scale, other.size_scale)
        one, two = self.counts_per_byte, other.counts_per_byte
        return None if one is None or two is None else one / two

    def ticks(self, amount: Amount) -> Fraction:
        """Return a time in ticks; a plain number is in the source's unit.

        Raises
        ------
        ValueError
            Its unit cannot be converted.
        """
        return _converted(amount, self.time, NANOSECONDS, "time") * self.time_scale

    def counts(self, amount: Amount) -> Fraction:
        """Return a size in the problem's bytes; a plain number is in the source's unit.

        Raises
        ------
        ValueError
            Its unit cannot be converted.
        """
        return _converted(amount, self.size, BYTES, "size") * self.size_scale

    def rate(self, amount: Amount) -> tuple[Fraction, int]:
        """Return a rate as the problem's bytes in a number of ticks, and that number.

        Where the source's unit of time is not known, one such unit is taken as a second.

        Raises
        ------
        ValueError
            Its unit cannot be converted.
        """
        known = NANOSECONDS.get(self.time)
        if known is None:
            return self.counts(amount), self.time_scale
        second = Fraction(self.time_scale * TICKS_PER_SECOND, known)
        return self.counts(amount) * second.denominator, second.numerator


def units_of(problem: object) -> Units:
    """Return the units of a problem; nanoseconds and bytes where it has none."""
    units = getattr(problem, "units", None)
    return units if isinstance(units, Units) else Units()


def _converted(amount: Amount, unit: str, known: Mapping[str, int], what: str) -> Fraction:
    """Return an amount in the unit of a source; a plain number already is."""
    if amount.unit in ("", unit):
        return amount.number
    if unit not in known:
        names = f"no unit of {what}" if unit == UNSPECIFIED else f"{unit!r} as unit of {what}"
        raise ValueError(f"{amount.unit} has no meaning here: the problem names {names}")
    return amount.number * _factor(amount.unit, known, what) / known[unit]


def scale_of(unit: str, units: Mapping[str, int], numbers: Iterable[Fraction | int]) -> int:
    """Return the scale of a unit with which all numbers become integers.

    For a known unit, one count is a nanosecond or a byte, or the fraction of one that is needed.
    """
    return lcm(units.get(unit, 1), *(Fraction(number).denominator for number in numbers))


def decimal(number: Fraction) -> str:
    """Return a number as a decimal, exactly where it ends within 30 digits."""
    whole, rest = divmod(abs(number.numerator), number.denominator)
    digits = f".{rest * 10**30 // number.denominator:030d}".rstrip("0") if rest else ""
    return f"{'-' if number < 0 else ''}{whole}{digits}"


def plain(number: Fraction | int, digits: int | None = None) -> str:
    """Return a number as text without an exponent.

    Parameters
    ----------
    number
        Exact number.
    digits
        Significant digits, rounded; by default all, and a fraction where the decimal is infinite.
    """
    exact = Fraction(number)
    if digits is None:
        scale = exact.denominator
        places = max(_power(scale, 2), _power(scale, 5))
        if 10**places % scale:
            return str(exact)
        digits = max(1, len(str(abs(exact.numerator))) + places + 1)
    with localcontext(prec=digits):
        text = f"{Decimal(exact.numerator) / Decimal(exact.denominator):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _power(number: int, prime: int) -> int:
    count = 0
    while number % prime == 0:
        number //= prime
        count += 1
    return count


def ceil_div(numerator: int, denominator: int) -> int:
    """Return the smallest integer that is at least ``numerator / denominator``."""
    return -(-numerator // denominator)


def exact_scale(numbers: Iterable[float | int]) -> int:
    """Return the smallest factor that turns every decimal literal into an integer.

    A float is read as the shortest decimal that prints it (``0.1`` is one tenth), as in its JSON
    source.
    """
    denominators = {Fraction(Decimal(repr(number))).denominator for number in numbers}
    return lcm(*denominators) if denominators else 1


def to_ticks(number: float | int, scale: int) -> int:
    """Return a decimal literal times a scale, as an exact integer.

    Raises
    ------
    ValueError
        ``number * scale`` is not an integer.
    """
    scaled = Fraction(Decimal(repr(number))) * scale
    if scaled.denominator != 1:
        raise ValueError(f"{number!r} times {scale} is not an integer")
    return int(scaled)
