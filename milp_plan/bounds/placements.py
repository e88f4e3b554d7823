"""Least makespan over all placements of a small graph.

Proof. The whole graph is a region in the sense of :mod:`.region_times`, between the beginning of
the plan and its end; only that its first and last operators take their time.
"""

from __future__ import annotations

import numpy as np

from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget

from .frame import Frame
from .region_search import ENDLESS
from .region_times import Search, searched
from .regions import Region
from .view import Separations, View

LARGEST = 40
"""Operators beyond which the search gets nowhere."""
_WORK = 2**25
"""Pairs of operators looked at, in all placements together."""


def placement_bound(frame: Frame, budget: Budget) -> Bound | None:
    """Least makespan of all placements; ``None`` for large graphs and for process groups.

    Parameters
    ----------
    frame
        Without obstacle.
    budget
        Gives up with :class:`OutOfTime`.
    """
    size = len(frame.names)
    if not 2 <= size <= LARGEST or not frame.single:
        return None
    plain = Separations(View(frame, False), budget)
    search = Search(plain, budget)
    parts = search.parts((Region(0, size - 1, tuple(range(1, size - 1))),))
    ticks = np.array([search.ticks_of(v) for v in range(size)], dtype=np.int64)
    most = _WORK // size**2
    value = searched(parts._replace(ticks=ticks), np.zeros(1, dtype=np.int64), (most, most))
    if value >= ENDLESS:  # no placement fits: infeasible, said elsewhere or by the model
        return None
    return Bound("placements", value * plain.view.tick, "every placement is at least as long")
