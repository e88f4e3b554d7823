"""Forks and joins of a graph, and the parallel branches between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from milp_plan.core.budget import Budget

from .view import Separations

LARGEST = 16
"""Most operators between a fork and a join."""
_REACH = 64
"""Number of operators after a fork among which its joins are searched."""


class Region(NamedTuple):
    """Operators strictly between a fork and a join, in topological order."""

    fork: int
    join: int
    inside: tuple[int, ...]


def find_regions(plain: Separations, budget: Budget) -> Iterator[Region]:
    """Yield the forks and joins between which nothing is before or after all the rest."""
    view = plain.view
    reach = plain.through >= 0
    np.fill_diagonal(reach, False)
    joins = np.array([len(before) > 1 for before in view.before])
    for fork in range(view.size):
        if len(view.after[fork]) < 2:
            continue
        budget.check()
        part = np.flatnonzero(reach[fork])[:_REACH]
        within = reach[np.ix_(part, part)]
        ordered = within | within.T
        for at in np.flatnonzero(joins[part]):
            inside = np.flatnonzero(within[:, at])
            if not 2 <= len(inside) <= LARGEST:
                continue
            among = ordered[np.ix_(inside, inside)].sum(axis=1)
            members = part[inside]
            if among.max() == len(inside) - 1:
                continue
            apart = view.durations[members].sum()
            join = int(part[at])
            if plain.through[fork, join] - view.durations[fork] < apart:
                yield Region(fork, join, tuple(members.tolist()))
