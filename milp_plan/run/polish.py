"""Large-neighbourhood search: small models of the same formulation around the best plan.

Each round frees a few operators and keeps the rest as the plan has it; the model starts from the
plan itself. A plan is taken only when the checker accepts it on the original problem.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from milp_plan.api import Guide, Neighbourhood, Plan, PlanningProblem
from milp_plan.backends import Limits, Stop

from .model import Solver
from .neighbourhood import CHOOSERS, PlanView
from .settings import Clock, Settings

MOST_WITH_MEMORY = 150
"""Operators up to which neighbourhood models carry memory rows; beyond, the checker decides."""

SMALLEST, LARGEST = 6, 60
ROUND_S = 4.0
ROUNDS_WITH_NODE_LIMIT = 8

FAILURES = (Stop.KILLED, Stop.ERROR, Stop.MEMORY_LIMIT)
"""Ends of a solve that nobody asked for."""


@dataclass
class Search:
    """State of the search.

    ``size`` is the number of free operators: it grows while neighbourhoods are searched to the
    end in vain, and shrinks when they run into their limit. ``overhead_s`` is what the last round
    took beside solving: no round starts that could not even be built in time.
    """

    problem: PlanningProblem
    solver: Solver
    settings: Settings
    plan: Plan
    value: int
    bound: int | None
    size: float = 12.0
    rounds: int = 0
    improvements: dict[str, int] = field(default_factory=dict)
    disputes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    interrupted: bool = False
    overhead_s: float = 1.0

    def run(self, clock: Clock, on_better: Callable[[str], object]) -> None:
        """Search until the limit, the bound, or an interruption."""
        rng = random.Random(self.settings.seed)
        rounds = self.settings.rounds
        if rounds is None and self.settings.node_limit is not None:
            rounds = ROUNDS_WITH_NODE_LIMIT
        view = PlanView(self.problem, self.plan)
        while not self.finished(clock, rounds):
            kind = rng.choice(list(CHOOSERS))
            free = CHOOSERS[kind](view, rng, int(self.size))
            if self.step(kind, free, clock):
                view = PlanView(self.problem, self.plan)
                on_better(kind)

    def finished(self, clock: Clock, rounds: int | None) -> bool:
        """Whether to stop."""
        if self.interrupted or (rounds is not None and self.rounds >= rounds):
            return True
        if self.bound is not None and self.value <= self.bound:
            return True
        return clock.left_s < self.overhead_s

    def step(self, kind: str, free: frozenset[str], clock: Clock) -> bool:
        """One round; True when it found a better plan."""
        self.rounds += 1
        small = len(self.problem.graph.operators) <= MOST_WITH_MEMORY
        guide = Guide(self.value, self.bound, Neighbourhood(self.plan, free), memory=small)
        limits = Limits(
            time_s=min(ROUND_S, clock.left_s) if self.settings.node_limit is None else clock.left_s,
            nodes=self.settings.node_limit,
            gap=self.settings.gap,
            seed=self.settings.seed,
            threads=self.settings.threads,
        )
        began = clock.elapsed_s
        answer = self.solver.run(self.problem, guide, limits, clock, start=self.plan)
        self.overhead_s = max(1.0, clock.elapsed_s - began - answer.report.seconds)
        self.interrupted = answer.report.stop is Stop.INTERRUPTED
        if answer.disputed:
            self.disputes.append(answer.disputed)
        if answer.report.stop in FAILURES:
            self.failures.append(f"{answer.report.stop}: {answer.report.message}")
        better = answer.value is not None and answer.value < self.value
        if better and answer.plan is not None and answer.value is not None:
            self.plan, self.value = answer.plan, answer.value
            self.improvements[kind] = self.improvements.get(kind, 0) + 1
        elif answer.report.stop is Stop.PROVED:
            self.size = min(LARGEST, self.size * 1.1)
        else:
            self.size = max(SMALLEST, self.size * 0.8)
        return better
