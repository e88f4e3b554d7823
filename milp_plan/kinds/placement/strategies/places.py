"""Plans any problem under the serial law, for devices or bytes that others do not support.

Bounds of a relaxed problem, a local search over places, the exact model from the best plan on,
then the search again until the time is up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.gap import within
from milp_plan.models.protocol import Guide
from milp_plan.run.ledger import Ledger
from milp_plan.run.strategy import Step, Strategy

from ..planners.places import PlaceSearch
from ..serial.places import read_places
from .tiny_serial import is_tiny, offer_best_of_all

SEARCH_SHARE, MODEL_SHARE = 0.1, 0.8
"""Shares of the time limit for the first search, and of the time then left for the model."""

CLOSE = 1e-4
"""Gap that may be due to rounding: then the model only proves that nothing is better."""

ROUNDS, PATIENCE, MOVES = 12, 6, 400
"""Rounds of the first search, those without improvement that end it, and moves of each."""


class PlacesStrategy(Strategy[PlanningProblem, Plan]):
    """The strategy for every problem under the serial law."""

    name = "places"

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        super().__init__(ledger)
        self.tables = read_places(ledger.problem)
        self.local = PlaceSearch(self.tables, ledger.settings.seed)

    @classmethod
    def formulation_for(cls, problem: PlanningProblem) -> str:
        """Return the formulation for every such problem."""
        return "serial_places"

    @classmethod
    def why_not(cls, problem: PlanningProblem, repeatable: bool) -> str | None:
        """Reject other laws."""
        return "no serial law" if problem.serial is None else None

    def steps(self) -> Iterable[Step]:
        """Run bounds, search, model, search."""
        ledger = self.ledger
        return (
            Step("obstacle", ledger.prove_infeasible, lambda: ledger.value is None),
            Step("bounds", ledger.find_bounds),
            Step("every placement", lambda: offer_best_of_all(ledger), lambda: is_tiny(ledger)),
            Step("search", lambda: self.search("first", SEARCH_SHARE, ROUNDS)),
            Step("model", self.solve_whole, lambda: ledger.formulation is not None),
            Step("search to the end", self.search_on, lambda: not ledger.repeatable),
        )

    def cheap_plans(self) -> Iterator[tuple[str, Plan | None]]:
        """Yield the best placement of a short search."""
        with self.ledger.budget.phase("search"):
            self.local.round(MOVES, lambda: self.ledger.budget.over)
        yield "places", self.tables.plan(self.local.best)

    def search(self, name: str, share: float, rounds: int) -> None:
        """Anneal again and again; offer improvements."""
        ledger, idle = self.ledger, 0
        part = ledger.budget.part(f"search, {name}", share)
        if ledger.plan is not None:
            self.local.offer(self.tables.places(ledger.plan))
        with ledger.budget.phase("search"):
            self.offer()
            for _ in range(rounds):
                before = self.local.score
                self.local.round(MOVES, lambda: part.over)
                self.offer()
                idle = 0 if self.local.score < before else idle + 1
                if part.over or ledger.settled or idle >= PATIENCE:
                    return

    def offer(self) -> None:
        """Offer the best placement, if it is valid and better."""
        score, known = self.local.score, self.ledger.value
        if score.broken == 0 and (known is None or score.value < known):
            self.ledger.offer(self.tables.plan(self.local.best), "places", "search")

    def solve_whole(self) -> None:
        """Solve the exact model, from the best plan on."""
        ledger = self.ledger
        part = ledger.budget.part("model", MODEL_SHARE, of_limit=False)
        ledger.say("model", f"{len(self.tables)} operators")
        cutoff = ledger.value
        while not part.over:
            answer = ledger.solver.run(
                ledger.problem,
                Guide(cutoff, ledger.lower),
                ledger.limits(part.left_s),
                ledger.budget,
                start=ledger.plan if ledger.value == cutoff else None,
            )
            better = ledger.accept_answer(answer, cutoff).better
            close = within(ledger.value, ledger.lower, CLOSE)
            if ledger.done or not close or not (better or ledger.value == cutoff):
                return
            assert ledger.value is not None
            cutoff = ledger.value - 1  # the gap that rounding left between value and bound

    def search_on(self) -> None:
        """Search to the end of the time, while there are improvements."""
        while not self.ledger.done:
            before = self.ledger.value
            self.search("last", 1.0, ROUNDS)
            if self.ledger.value == before:
                return
