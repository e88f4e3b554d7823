"""Rows of terms: a factor and a column each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyomo.core.expr import LinearExpression

Term = tuple[float, Any]
"""Factor and column."""


def merged(*parts: Iterable[Term]) -> list[Term]:
    """Sum of terms; what cancels is left out."""
    found: dict[int, Term] = {}
    for part in parts:
        for factor, column in part:
            known = found.get(id(column), (0.0, column))[0]
            found[id(column)] = (known + factor, column)
    return [(factor, column) for factor, column in found.values() if factor]


def at_least(rows: Any, terms: Iterable[Term], least: float) -> None:
    """Add to a ``ConstraintList``: sum of terms >= least."""
    pairs = list(terms)
    body = LinearExpression(
        constant=0,
        linear_coefs=[factor for factor, _ in pairs],
        linear_vars=[column for _, column in pairs],
    )
    rows.add((least, body, None))
