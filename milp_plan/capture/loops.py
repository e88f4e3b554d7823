"""Loop nests of operators: a loop for each dimension of each tensor, along which it may be cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from string import ascii_letters

from milp_plan.cost.mesh import Exchange
from milp_plan.io.capture_wire import Kernel, View

WHOLE = "."
"""Stands for the loop of a dimension that is never cut."""


@dataclass(frozen=True)
class Nest:
    """Loops of an operator.

    Parameters
    ----------
    reads, makes
        A letter per dimension for each tensor read and each result; ``None`` for a result that is
        not made.
    terms
        For each tensor read, whether the operator is linear in it, so that pending sums pass where
        they lie in all of these; empty where none do.
    masked
        Loops of rows that are looked up: see :class:`~milp_plan.capture.nests.Nested`.
    exchanges
        Sums that the processes add up inside the operator where a loop is cut.
    agreed
        Loops along which results that they do not run over are the same everywhere, and no sums to
        come: known before, or added up inside.
    extents
        Loops with fewer steps than the dimensions they run over have elements: groups of channels.
    """

    reads: tuple[str, ...]
    makes: tuple[str | None, ...]
    terms: tuple[bool, ...] = ()
    masked: str = ""
    exchanges: tuple[Exchange, ...] = ()
    agreed: str = ""
    extents: tuple[tuple[str, int], ...] = ()


Rule = Callable[[Kernel | View], Nest | None]
"""From a call to its nest; ``None``: it runs whole."""


def each(rank: int) -> str:
    """Return letters of loops, one per dimension."""
    return ascii_letters[:rank]
