"""The shortest plan of a small problem, by a search that learns from its conflicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from milp_plan.core import Placement, Plan, PlanningProblem
from milp_plan.core.budget import Budget

from ..enumeration.tasks import all_tasks
from .leaf import Leaf
from .reading import Reading, why_not
from .search import DONE, FULL, LEAF, search
from .state import AIM, CONFLICTS, FACT, UNIT_CONFLICT, put, undo

AT_ONCE = 20
"""Conflicts between two looks at the budget: of 100 operators they take most of a second."""

KEPT = 4000
"""Learned clauses before the first of them are forgotten."""

NAME = "clause learning"


class ClauseLearning:
    """Search over places and orders whose every dead end becomes a clause (see :mod:`.state`).

    Transfers are no part of it at first: an operator waits for what travels, as if channels were
    never busy, and memory has room for what lasts. Where all is decided, the schedule is made. What
    it breaks, transfers that overlap or a device that overflows, becomes tasks, orders and clauses
    of their own (see :mod:`.leaf`), and the search goes on.

    Parameters
    ----------
    problem
        One that :meth:`suits`.
    known
        Value of the best plan known: only shorter ones are looked for.
    """

    def __init__(self, problem: PlanningProblem, known: int | None = None) -> None:
        self.problem, self.best = problem, known
        self.reading = Reading(problem, None if known is None else known - 1)
        self.net, self.state = self.reading.net, self.reading.net.state
        self.steps = np.array([AT_ONCE, 0, 0, KEPT], dtype=np.int64)
        self.weights = np.array([1.0])
        self.state.n[AIM] = 8
        self.leaves = 0
        self.complete = False

    @staticmethod
    def suits(problem: PlanningProblem) -> bool:
        """Whether a problem can be read and its numbers are small enough."""
        return why_not(problem) is None

    @property
    def conflicts(self) -> int:
        """Conflicts so far."""
        return int(self.state.n[CONFLICTS])

    @property
    def least(self) -> int | None:
        """Ticks below which there is no plan; ``None`` where it is proved that there is none."""
        if self.complete:
            return self.best
        undo(self.state, 0)
        return self.net.least(self.reading.goal)

    def follow(self, plan: Plan) -> None:
        """Decide as a plan does, where nothing else is known."""
        self.reading.follow(plan)

    def cut(self, known: int) -> None:
        """From here on look only for plans shorter than ``known`` ticks."""
        if self.best is None or known < self.best:
            self.best = known
            undo(self.state, 0)
            if not put(self.state, 2 * self.reading.goal, known - 1, FACT, 0):
                self.state.n[UNIT_CONFLICT] = 1

    def plans(self, budget: Budget, conflicts: int | None = None) -> Iterator[Plan]:
        """Yield better and better plans until all is done or the budget or ``conflicts`` end."""
        until = None if conflicts is None else self.conflicts + conflicts
        while not (budget.over or self.complete or self.net.full):
            if until is not None and self.conflicts >= until:
                return
            end = search(self.state, self.steps, self.weights)
            if end == DONE:
                self.complete = True
            elif end == FULL:
                return
            elif end == LEAF:
                plan = self._plan()
                if plan is not None:
                    yield plan

    def _plan(self) -> Plan | None:
        """The plan of a leaf; ``None`` where it breaks a law, which the network then knows."""
        self.leaves += 1
        reading = self.reading
        places = reading.places()
        placement: Mapping[str, Placement] = {
            operator.name: Placement(
                operator.options[0].name, (reading.devices[places[reading.unit[i]]],)
            )
            for i, operator in enumerate(reading.graph.operators)
        }
        tasks = next(all_tasks(self.problem, placement))
        leaf = Leaf(reading, tasks, places)
        starts = leaf.starts()
        undo(self.state, 0)
        if starts is None:
            leaf.teach()
            return None
        value = max(start + tasks.ticks[i] for i, start in enumerate(starts[: tasks.operators]))
        self.cut(value)
        return tasks.plan(starts, NAME)
