"""The gap between a value and a bound, as all runs and reports define it.

Minimisation throughout: a bound is at most every value. The gap is taken relative to the magnitude
of the value, as in HiGHS and Gurobi (SCIP divides by the smaller of the two magnitudes); for
positive values it is the usual (value - bound) / value. Proofs are
decided by :func:`within` and :func:`proved_optimal` in exact arithmetic, never by the rounded gap.
"""

from __future__ import annotations

from fractions import Fraction
from math import isfinite, isinf


def relative_gap(value: float | None, bound: float | None) -> float | None:
    """Return (value - bound) / magnitude of the value, for reports.

    Parameters
    ----------
    value, bound
        Numbers in one unit; integers of any size are divided exactly.

    Returns
    -------
    float or None
        0 where the bound meets the value (or exceeds it, which is a dispute); ``None`` where
        either is missing or not finite, and for a value of 0 above its bound.
    """
    if value is None or bound is None or not (_finite(value) and _finite(bound)):
        return None
    if value <= bound:
        return 0.0
    return float((value - bound) / abs(value)) if value else None


def within(value: int | None, bound: int | None, gap: float) -> bool:
    """Return whether value and bound prove that no plan is better by more than a relative gap.

    Exact, for integers of any size and sign. Both numbers are needed, except for an infinite gap,
    for which any value is enough.
    """
    if isinf(gap):
        return value is not None
    if value is None or bound is None:
        return False
    return value - bound <= Fraction(gap) * abs(value)


def proved_optimal(value: int | None, bound: int | None) -> bool:
    """Return whether no plan is better by even one tick; there is no tolerance."""
    return value is not None and bound is not None and value <= bound


def _finite(number: float) -> bool:
    return isinstance(number, int) or isfinite(number)
