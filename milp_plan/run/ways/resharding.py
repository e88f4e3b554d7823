"""Resharding: proofs, published heuristics, a search through orders, and the exact model."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from milp_plan.core.bound import Bound
from milp_plan.core.resharding import ReshardingPlan, ReshardingProblem

from ..way import Step, Way

DRAW_SHARE, SEARCH_SHARE = 0.05, 0.3
"""Parts of the time limit for random rounds beyond the first, and for the search."""

DRAWS = 20
"""Plans by random rounds, at most."""


class ReshardingWay(Way[ReshardingProblem, ReshardingPlan]):
    """The way for problems of resharding."""

    name = "resharding"

    @classmethod
    def unsuited(cls, problem: ReshardingProblem, repeatable: bool) -> str | None:
        """Every such problem."""
        return None

    @classmethod
    def formulation_for(cls, problem: ReshardingProblem) -> str | None:
        """Slots or order, as the problem allows."""
        return "resharding"

    def steps(self) -> Iterable[Step]:
        """Proofs, heuristics, the search, the model."""
        ledger = self.ledger
        return (
            Step("obstacle", ledger.look_for_obstacle),
            Step("bounds", ledger.find_bounds),
            Step("heuristics", self.try_heuristics, always=True),
            Step("search", self.search),
            Step("model", self.ask_whole),
        )

    def try_heuristics(self) -> None:
        """By load, by random rounds, and by more random rounds."""
        ledger, problem = self.ledger, self.ledger.problem
        seed = ledger.settings.seed
        with ledger.budget.phase("heuristics"):
            for name, planner in ledger.kind.heuristics().items():
                ledger.offer(planner(problem, seed), name, "heuristics")
                ledger.baselines[name] = ledger.reached.get(name)
            part = ledger.budget.part("random rounds", DRAW_SHARE)
            for number in count(1):
                if number >= DRAWS or ledger.done or part.over:
                    return
                ledger.offer(planner(problem, seed + number), name, "heuristics")

    def search(self) -> None:
        """Orders of deliveries; small problems are proved here, in exact integers."""
        from milp_plan.planners.resharding import Search

        ledger = self.ledger
        part = ledger.budget.part("search", SEARCH_SHARE)
        with ledger.budget.phase("search"):
            search = Search(ledger.problem, ledger.value, ledger.lower or 0)
            for found in search.run(part):
                if isinstance(found, Bound):
                    ledger.prove(found)
                else:
                    ledger.offer(found, found.planner, "search")
