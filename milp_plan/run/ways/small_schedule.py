"""Few operators: placements and orders are looked at before bounds and models take their time."""

from __future__ import annotations

from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.core.compiled import kept
from milp_plan.planners.enumeration import Enumeration

from ..compiling import ENUMERATION, LAST
from ..ledger import Ledger
from ..settings import AUTO

SHARE, LOOKED_AT = 0.15, 500_000
"""Part of the time limit; choices and schedules looked at where a run must be repeatable: fewer for
many operators, of which each takes a time that grows with the square of their number."""

AT_ONCE_S, LEAST_S = 2.0, 5.0
"""Seconds before the bounds, and the least that must be left: loading its loops takes a second."""

MANY = 40
"""Operators from which on fewer are looked at."""

FEW = 20
"""Operators below which bounds come first: they take milliseconds, mostly prove, load nothing."""


class SmallSearch:
    """Every placement and order of a small problem, but those that cannot be better.

    Parameters
    ----------
    ledger
        Of the run.
    """

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        self.ledger = ledger
        self._search: Enumeration | None = None

    @property
    def suits(self) -> bool:
        """Whether all may be looked at; who names a formulation asks for its model."""
        return self.ledger.settings.formulation == AUTO and Enumeration.suits(self.ledger.problem)

    @property
    def leads(self) -> bool:
        """Whether baselines and a moment of it come before the bounds."""
        return self.suits and len(self.ledger.problem.graph.operators) >= FEW

    @property
    def ready(self) -> bool:
        """Whether it can begin before the bounds: nothing to compile, and time for them left."""
        ledger = self.ledger
        enough = not ledger.repeatable and ledger.budget.left_s >= LEAST_S
        return self.leads and enough and kept(LAST[ENUMERATION])

    @property
    def _most(self) -> int:
        """Choices and schedules to look at where the clock does not count."""
        many = max(MANY, len(self.ledger.problem.graph.operators))
        return LOOKED_AT * MANY**2 // many**2

    def begin(self) -> None:
        """Search for a moment, which is enough for most."""
        self._look(self.ledger.budget.at_most("enumerate", AT_ONCE_S))

    def go(self) -> None:
        """Search on."""
        self._look(self.ledger.budget.part("enumerate", SHARE))

    def _look(self, part: Budget) -> None:
        ledger = self.ledger
        with ledger.budget.phase("enumerate"):
            search = self._search = self._search or Enumeration(ledger.problem)
            search.cut(ledger.value)
            for plan in search.plans(part, self._most if ledger.repeatable else None):
                ledger.offer(plan, plan.planner, "enumerate")
        if search.least is not None:
            ledger.prove(Bound("enumeration", search.least, "no placement and no order is shorter"))
