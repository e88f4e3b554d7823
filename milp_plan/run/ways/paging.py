"""Rematerialisation with a host, or with energy to save: the model of the backbone.

Plans that add time alone are plans here as well; the greedy's is one.
"""

from __future__ import annotations

from collections.abc import Iterable

from milp_plan.core.rematerialisation import (
    RematerialisationObjective,
    RematerialisationPlan,
    RematerialisationProblem,
)
from milp_plan.planners.rematerialisation import NAME, greedy

from ..way import Step, Way
from .small_rematerialisation import offer_best_of_all, offer_once


class PagingWay(Way[RematerialisationProblem, RematerialisationPlan]):
    """The way for problems with a host, or of energy."""

    name = "paging"

    @classmethod
    def formulation_for(cls, problem: RematerialisationProblem) -> str:
        """The only one that knows both."""
        return "remat_backbone"

    @classmethod
    def unsuited(cls, problem: RematerialisationProblem, repeatable: bool) -> str | None:
        """Every problem with a host, or of energy."""
        energy = problem.objective is RematerialisationObjective.ADDED_ENERGY
        return None if energy or problem.host is not None else "no host, and no energy to save"

    def steps(self) -> Iterable[Step]:
        """Proofs, plans that do without, the model."""
        ledger = self.ledger
        return (
            Step("obstacle", ledger.look_for_obstacle),
            Step("bounds", ledger.find_bounds),
            Step("every plan", lambda: offer_best_of_all(ledger)),
            Step("once", lambda: offer_once(ledger), always=True),
            Step("greedy", self.relieve),
            Step("model", self.solve, lambda: ledger.formulation is not None),
        )

    def relieve(self) -> None:
        """Run again what idles; that may take longer than it may."""
        ledger = self.ledger
        plan = greedy(ledger.problem, ledger.settings.seed)
        ledger.offer(plan, NAME, "greedy", sure=False)
        ledger.baselines[NAME] = ledger.reached.get(NAME)

    def solve(self) -> None:
        """Ask the formulation; the best plan is its start."""
        ledger = self.ledger
        ledger.say("model", ledger.solver.formulation.card.name)
        self.ask_up_to(ledger.value, ledger.budget, start=ledger.plan)
