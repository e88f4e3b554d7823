"""Few operators: enumeration and clause learning before bounds and models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.run.ledger import Ledger
from milp_plan.run.loop_parts import LoopPart
from milp_plan.run.settings import AUTO

from ..loops import ENUMERATION, LEARNING, LIST_SCHEDULES
from ..planners.enumeration import sizes
from ..planners.enumeration.sizes import is_small
from ..planners.learning import ClauseLearning

if TYPE_CHECKING:
    from ..planners.enumeration.search import Enumeration

SHARE, LOOKED_AT = 0.15, 500_000
"""Part of the time limit; choices and schedules looked at where a run must be repeatable: fewer for
many operators, of which each takes a time that grows with the square of their number."""

CONFLICTS = 200_000
"""Conflicts of the search that learns where a run must be repeatable, over the operators."""

AT_ONCE_S, LEAST_S = 2.0, 5.0
"""Seconds before the bounds, and the least that must be left: loading its loops takes a second."""

MANY = 40
"""Operators from which on fewer are looked at."""

FEW = 20
"""Operators below which bounds come first: they take milliseconds, mostly prove, load nothing."""

EVERY_PLAN_SHARE = 0.3
"""Part of the time limit for every plan of a tiny problem."""

NO_PLAN = "every placement and every order was looked at; none keeps the laws"


class SmallSearch:
    """Every placement and order of a small problem, but those that cannot be better.

    Where each operator has one option, on one device, a search that learns clauses takes them;
    enumeration takes the others, and what the first leaves open.

    Parameters
    ----------
    ledger
        Of the run, or of a coarse problem.
    """

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        self.ledger = ledger
        self._learning: ClauseLearning | None = None
        self._enumeration: Enumeration | None = None
        free = ledger.settings.formulation == AUTO  # who names a formulation asks for its model
        self.learns = free and ClauseLearning.suits(ledger.problem)
        self.enumerates = free and is_small(ledger.problem)

    @property
    def suits(self) -> bool:
        """Whether one of the searches applies."""
        return self.learns or self.enumerates

    @property
    def loops(self) -> tuple[LoopPart, ...]:
        """Parts of the compiled loops that it needs."""
        first = (LEARNING,) if self.learns else ()
        return (*first, LIST_SCHEDULES, ENUMERATION) if self.enumerates else first

    @property
    def leads(self) -> bool:
        """Whether baselines and a moment of it come before the bounds."""
        return self.suits and len(self.ledger.problem.graph.operators) >= FEW

    @property
    def ready(self) -> bool:
        """Whether it can begin before the bounds: nothing to compile, and time for them left."""
        ledger = self.ledger
        enough = not ledger.repeatable and ledger.budget.left_s >= LEAST_S
        return self.leads and enough and (LEARNING if self.learns else ENUMERATION).on_disk

    @property
    def operators(self) -> int:
        """Operators of the problem."""
        return len(self.ledger.problem.graph.operators)

    def begin(self) -> None:
        """Search briefly, which is enough for most problems."""
        part = self.ledger.budget.at_most("enumerate", AT_ONCE_S)
        if self.learns:
            self.learn(part)
        else:
            self._enumerate(part)

    def go(self) -> None:
        """Search on."""
        if self.learns:
            self.learn(self.ledger.budget.part("enumerate", SHARE))
        if self.enumerates and not self.ledger.done:
            self._enumerate(self.ledger.budget.part("enumerate", SHARE))

    def learn(self, part: Budget) -> None:
        """Search for shorter plans by clause learning."""
        ledger = self.ledger
        with ledger.budget.phase("enumerate"):
            search = self._learning
            if search is None:
                search = self._learning = ClauseLearning(ledger.problem, ledger.value)
                if ledger.plan is not None and ledger.plan.has_schedule:
                    search.follow(ledger.plan)
            if ledger.value is not None:
                search.cut(ledger.value)
            most = CONFLICTS // self.operators if ledger.repeatable else None
            for plan in search.plans(part, most):
                ledger.offer(plan, plan.planner, "enumerate")
        if search.least is not None:
            ledger.prove(Bound("clause learning", search.least, "every shorter plan contradicts"))

    def _enumerate(self, part: Budget) -> None:
        from ..planners.enumeration.search import Enumeration

        ledger, many = self.ledger, max(MANY, self.operators)
        most = LOOKED_AT * MANY**2 // many**2
        with ledger.budget.phase("enumerate"):
            search = self._enumeration = self._enumeration or Enumeration(ledger.problem)
            search.cut(ledger.value)
            for plan in search.plans(part, most if ledger.repeatable else None):
                ledger.offer(plan, plan.planner, "enumerate")
        if search.least is not None:
            ledger.prove(Bound("enumeration", search.least, "no placement and no order is shorter"))


def is_tiny(ledger: Ledger[PlanningProblem, Plan]) -> bool:
    """Whether to enumerate every plan; a formulation by name asks for its model instead."""
    return ledger.settings.formulation == AUTO and sizes.is_tiny(ledger.problem)


def offer_best_of_all(ledger: Ledger[PlanningProblem, Plan]) -> None:
    """Enumerate the plans of a tiny problem that may be better than the best one."""
    from ..planners.enumeration.every import EVERY_PLAN, MOST_STEPS, EveryPlan

    search = EveryPlan(ledger.problem, ledger.value)
    with ledger.budget.phase(EVERY_PLAN):
        part = ledger.budget.part(EVERY_PLAN, EVERY_PLAN_SHARE)
        for plan in search.plans(part, MOST_STEPS if ledger.repeatable else None):
            ledger.offer(plan, EVERY_PLAN, EVERY_PLAN)
    if not search.complete:
        return
    if search.best is None:
        ledger.refute(NO_PLAN)
    else:
        ledger.prove(Bound(EVERY_PLAN, search.best, "no plan is better"))
