"""Converts times, sizes and rates of scripts to the exact integers of problems.

Integers, fractions, ``Decimal``, numpy scalars and texts such as ``"2GiB"`` are exact and have to
come out whole. A float stands for a measured figure: it is read as the shortest decimal that prints
it, and a time is rounded to the nearest tick.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from math import isfinite
from numbers import Integral, Rational, Real
from typing import Any, NoReturn, TypeVar

from milp_plan.core import TICKS_PER_SECOND, Amount, Finding, InputError
from milp_plan.io.defects import nearest

Word = TypeVar("Word", bound=StrEnum)


def refuse(where: str, found: str, expected: str, remedy: str = "correct it") -> NoReturn:
    """Raise an error with one finding."""
    raise InputError([Finding(where, found, expected, remedy)])


def quoted(given: Any) -> str:
    """Return an argument as text, with its type if that is not obvious."""
    if isinstance(given, str | int | float) and type(given).__module__ == "builtins":
        return repr(given)
    text = repr(given)
    short = text if len(text) <= 60 else f"{text[:60]}..."
    return f"{short} of type {type(given).__name__}"


def number(given: Any, where: str, expected: str) -> Fraction:
    """Return an exact number of at least 0.

    Raises
    ------
    InputError
        It is no number, not finite, or negative.
    """
    kind = type(given).__name__
    exact: Fraction | None = None
    if isinstance(given, bool) or kind in ("bool_", "bool"):
        exact = None
    elif isinstance(given, Integral):
        exact = Fraction(int(given))
    elif isinstance(given, Rational):
        exact = Fraction(int(given.numerator), int(given.denominator))
    elif isinstance(given, Decimal):
        exact = Fraction(given) if given.is_finite() else None
    elif isinstance(given, Real):
        exact = Fraction(Decimal(str(given))) if isfinite(given) else None
    if exact is None or exact < 0:
        refuse(where, quoted(given), expected)
    return exact


def ticks(given: Any, per_unit: Fraction, unit: str, where: str) -> int:
    """Return a time in ticks.

    Parameters
    ----------
    given
        A number in ``unit``, or a text with its unit, such as ``"3.5ms"``.
    per_unit
        Ticks of a unit.
    unit
        Unit of plain numbers: ``"s"``, ``"ms"``, ``"us"``, ``"ns"``, or ``"unspecified"``.
    where
        Place in the finding.

    Raises
    ------
    InputError
        It is no time, not a whole number of ticks though it is exact, or a float so small that
        nothing of it would be left.
    """
    example = "" if unit == "unspecified" else ', or a text such as "3.5ms"'
    name = "of units of time" if unit == "unspecified" else f"of {unit}"
    expected = f"a number {name} of at least 0{example}"
    if isinstance(given, str):
        if unit == "unspecified":
            refuse(where, quoted(given), expected)
        exact = _read(given, where, expected, Amount.in_ns)
    else:
        exact = number(given, where, expected) * per_unit
    whole = round(exact)
    measured = isinstance(given, Real) and not isinstance(given, Rational)
    if whole == exact or (measured and whole > 0):
        return whole
    if measured:
        remedy = "use a smaller time_unit, or 0"
        refuse(where, f"{quoted(given)}, less than half a tick", "a tick or more, or 0", remedy)
    found = f"{quoted(given)}, which is {exact} ticks"
    tick = "tick" if unit == "unspecified" else "nanosecond"
    refuse(where, found, "a whole number of ticks", f"round it to a {tick}")


def amount(given: Any, where: str, *, least: int = 0, per_second: bool = False) -> int:
    """Return a number of bytes, or of bytes per unit of time.

    Parameters
    ----------
    given
        A whole number, or a text such as ``"2GiB"``, ``"80GB"`` or ``"25GB/s"``.
    where
        Place in the finding.
    least
        Minimum.
    per_second
        Whether it is a rate; a text of a rate may end in ``/s``, one of a size may not.
    """
    example = "25GB/s" if per_second else "2GiB"
    expected = f'a whole number of bytes of at least {least}, or a text such as "{example}"'
    if isinstance(given, str):
        exact = _read(given, where, expected, Amount.in_bytes, rate=per_second)
    else:
        exact = number(given, where, expected)
    if exact.denominator != 1 or exact < least:
        refuse(where, quoted(given), expected)
    return int(exact)


def count(given: Any, where: str, least: int = 1, most: int | None = None) -> int:
    """Return a count: a whole number.

    Raises
    ------
    InputError
        It is none, below the least or above the most.
    """
    beyond = "" if most is None else f" and at most {most}"
    expected = f"a whole number of at least {least}{beyond}"
    exact = number(given, where, expected)
    if exact.denominator != 1 or exact < least or (most is not None and exact > most):
        refuse(where, quoted(given), expected)
    return int(exact)


def seconds(given: Any, where: str) -> float:
    """Return a limit in seconds: a number of them, or a text such as ``"90s"`` or ``"5min"``."""
    expected = 'a number of seconds above 0, or a text such as "90s" or "5min"'
    if isinstance(given, str):
        exact = _read(given, where, expected, Amount.in_ns) / TICKS_PER_SECOND
    elif isinstance(given, float) and given == float("inf"):
        return given
    else:
        exact = number(given, where, expected)
    if exact <= 0:
        refuse(where, quoted(given), expected)
    return float(exact)


def share(given: Any, where: str) -> float:
    """Return a relative gap: a number from 0 to 1."""
    expected = "a number from 0 to 1"
    exact = number(given, where, expected)
    if exact > 1:
        refuse(where, quoted(given), expected)
    return float(exact)


def text(given: Any, where: str) -> str:
    """Return a text that is not empty."""
    if not isinstance(given, str) or not given:
        refuse(where, quoted(given), "a text that is not empty", "name it")
    if any(0xD800 <= ord(letter) < 0xE000 for letter in given):
        refuse(where, quoted(given), "whole characters, no lone surrogate", "leave it out")
    return str(given)


def flag(given: Any, where: str) -> bool:
    """Return a truth value, of Python or of numpy."""
    if type(given).__name__ not in ("bool", "bool_"):
        refuse(where, quoted(given), "True or False")
    return bool(given)


def word(given: Any, known: type[Word], where: str) -> Word:
    """Return the member of an enumeration that a word names."""
    words = [entry.value for entry in known]
    if given not in words:
        remedy = nearest(str(given), words, "choose one of these")
        refuse(where, quoted(given), f"one of {', '.join(words)}", remedy)
    return known(given)


def _read(
    given: str,
    where: str,
    expected: str,
    convert: Callable[[Amount], Fraction],
    *,
    rate: bool = False,
) -> Fraction:
    try:
        return convert(Amount.read(given, rate=rate))
    except ValueError:
        refuse(where, quoted(given), expected)
