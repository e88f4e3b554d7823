"""Loop nests of operators: a loop for each dimension of each tensor, along which it may split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from string import ascii_letters

from milp_plan.cost.mesh import Exchange
from milp_plan.io.capture_wire import Kernel, View

WHOLE = "."
"""Replaces the loop of a dimension that is never split."""


@dataclass(frozen=True)
class Nest:
    """Loops of an operator.

    Parameters
    ----------
    reads, makes
        A letter per dimension for each tensor read and each result; ``None`` for a missing result.
    terms
        For each tensor read, whether the operator is linear in it, so that pending sums pass where
        all of these have them; empty if none do.
    masked
        Loops of rows that are looked up: see :class:`~milp_plan.capture.nests.Nested`.
    exchanges
        Sums over processes inside the operator where a loop is split.
    agreed
        Loops along which results without them are equal everywhere, with no pending sums:
        known before, or summed inside.
    extents
        Loops with fewer steps than their dimensions have elements: groups of channels.
    """

    reads: tuple[str, ...]
    makes: tuple[str | None, ...]
    terms: tuple[bool, ...] = ()
    masked: str = ""
    exchanges: tuple[Exchange, ...] = ()
    agreed: str = ""
    extents: tuple[tuple[str, int], ...] = ()


Rule = Callable[[Kernel | View], Nest | None]
"""Function from a call to its nest; ``None``: it runs whole."""


def each(rank: int) -> str:
    """Return letters of loops, one per dimension."""
    return ascii_letters[:rank]
