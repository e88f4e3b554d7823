"""Ticks, bytes, gaps and seconds as people read them. Unknown is a dash."""

from __future__ import annotations

from fractions import Fraction

from .problem import Objective, PlanningProblem
from .quantity import Units

DASH = "—"
_TIMES = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"))
_SIZES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def value_text(problem: PlanningProblem, value: int | None) -> str:
    """Write a value of the problem's objective with its unit."""
    if problem.objective is Objective.PEAK_MEMORY:
        return size_text(problem.units, value)
    return time_text(problem.units, value)


def time_text(units: Units, ticks: int | None) -> str:
    """Write ticks in the largest unit below them; a source without units keeps its figures."""
    if ticks is None:
        return DASH
    if units.time != "ns":
        tag = "unit unspecified" if units.time == "unspecified" else units.time
        return f"{_number(Fraction(ticks, units.time_scale))} ({tag})"
    return _scaled(ticks, _TIMES, "ns")


def size_text(units: Units, num_bytes: int | None) -> str:
    """Write bytes in the largest binary unit below them."""
    if num_bytes is None:
        return DASH
    if units.size != "bytes":
        return f"{num_bytes:,} (unit unspecified)"
    return _scaled(num_bytes, _SIZES, "B")


def amount_text(unit: str, per_unit: int, amount: int | None) -> str:
    """Write an amount of which a record says the unit, and how many make one of it."""
    if amount is None:
        return DASH
    if unit == "bytes":
        return size_text(Units(), amount)
    if unit == "cost":
        return f"{amount:,}"
    return time_text(Units(unit, "bytes", per_unit), amount)


def share_text(share: float | None) -> str:
    """Write a gap or another share in percent."""
    return DASH if share is None else f"{share:.2%}"


def seconds_text(seconds: float | None) -> str:
    """Write wall-clock seconds."""
    if seconds is None:
        return DASH
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.2f} s"


def _scaled(number: int, scales: tuple[tuple[int, str], ...], smallest: str) -> str:
    for divisor, unit in scales:
        if number >= divisor:
            return f"{_number(Fraction(number, divisor))} {unit}"
    return f"{number} {smallest}"


def _number(number: Fraction) -> str:
    """Write six significant digits; large numbers to the unit, with separators."""
    if abs(number) >= 10**5:
        return f"{round(number):,}"
    return f"{float(number):.6g}"
