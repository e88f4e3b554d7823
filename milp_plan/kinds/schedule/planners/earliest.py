"""List scheduling by the clock: of everything that is ready, whatever can start first.

J.-J. Hwang, Y.-C. Chow, F. D. Anger, C.-Y. Lee, "Scheduling precedence graphs in systems with
interprocessor communication times", SIAM Journal on Computing 18 (1989). Without transfers it is
Graham's list scheduling: whenever a device falls idle it takes the first ready operator.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from milp_plan.core import Placement, Plan, PlanningProblem

from .dispatch import Rule, best_probe, ranks_of
from .indexed import Spot, indexed
from .supply import Probe
from .timetable import Timetable

Entry = tuple[int, float, int]
"""(start, rank, position in topological order) of a ready operator."""


def dispatch_earliest(
    problem: PlanningProblem,
    *,
    priority: Sequence[str] | Mapping[str, float],
    placements: Mapping[str, Placement] | None = None,
    headroom: int = 0,
) -> Plan | None:
    """Schedule by repeatedly taking the ready operator that can start earliest.

    Parameters
    ----------
    problem
        What to plan.
    priority, placements, headroom
        As for :func:`.dispatch`; the priority decides between equal starts.

    Returns
    -------
    Plan or None
        ``None`` when operators are left that fit nowhere, or ``placements`` tears a group apart.
    """
    view = indexed(problem)
    fixed = view.spots_of(placements or {})
    if not view.colocated(fixed):
        return None
    table = Timetable(view, fixed, insertion=False, headroom=headroom)
    return _Clock(table, fixed, ranks_of(view, priority)).run()


class _Clock:
    """The ready operators by when they can start, and those that fit nowhere now."""

    def __init__(
        self, table: Timetable, fixed: Sequence[Spot | None], ranks: Sequence[float]
    ) -> None:
        self._table = table
        self._fixed = fixed
        self._ranks = ranks
        self._heap: list[Entry] = []
        self._waiting: list[int] = []

    def run(self) -> Plan | None:
        """Place one operator after the other; ``None`` when some are left over."""
        table, view = self._table, self._table.view
        missing = [len(before) for before in view.predecessors]
        self._offer([operator for operator in view.topological if not missing[operator]])
        while self._heap:
            operator = view.topological[heapq.heappop(self._heap)[2]]
            result = self._look(operator)
            if result is None:
                continue
            # Starts mostly only get later: an old one that is still first is the earliest.
            if self._heap and result[0] > self._heap[0]:
                heapq.heappush(self._heap, result[0])
                continue
            table.commit(result[1])
            fresh = []
            for successor in view.successors[operator]:
                missing[successor] -= 1
                if not missing[successor]:
                    fresh.append(successor)
            if table.freed:
                fresh += self._waiting
                self._waiting = []
            self._offer(fresh)
        return None if self._waiting else table.plan()

    def _offer(self, operators: Sequence[int]) -> None:
        for operator in operators:
            result = self._look(operator)
            if result is not None:
                heapq.heappush(self._heap, result[0])

    def _look(self, operator: int) -> tuple[Entry, Probe] | None:
        probe = best_probe(self._table, operator, self._fixed[operator], Rule.START)
        if probe is None:
            self._waiting.append(operator)
            return None
        position = self._table.view.position[operator]
        return (probe.start, self._ranks[operator], position), probe
