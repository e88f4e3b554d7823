"""Few operators: enumeration and clause learning before bounds and models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget, OutOfTime, now
from milp_plan.core.compiled import interpreted
from milp_plan.run.ledger import Ledger
from milp_plan.run.loop_parts import LoopPart
from milp_plan.run.settings import AUTO

from ..loops import ENUMERATION, LEARNING, LIST_SCHEDULES
from ..planners.enumeration import sizes
from ..planners.enumeration.sizes import is_small
from ..planners.learning import ClauseLearning

if TYPE_CHECKING:
    from ..planners.enumeration.search import Enumeration

SHARE = 0.15
"""Part of the time limit for each of the two searches."""

MAX_NODES = 500_000
"""Choices and schedules that the enumeration of a repeatable run examines; fewer for more than
:data:`FULL_SPEED_OPERATORS`, since the time of each grows with the square of their number."""

FULL_SPEED_OPERATORS = 40
"""Operators up to which a repeatable run examines :data:`MAX_NODES`."""

MAX_CONFLICTS = 200_000
"""Conflicts of clause learning in a repeatable run, times the number of operators."""

BEGIN_S, LEAST_S = 2.0, 5.0
"""Seconds of the search before the bounds, and the seconds that must be left for it: loading the
loops takes one."""

BOUNDS_FIRST = 20
"""Number of operators below which bounds come first: they take milliseconds, mostly prove the
optimum, and load nothing."""

EVERY_PLAN_SHARE = 0.3
"""Part of the time limit for every plan of a tiny problem."""

NO_PLAN = "every placement and every order was examined; none keeps the laws"


class SmallSearch:
    """Complete search over the placements and orders of a small problem.

    Clause learning applies where each operator has one option, on one device; enumeration
    applies to other problems, and to those that clause learning does not finish.

    Parameters
    ----------
    ledger
        The ledger of the run or of a coarse problem.
    """

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        self.ledger = ledger
        self._learning: ClauseLearning | None = None
        self._enumeration: Enumeration | None = None
        automatic = ledger.settings.formulation == AUTO  # a formulation that is named is used
        self.learns = automatic and ClauseLearning.suits(ledger.problem)
        self.enumerates = automatic and is_small(ledger.problem)

    @property
    def suits(self) -> bool:
        """Whether one of the searches applies."""
        return self.learns or self.enumerates

    @property
    def loops(self) -> tuple[LoopPart, ...]:
        """Compiled loops that the searches need."""
        first = (LEARNING,) if self.learns else ()
        return (*first, LIST_SCHEDULES, ENUMERATION) if self.enumerates else first

    @property
    def leads(self) -> bool:
        """Whether baselines and a short search come before the bounds."""
        return self.suits and self.operators >= BOUNDS_FIRST

    @property
    def ready(self) -> bool:
        """Whether it can begin before the bounds: loops are compiled and there is enough time."""
        ledger = self.ledger
        has_time = not ledger.repeatable and ledger.budget.left_s >= LEAST_S
        return self.leads and has_time and (LEARNING if self.learns else ENUMERATION).on_disk

    @property
    def operators(self) -> int:
        """Number of operators."""
        return len(self.ledger.problem.graph.operators)

    def begin(self) -> None:
        """Search briefly, which is enough for most problems."""
        part = self.ledger.budget.at_most("enumerate", BEGIN_S)
        if self.learns:
            self.learn(part)
        else:
            self._enumerate(part)

    def begin_interpreted(self) -> None:
        """Search briefly by loops that run as Python; they stop halfway when time is over."""
        until = now() + min(BEGIN_S, self.ledger.budget.left_s)
        try:
            with interpreted(until):
                self.begin()
        except OutOfTime:  # the searches stopped inside a loop: begin anew later
            self._learning = self._enumeration = None

    def go(self) -> None:
        """Continue the search."""
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
            max_conflicts = MAX_CONFLICTS // self.operators if ledger.repeatable else None
            for plan in search.plans(part, max_conflicts):
                ledger.offer(plan, plan.planner, "enumerate")
        if search.least is not None:
            ledger.prove(Bound("clause learning", search.least, "every shorter plan contradicts"))

    def _enumerate(self, part: Budget) -> None:
        from ..planners.enumeration.search import Enumeration

        ledger, size = self.ledger, max(FULL_SPEED_OPERATORS, self.operators)
        max_nodes = MAX_NODES * FULL_SPEED_OPERATORS**2 // size**2
        with ledger.budget.phase("enumerate"):
            search = self._enumeration = self._enumeration or Enumeration(ledger.problem)
            search.cut(ledger.value)
            for plan in search.plans(part, max_nodes if ledger.repeatable else None):
                ledger.offer(plan, plan.planner, "enumerate")
        if search.least is not None:
            ledger.prove(Bound("enumeration", search.least, "no placement and no order is shorter"))


def is_tiny(ledger: Ledger[PlanningProblem, Plan]) -> bool:
    """Return whether to enumerate every plan; a formulation that is named is used instead."""
    return ledger.settings.formulation == AUTO and sizes.is_tiny(ledger.problem)


def offer_best_of_all(ledger: Ledger[PlanningProblem, Plan]) -> None:
    """Enumerate the plans of a tiny problem that may be better than the best known one."""
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
