"""Large-neighbourhood search: small models of the same formulation around the best plan.

Each round frees a few operators and keeps the rest as the plan has it; the model starts from the
plan itself. A plan is taken only when the checker accepts it on the original problem.
"""

from __future__ import annotations

import random

from milp_plan.backends import Limits
from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.models.protocol import Guide, Neighbourhood
from milp_plan.run.ledger import Ledger
from milp_plan.run.model import Solver

MOST_WITH_MEMORY = 150
"""Operators up to which neighbourhood models carry memory rows; beyond, the checker decides."""

SMALLEST, LARGEST = 6, 60
ROUND_S = 4.0
ROUNDS_WITH_NODE_LIMIT = 8
MOST_FAILURES = 3
"""Rounds one after the other that may fail; a formulation that fails is not asked for ever."""

LEAST_S = 1.0
"""Seconds without which no search is begun."""


OWN = "operator_schedule"
"""The formulation of every problem whose plans have times."""


def polishes(problem: PlanningProblem, solver: Solver | None) -> bool:
    """Whether a formulation itself searches near plans of a problem.

    A foreign one that can, and any where our own small models do not say what counts.
    """
    if solver is None or not solver.formulation.card.neighbourhoods:
        return False
    return solver.found.name != OWN or problem.objective is not Objective.MAKESPAN


def polish(ledger: Ledger[PlanningProblem, Plan], budget: Budget | None = None) -> None:
    """Search near the best plan, until the budget ends.

    Raises
    ------
    KeyboardInterrupt
        A solve was interrupted: so is the run.
    """
    if ledger.plan is None or not ledger.solver.formulation.card.neighbourhoods:
        return
    if ledger.settings.rounds == 0:
        return
    budget = budget or ledger.budget
    if budget.left_s >= LEAST_S:
        Search(ledger, budget).run()


class Search:
    """State of the search.

    ``size`` is the number of free operators: it grows while neighbourhoods are searched to the
    end in vain, and shrinks when they run into their limit. ``overhead_s`` is what the last round
    took beside solving: no round starts that could not even be built in time.
    """

    def __init__(self, ledger: Ledger[PlanningProblem, Plan], budget: Budget) -> None:
        self.ledger, self.budget = ledger, budget
        self.size = 12.0
        self.overhead_s = LEAST_S
        known = ledger.details.get("polish") or {"rounds": 0, "improvements": {}}
        self.told = ledger.details["polish"] = known
        self.rounds = self.failed = 0

    def run(self) -> None:
        """Search until the limit, the bound, or an interruption."""
        ledger, settings = self.ledger, self.ledger.settings
        rng = random.Random(settings.seed)
        rounds = settings.rounds
        if rounds is None and ledger.repeatable:
            rounds = ROUNDS_WITH_NODE_LIMIT
        while not self.finished(rounds):
            assert ledger.plan is not None
            from .neighbourhood import CHOOSERS, PlanView

            view = PlanView(ledger.problem, ledger.plan)
            kind = rng.choice(list(CHOOSERS))
            self.step(kind, CHOOSERS[kind](view, rng, int(self.size)))

    def finished(self, rounds: int | None) -> bool:
        """Whether to stop."""
        if self.failed >= MOST_FAILURES or self.ledger.settled:
            return True
        if rounds is not None and self.rounds >= rounds:
            return True
        return self.budget.left_s < self.overhead_s

    def step(self, kind: str, free: frozenset[str]) -> None:
        """One round."""
        ledger, settings, budget = self.ledger, self.ledger.settings, self.budget
        assert ledger.plan is not None
        self.rounds += 1
        self.told["rounds"] += 1
        small = len(ledger.problem.graph.operators) <= MOST_WITH_MEMORY
        near = Neighbourhood(ledger.plan, free)
        guide = Guide(ledger.value, ledger.lower, near, memory=small)
        limits = Limits(
            time_s=budget.left_s if ledger.repeatable else min(ROUND_S, budget.left_s),
            nodes=settings.node_limit,
            gap=settings.gap,
            seed=settings.seed,
            threads=ledger.threads,
        )
        began = budget.elapsed_s
        answer = ledger.solver.run(ledger.problem, guide, limits, budget, start=ledger.plan)
        taken_s = budget.elapsed_s - began
        believed = ledger.believe(
            answer, whole=False, by="neighbourhood search", phase=f"polish: {kind}"
        )
        self.overhead_s = max(LEAST_S, taken_s - believed.seconds)
        self.failed = self.failed + 1 if believed.failed else 0
        if believed.better:
            made = self.told["improvements"]
            made[kind] = made.get(kind, 0) + 1
        elif believed.complete:
            self.size = min(LARGEST, self.size * 1.1)
        else:
            self.size = max(SMALLEST, self.size * 0.8)
