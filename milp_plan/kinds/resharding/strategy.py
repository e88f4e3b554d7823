"""Plans resharding: proofs, published heuristics, a search through orders, and the exact model."""

from __future__ import annotations

from collections.abc import Iterable

from milp_plan.run.strategy import Step, Strategy

from .problem import ReshardingPlan, ReshardingProblem

DRAW_SHARE, SEARCH_SHARE = 0.05, 0.3
"""Shares of the time limit for random rounds beyond the first, and for the search."""

DRAWS = 20
"""Largest number of plans by random rounds."""

DRAWN, SEARCHED = 200, 1_000
"""Largest numbers of slices for random rounds, and for the search: both take quadratic time,
and beyond them the busiest port hardly pauses."""


class ReshardingStrategy(Strategy[ReshardingProblem, ReshardingPlan]):
    """The strategy for problems of resharding."""

    name = "resharding"

    @classmethod
    def why_not(cls, problem: ReshardingProblem, repeatable: bool) -> str | None:
        """Accept every problem of the kind."""
        return None

    @classmethod
    def formulation_always_applies(cls, problem: ReshardingProblem) -> bool:
        """Return whether slices are few, and each of them is somewhere."""
        few = 0 < len(problem.slices) <= DRAWN
        return few and all(entry.senders for entry in problem.slices)

    @classmethod
    def formulation_for(cls, problem: ReshardingProblem) -> str | None:
        """Return the formulation by slots or by order, as the problem allows."""
        return "resharding"

    def steps(self) -> Iterable[Step]:
        """Run proofs, heuristics, the search, the model."""
        ledger = self.ledger
        return (
            Step("obstacle", ledger.prove_infeasible),
            Step("bounds", ledger.find_bounds),
            Step("heuristics", self.try_baselines, run_after_time_limit=True),
            Step("search", self.search),
            Step("model", self.solve_whole_model),
        )

    def try_baselines(self) -> None:
        """Offer plans by busy ports, by load, by random rounds, and by more random rounds."""
        from .planners import RANDOMISED, randomised

        ledger, problem = self.ledger, self.ledger.problem
        few = len(problem.slices) <= DRAWN
        self.try_heuristics(but=() if few else (RANDOMISED,))
        if not few:
            return
        with ledger.budget.phase("heuristics"):
            part = ledger.budget.part("random rounds", DRAW_SHARE)
            for number in range(1, DRAWS):
                if ledger.done or part.over:
                    return
                plan = randomised(problem, ledger.settings.seed + number)
                ledger.offer(plan, RANDOMISED, "heuristics")

    def search(self) -> None:
        """Search orders of deliveries; small problems are proved here, in exact integers."""
        from .planners import OrderSearch

        ledger = self.ledger
        if len(ledger.problem.slices) <= SEARCHED:
            search = OrderSearch(ledger.problem, ledger.value, ledger.lower or 0)
            self.record_results(search.run(ledger.budget.part("search", SEARCH_SHARE)))
