"""Plans local updates: proofs, the best next cut, labels of chunks, and the exact model."""

from __future__ import annotations

from collections.abc import Iterable

from milp_plan.run.strategy import Step, Strategy

from .problem import LocalUpdatesPlan, LocalUpdatesProblem

SEARCH_SHARE = 0.5
"""Share of the time limit for labels."""

SMALL = 20_000
"""Largest product of micro-batches and squared stages of which the model is surely small enough."""


class LocalUpdatesStrategy(Strategy[LocalUpdatesProblem, LocalUpdatesPlan]):
    """The strategy for problems of local updates."""

    name = "local-updates"

    @classmethod
    def why_not(cls, problem: LocalUpdatesProblem, repeatable: bool) -> str | None:
        """Accept every problem of the kind."""
        return None

    @classmethod
    def formulation_always_applies(cls, problem: LocalUpdatesProblem) -> bool:
        """Return whether the model is small."""
        return len(problem.stages) ** 2 * problem.micro_batches <= SMALL

    @classmethod
    def formulation_for(cls, problem: LocalUpdatesProblem) -> str | None:
        """Return the exact model of cuts, with times by longest paths."""
        return "local_updates"

    def steps(self) -> Iterable[Step]:
        """Run proofs, heuristics, labels, the model."""
        ledger = self.ledger
        return (
            Step("obstacle", ledger.prove_infeasible),
            Step("bounds", ledger.find_bounds),
            Step("heuristics", self.try_heuristics, run_after_time_limit=True),
            Step("search", self.search),
            Step("model", self.solve_whole_model),
        )

    def search(self) -> None:
        """Search by labels; when none are left, the best plan is proved."""
        from .planners import CutSearch

        ledger = self.ledger
        search = CutSearch(ledger.problem, ledger.value, ledger.lower or 0)
        self.record_results(search.run(ledger.budget.part("search", SEARCH_SHARE)))
