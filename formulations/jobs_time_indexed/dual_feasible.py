r"""Dual feasible functions: what lengths on one device say beside their sum.

A function f is dual feasible if numbers of sum at most 1 have images of sum at most 1. Two families
(Fekete and Schepers 2001): with 0 < e <= 1/2, what is shorter than e becomes 0, what is longer than
1 - e becomes 1, all else stays: of numbers of sum at most 1 with one above 1 - e, all others are
below e. And x -> floor((k + 1) x) / k unless (k + 1) x is whole, for k = 1, 2, ...: where it is not
whole, rounding takes something away, and (k + 1) times the sum, rounded down, is k at most then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

MOST_ENDS, MOST_STEPS = 24, 7
"""Functions of either family."""


def dual_feasible(lengths: Sequence[int], whole: int) -> Iterator[dict[int, Fraction]]:
    """Images of lengths under functions that keep sums of at most the whole at 1 or below.

    Parameters
    ----------
    lengths
        Each at most the whole.
    whole
        More than 0.
    """
    ends = [length for length in lengths if 2 * length <= whole]
    ends += [whole - length for length in lengths if 2 * length > whole]
    step = -(-len(ends) // MOST_ENDS)
    cut = [
        {
            n: Fraction(1 if n > whole - e else n if n >= e else 0, 1 if n > whole - e else whole)
            for n in lengths
        }
        for e in [whole // 2 + whole % 2, *(end + 1 for end in sorted(set(ends))[::step])]
        if 2 * e <= whole + 1
    ]
    steps = [
        {
            n: Fraction((k + 1) * n, (k + 1) * whole)
            if (k + 1) * n % whole == 0
            else Fraction((k + 1) * n // whole, k)
            for n in lengths
        }
        for k in range(1, MOST_STEPS + 1)
    ]
    seen = {tuple(Fraction(n, whole) for n in lengths)}
    for image in (*cut, *steps):
        told = tuple(image.values())
        if any(told) and told not in seen:
            seen.add(told)
            yield image
