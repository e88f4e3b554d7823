"""Windows of a plan: which operators a round of the search frees, and where they may go."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ..planners.indexed import Indexed
from .timeline import Timeline

MOST_SITES = 4
"""Most sites other than its own that a free operator may go to."""


class Window(NamedTuple):
    """Operators to free, and sites that they may go to (``None``: all)."""

    free: tuple[int, ...]
    sites: frozenset[int] | None


def random_window(timeline: Timeline, rng: random.Random, size: int) -> Window:
    """Return the operators that run around a random critical task, with their groups.

    A window without a critical task could not improve the plan.

    Parameters
    ----------
    timeline
        The plan.
    rng
        Random choices.
    size
        Number of operators, before colocation groups are completed.
    """
    view = timeline.view
    task, n = rng.choice(timeline.critical), view.num_operators
    moments = 2 * timeline.start + timeline.length
    nearest = np.argsort(np.abs(moments[:n] - moments[task]), kind="stable")[:size].tolist()
    return Window(_with_units(view, nearest, size), _few_sites(timeline, rng, nearest))


def _few_sites(
    timeline: Timeline, rng: random.Random, operators: Iterable[int]
) -> frozenset[int] | None:
    """Return a few sites: those of neighbours in the graph, then random ones."""
    view, spots = timeline.view, timeline.spots
    if len(view.sites) <= MOST_SITES + 1:
        return None
    near = {
        spots[other].site
        for op in operators
        for other in (*view.predecessors[op], *view.successors[op])
    }
    known = sorted(near)
    rng.shuffle(known)
    others = rng.sample(range(len(view.sites)), MOST_SITES)
    return frozenset([*known, *others][:MOST_SITES])


def _with_units(view: Indexed, chosen: Iterable[int], size: int) -> tuple[int, ...]:
    """Complete colocation groups by at most ``size`` operators, so that they can move."""
    operators = dict.fromkeys(chosen)
    room = size
    for op in list(operators):
        members = view.units[view.unit[op]]
        new = [other for other in members if other not in operators]
        if len(new) <= room:
            operators.update(dict.fromkeys(new))
            room -= len(new)
    return tuple(operators)
