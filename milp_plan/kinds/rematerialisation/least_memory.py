"""Least peak memory of rematerialisation within a limit of added time: bisection over budgets.

Let f(B) be the least time added within B bytes; it falls as B grows. A plan within B that adds no
more than the limit has a peak of at most B, so the value is at most that. Where every plan within
B adds more, or there is none, every plan within the limit has a peak above B; peaks are multiples
of the bytes' common divisor g, and so is B, so B + g is a bound. Each question is a run of the
other objective that ends as soon as it is answered either way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import gcd
from typing import TYPE_CHECKING

from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.run.ledger import Ledger
from milp_plan.run.settings import MODEL_ALONE, Settings
from milp_plan.run.strategy import Step, Strategy

from .problem import RematerialisationObjective, RematerialisationPlan, RematerialisationProblem
from .small_strategy import offer_best_of_all, offer_once
from .strategy import RematerialisationStrategy

if TYPE_CHECKING:
    from milp_plan.run.model import FormulationSolver

NAME = "budgets by bisection"

SHARE = 0.3
"""Share of the time left for one budget."""

MIN_S = 0.2
"""Least time for which a budget is tried, seconds."""


class Question(Ledger[RematerialisationProblem, RematerialisationPlan]):
    """Decides whether a budget allows a plan within the limit of added time; then it ends."""

    most: int | None = None

    @property
    def yes(self) -> bool:
        """Whether such a plan is known."""
        return self.value is not None and (self.most is None or self.value <= self.most)

    @property
    def no(self) -> bool:
        """Whether it is proved that there is none."""
        late = self.most is not None and self.lower is not None and self.lower > self.most
        return late or self.infeasible_reason is not None

    @property
    def settled(self) -> bool:
        """Whether the answer is known."""
        return self.yes or self.no


class LeastMemoryStrategy(Strategy[RematerialisationProblem, RematerialisationPlan]):
    """The strategy for least peak memory."""

    name = "least memory"
    uses = MODEL_ALONE

    @classmethod
    def why_not(cls, problem: RematerialisationProblem, repeatable: bool) -> str | None:
        """Accept problems of rematerialisation whose peak memory is minimised."""
        least = RematerialisationObjective.PEAK_MEMORY
        return None if problem.objective is least else "it minimises peak memory"

    @classmethod
    def unused(
        cls,
        problem: RematerialisationProblem,
        settings: Settings,
        solver: FormulationSolver | None,
    ) -> dict[str, str]:
        """Return also a formulation without ``only``: budgets are tried without it."""
        why = super().unused(problem, settings, solver)
        if solver is not None and not settings.only:
            reason = f"the strategy {cls.name!r}: budgets are tried without the formulation's model"
            why |= dict.fromkeys(("formulation", "options", "solver"), f"{reason}; add only")
        return why

    def steps(self) -> Iterable[Step]:
        """Run proofs, every operator once, budgets."""
        ledger = self.ledger
        return (
            Step("obstacle", ledger.prove_infeasible),
            Step("bounds", ledger.find_bounds),
            Step("every plan", lambda: offer_best_of_all(ledger)),
            Step("once", lambda: offer_once(ledger), run_after_time_limit=True),
            Step("budgets", self.bisect),
        )

    def bisect(self) -> None:
        """Try budgets between bound and value; undecided ones are tried again with more time."""
        ledger = self.ledger
        grain = gcd(*(entry.size for entry in ledger.problem.computations)) or 1
        with ledger.budget.phase("budgets"):
            if ledger.value is None and not self.begin():
                return
            low = ledger.lower or 0
            while ledger.value is not None and not ledger.done and self.has_time:
                if low >= ledger.value:
                    if ledger.repeatable:
                        return
                    low = ledger.lower or 0
                budget = low + (ledger.value - low) // grain // 2 * grain
                question = self.ask(budget)
                if question.no:
                    detail = f"no plan within {budget} bytes adds as little as it must"
                    ledger.prove(Bound(NAME, budget + grain, detail))
                if not question.yes:
                    low = budget + grain

    @property
    def has_time(self) -> bool:
        """Return whether there is time for another budget."""
        return self.ledger.budget.left_s > MIN_S

    def begin(self) -> bool:
        """Find a plan within the problem's own budget; return whether there is one."""
        ledger = self.ledger
        budget = ledger.problem.budget
        assert budget is not None  # else every operator once is a plan
        question = self.ask(budget)
        if question.no:
            ledger.refute(f"no plan within {budget} bytes adds as little as it must")
        return question.yes

    def ask(self, budget: int) -> Question:
        """Decide whether a budget suffices, and offer the plan that proves it."""
        ledger = self.ledger
        least = RematerialisationObjective.ADDED_TIME
        problem = replace(ledger.problem, objective=least, added_limit=None, budget=budget)
        settings = replace(ledger.settings, start=None, gap=0.0)
        part = ledger.budget.part("budget", SHARE, of_limit=False)
        inner = Budget(part.limit_s, part.nodes)
        question = Question(ledger.kind, problem, settings, inner)
        question.most = ledger.problem.added_limit
        RematerialisationStrategy(question).run_steps()
        for defect in question.defects:
            ledger.fail(defect)
        if question.yes:
            ledger.offer(question.plan, NAME, "budgets")
        return question
