"""Rematerialisation with a host, or for least energy: the model of the backbone.

Plans without reloads are plans here as well; the greedy's is one. That model leaves out plans,
so it is followed by a search of every plan where operators are few, and by annealing of runs where
they are many.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property, partial

from milp_plan.run.strategy import Step, Strategy

from .planners import NAME, greedy
from .planners.enumeration import few
from .problem import RematerialisationObjective, RematerialisationProblem
from .small_strategy import offer_best_of_all, offer_once
from .strategy import RematerialisationStrategy


class PagingStrategy(RematerialisationStrategy):
    """The strategy for problems with a host, or of energy."""

    name = "paging"

    @classmethod
    def formulation_for(cls, problem: RematerialisationProblem) -> str:
        """Return the only formulation for both."""
        return "remat_backbone"

    @classmethod
    def why_not(cls, problem: RematerialisationProblem, repeatable: bool) -> str | None:
        """Accept problems with a host, or of energy."""
        energy = problem.objective is RematerialisationObjective.ADDED_ENERGY
        return None if energy or problem.host is not None else "no host, and no energy to save"

    def steps(self) -> Iterable[Step]:
        """Run proofs, plans without reloads, the model, then searches until the time is over."""
        ledger = self.ledger
        every = partial(offer_best_of_all, ledger, last=True)
        return (
            Step("obstacle", ledger.prove_infeasible),
            Step("bounds", ledger.find_bounds),
            Step("every plan", lambda: offer_best_of_all(ledger)),
            Step("once", lambda: offer_once(ledger), run_after_time_limit=True),
            Step("greedy", self.relieve),
            Step("model", self.solve, lambda: ledger.formulation is not None),
            Step("every plan to the end", every, lambda: few(ledger.problem)),
            Step("annealing to the end", self.anneal_on, lambda: not ledger.repeatable),
        )

    def model_only_steps(self) -> Iterable[Step]:
        """Run the formulation's model only."""
        return Strategy.model_only_steps(self)

    @cached_property
    def annealed(self) -> RematerialisationProblem:
        """The problem without a host, whose time is the price of runs."""
        problem = self.ledger.problem
        priced = tuple(
            replace(entry, cost=run)
            for entry, (run, _) in zip(problem.computations, problem.prices, strict=True)
        )
        time = RematerialisationObjective.ADDED_TIME
        return replace(problem, computations=priced, host=None, objective=time, added_limit=None)

    def relieve(self) -> None:
        """Run idle operators again; the added time may exceed its limit."""
        ledger = self.ledger
        plan = greedy(ledger.problem, ledger.settings.seed)
        ledger.offer(plan, NAME, "greedy", must_be_valid=False)
        ledger.baselines[NAME] = ledger.reached.get(NAME)

    def solve(self) -> None:
        """Solve the formulation; the best plan is its start."""
        ledger = self.ledger
        ledger.say("model", ledger.solver.formulation.card.name)
        self.solve_below(ledger.value, ledger.budget, start=ledger.plan)
