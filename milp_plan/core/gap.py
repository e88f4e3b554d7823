"""How far a bound is from a value: the one definition, for every sign, of all runs and reports.

Minimisation throughout: a bound is at most every value. The gap is taken relative to the magnitude
of the value, as HiGHS and Gurobi take it (SCIP divides by the smaller of the two magnitudes); for
positive values it is the usual (value - bound) / value. What is proved is decided by
:func:`within` and :func:`proved_optimal` in exact arithmetic, never by the rounded gap.
"""

from __future__ import annotations

from fractions import Fraction
from math import isfinite, isinf


def relative_gap(value: float | None, bound: float | None) -> float | None:
    """Return (value - bound) / magnitude of the value, for people and reports.

    Parameters
    ----------
    value, bound
        In one unit; integers of any size are divided exactly.

    Returns
    -------
    float or None
        0 where the bound meets the value (or passes it, which is for a dispute to say); ``None``
        where either is missing or not finite, and for a value of 0 above its bound.
    """
    if value is None or bound is None or not (_finite(value) and _finite(bound)):
        return None
    if value <= bound:
        return 0.0
    return float((value - bound) / abs(value)) if value else None


def within(value: int | None, bound: int | None, gap: float) -> bool:
    """Whether value and bound prove that no plan is better by more than a relative gap.

    Decided in exact arithmetic, on integers of any size and sign; never without both of them, but
    for a gap without end: then any plan will do, and no bound is asked for.
    """
    if isinf(gap):
        return value is not None
    if value is None or bound is None:
        return False
    return value - bound <= Fraction(gap) * abs(value)


def proved_optimal(value: int | None, bound: int | None) -> bool:
    """Whether no plan is better by as little as one tick: nothing is within a tolerance."""
    return value is not None and bound is not None and value <= bound


def _finite(number: float) -> bool:
    return isinstance(number, int) or isfinite(number)
