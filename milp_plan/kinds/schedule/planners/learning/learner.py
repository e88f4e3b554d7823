"""The shortest plan of a small problem, by clause learning."""

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

CONFLICTS_PER_CHECK = 20
"""Conflicts between two checks of the budget: with 100 operators they take most of a second."""

MAX_LEARNED = 4000
"""Learned clauses above which the first of them are deleted; the limit grows later."""

NAME = "clause learning"


class ClauseLearning:
    """Search over places and orders that learns a clause from every conflict (see :mod:`.state`).

    At first there are no transfers: an operator waits for the transfer times of its inputs, as if
    channels were never busy, and only persistent values use memory. When everything is decided,
    the schedule is made. Transfers that overlap and devices that overflow then become tasks,
    orders and clauses (see :mod:`.leaf`), and the search continues.

    Parameters
    ----------
    problem
        A problem that :meth:`suits` accepts.
    known
        Value of the best known plan: the search is for shorter ones.
    """

    def __init__(self, problem: PlanningProblem, known: int | None = None) -> None:
        self.problem, self.best = problem, known
        self.reading = Reading(problem, None if known is None else known - 1)
        self.net, self.state = self.reading.net, self.reading.net.state
        self.steps = np.array([CONFLICTS_PER_CHECK, 0, 0, MAX_LEARNED], dtype=np.int64)
        self.weights = np.array([1.0])
        self.state.n[AIM] = 8
        self.leaves = 0
        self.complete = False

    @staticmethod
    def suits(problem: PlanningProblem) -> bool:
        """Return whether the search applies to a problem and its numbers are small enough."""
        return why_not(problem) is None

    @property
    def conflicts(self) -> int:
        """Number of conflicts so far."""
        return int(self.state.n[CONFLICTS])

    @property
    def least(self) -> int | None:
        """Proven lower bound in ticks; ``None`` where it is proved that there is no plan."""
        if self.complete:
            return self.best
        undo(self.state, 0)
        return self.net.least(self.reading.goal)

    def follow(self, plan: Plan) -> None:
        """Prefer the decisions of a plan."""
        self.reading.follow(plan)

    def cut(self, known: int) -> None:
        """Search only for plans shorter than ``known`` ticks from now on."""
        if self.best is None or known < self.best:
            self.best = known
            undo(self.state, 0)
            if not put(self.state, 2 * self.reading.goal, known - 1, FACT, 0):
                self.state.n[UNIT_CONFLICT] = 1

    def plans(self, budget: Budget, conflicts: int | None = None) -> Iterator[Plan]:
        """Yield better and better plans until the search is complete or a limit is reached."""
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
        """Return the plan of a leaf; where it breaks a law, add clauses and return ``None``."""
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
            leaf.add_clauses()
            return None
        value = max(start + tasks.ticks[i] for i, start in enumerate(starts[: tasks.operators]))
        self.cut(value)
        return tasks.plan(starts, NAME)
