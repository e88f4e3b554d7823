"""Resharding: proofs, published heuristics, a search through orders, and the exact model."""

from __future__ import annotations

from collections.abc import Iterable

from milp_plan.core.bound import Bound
from milp_plan.core.resharding import ReshardingPlan, ReshardingProblem

from ..way import Step, Way

DRAW_SHARE, SEARCH_SHARE = 0.05, 0.3
"""Parts of the time limit for random rounds beyond the first, and for the search."""

DRAWS = 20
"""Plans by random rounds, at most."""

DRAWN, SEARCHED = 200, 1_000
"""Slices up to which random rounds are drawn, and orders searched: both take time in their square,
and beyond them the busiest port hardly pauses."""


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
        """By busy ports, by load, by random rounds, and by more random rounds."""
        from milp_plan.planners.resharding import RANDOMISED

        ledger, problem = self.ledger, self.ledger.problem
        seed = ledger.settings.seed
        with ledger.budget.phase("heuristics"):
            planners = dict(ledger.kind.heuristics())
            draw = planners.pop(RANDOMISED)
            for name, planner in planners.items():
                ledger.offer(planner(problem, seed), name, "heuristics")
                ledger.baselines[name] = ledger.reached.get(name)
            if len(problem.slices) > DRAWN:
                return
            ledger.offer(draw(problem, seed), RANDOMISED, "heuristics")
            ledger.baselines[RANDOMISED] = ledger.reached.get(RANDOMISED)
            part = ledger.budget.part("random rounds", DRAW_SHARE)
            for number in range(1, DRAWS):
                if ledger.done or part.over:
                    return
                ledger.offer(draw(problem, seed + number), RANDOMISED, "heuristics")

    def search(self) -> None:
        """Orders of deliveries; small problems are proved here, in exact integers."""
        from milp_plan.planners.resharding import Search

        ledger = self.ledger
        if len(ledger.problem.slices) > SEARCHED:
            return
        part = ledger.budget.part("search", SEARCH_SHARE)
        with ledger.budget.phase("search"):
            search = Search(ledger.problem, ledger.value, ledger.lower or 0)
            for found in search.run(part):
                if isinstance(found, Bound):
                    ledger.prove(found)
                else:
                    ledger.offer(found, found.planner, "search")
