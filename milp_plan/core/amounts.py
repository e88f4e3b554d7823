"""Ticks, bytes, gaps and seconds as people read them. Unknown is a dash."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from .problem import Objective, PlanningProblem
from .quantity import BYTES, NANOSECONDS, UNSPECIFIED, Units, plain

DASH = "—"

NO_UNIT = " (unit unspecified)"
"""Stands behind an amount of which the source names no unit."""

Ladder = tuple[tuple[int, str], ...]
"""Units of one sort, the largest first, each with its multiple of the smallest."""

TIMES: Ladder = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns"))
SIZES: Ladder = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))

_DIGITS = 6
"""Significant digits of texts."""

MIN_SHARE = Fraction(1, 1000)
"""Smallest part of a source's unit that is written in it; less is written in a smaller unit."""


def value_text(problem: PlanningProblem, value: int | None) -> str:
    """Return a value of the problem's objective as text with its unit."""
    if problem.objective is Objective.PEAK_MEMORY:
        return size_text(problem.units, value)
    return time_text(problem.units, value)


def time_text(units: Units, ticks: Fraction | int | None) -> str:
    """Return ticks as text in the source's unit, or in a suitable unit where that is ``ns``."""
    if ticks is None:
        return DASH
    return _text(Fraction(ticks, units.time_scale), units.time, NANOSECONDS, TIMES)


def size_text(units: Units, counts: Fraction | int | None) -> str:
    """Return a size as text in the source's unit, or in a suitable unit where that is ``bytes``."""
    if counts is None:
        return DASH
    return _text(Fraction(counts, units.size_scale), units.size, BYTES, SIZES)


def needed_and_available(units: Units, needed: int, available: int) -> tuple[str, str]:
    """Return two sizes as texts that differ where the sizes do, if need be with every digit."""
    texts = size_text(units, needed), size_text(units, available)
    if needed == available or texts[0] != texts[1]:
        return texts
    if units.size in BYTES:
        scale = Fraction(BYTES[units.size], units.size_scale)
        return f"{plain(needed * scale)} B", f"{plain(available * scale)} B"
    amounts = (Fraction(count, units.size_scale) for count in (needed, available))
    needs, has = (_with_unit(plain(amount), units.size) for amount in amounts)
    return needs, has


def amount_text(unit: str, per_unit: int, amount: int | None) -> str:
    """Return an amount of a record as text, with its unit and the ticks or bytes per unit."""
    if amount is None:
        return DASH
    if unit in BYTES:
        return size_text(Units(size=unit, size_scale=per_unit), amount)
    if unit == "cost":
        return f"{amount:,}"
    return time_text(Units(unit, "bytes", per_unit), amount)


def unit_of(unit: str, known: Mapping[str, int], ladder: Ladder, largest: Fraction) -> str:
    """Return the unit in which amounts up to a largest one are written.

    Parameters
    ----------
    unit
        Unit of the source.
    known, ladder
        Known units of this sort, and the units to choose from where the source has the smallest
        one, or one that is far too large.
    largest
        The largest amount, in the source's unit.
    """
    if unit not in known or (known[unit] > 1 and (not largest or largest >= MIN_SHARE)):
        return unit
    base = largest * known[unit]
    return next((name for divisor, name in ladder if base >= divisor), ladder[-1][1])


def _text(number: Fraction, unit: str, known: Mapping[str, int], ladder: Ladder) -> str:
    chosen = unit_of(unit, known, ladder, abs(number))
    if chosen != unit:
        number = number * known[unit] / known[chosen]
    return _with_unit(_number(number), chosen)


def _with_unit(written: str, unit: str) -> str:
    return written + (NO_UNIT if unit == UNSPECIFIED else f" {unit}")


def json_number(amount: Fraction | int | None) -> int | float | None:
    """Return an amount as a JSON number: an integer where it is one, else the nearest float."""
    if amount is None:
        return None
    exact = Fraction(amount)
    return exact.numerator if exact.denominator == 1 else float(exact)


def share_text(share: float | None) -> str:
    """Return a gap or another share in percent."""
    return DASH if share is None else f"{share:.2%}"


def seconds_text(seconds: float | None) -> str:
    """Return wall-clock seconds as text."""
    if seconds is None:
        return DASH
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.2f} s"


def _number(number: Fraction) -> str:
    """Return a number with six significant digits; large numbers as integers with separators."""
    if abs(number) >= 10 ** (_DIGITS - 1):
        return f"{round(number):,}"
    return plain(number, _DIGITS)
