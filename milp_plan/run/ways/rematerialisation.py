"""Rematerialisation: proofs, the greedy, and what improves it."""

from __future__ import annotations

from collections.abc import Iterable

from milp_plan.core.rematerialisation import RematerialisationPlan, RematerialisationProblem
from milp_plan.planners.rematerialisation import NAME, greedy

from ..way import Step, Way


class RematerialisationWay(Way[RematerialisationProblem, RematerialisationPlan]):
    """The way for problems of rematerialisation."""

    name = "rematerialisation"

    @classmethod
    def unsuited(cls, problem: RematerialisationProblem, repeatable: bool) -> str | None:
        """Every such problem."""
        return None

    def steps(self) -> Iterable[Step]:
        """Proofs, every operator once, and the greedy."""
        ledger = self.ledger
        return (
            Step("obstacle", ledger.look_for_obstacle),
            Step("once", self.run_once, always=True),
            Step("bounds", ledger.find_bounds),
            Step("greedy", self.relieve),
        )

    def run_once(self) -> None:
        """Every operator once: no time is added, if the budget allows it."""
        problem = self.ledger.problem
        runs = tuple(entry.name for entry in problem.computations)
        plan = RematerialisationPlan(problem.name, runs)
        self.ledger.offer(plan, "every operator once", "once", sure=False)

    def relieve(self) -> None:
        """Let go, again and again, what idles across the fullest run."""
        ledger = self.ledger
        with ledger.budget.phase("greedy"):
            plan = greedy(ledger.problem, ledger.settings.seed)
        ledger.offer(plan, NAME, "greedy")
        ledger.baselines[NAME] = ledger.reached.get(NAME)
