"""Sharding problems: reduce, search, undo, check; with a formulation, its model as well."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from milp_plan.backends import Limits, Stop, TracePoint
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.core.sharding import ShardingPlan, ShardingProblem
from milp_plan.elimination.search import NAME, Caps, plan_by_elimination
from milp_plan.models.protocol import Guide
from milp_plan.models.registry import shipped
from milp_plan.run.ledger import Ledger
from milp_plan.run.model import FormulationSolver, LazySolver
from milp_plan.run.settings import MODEL_ALONE
from milp_plan.run.strategy import Step, Strategy

from .choice_bounds import NO_CHOICE, few_choices
from .coarsen import ShardingReduction, reduce_sharding
from .coarsen.projection import projected
from .labelling_strategy import solve_labelling
from .loops import SHARDING, SHARDING_SEARCH
from .planners.anytime import search
from .planners.board import Board, Sighting
from .planners.first import NAME as FIRST_PLAN
from .planners.first import first_choices

PLANNER = "tree moves"

CAPS = Caps(largest=20_000_000, entries=500_000_000, stored=20_000_000)
"""Largest tables for eliminating operators: a few seconds, and less than a gigabyte."""

REDUCE_SHARE = 0.3
"""Share of the time left for reductions."""

FIRST_PLAN_SHARE = 0.05
"""Share of the time limit for a plan while loops are compiled, which it slows down."""

CHECK_S, CHECK_SHARE, CHECK_LIKE_READING = 1.0, 0.02, 0.15
"""Time reserved for undoing, checking and writing: seconds, a share of the limit, and a share of
the time of reading and reducing, as large problems also take longer at the end."""

SEARCH_SHARE, SEARCH_S = 0.15, 20.0
"""Share of the time left, and time limit in seconds, of the search for a model's start."""

SMALL, SMALL_SHARE = 5_000, 0.4
"""Number of costs of labels and pairs up to which a reduced problem is small: its exact model
is solved after a short search, for a share of the time left."""

FIRST_S = 0.5
"""Duration of that search, seconds."""

OWN = "sharding"
"""Name of the default formulation."""

GRACE_S = 2.0
"""Time that a solver may overrun before it is terminated, seconds."""


class ShardingStrategy(Strategy[ShardingProblem, ShardingPlan]):
    """The strategy for sharding problems."""

    name = "sharding"
    uses = MODEL_ALONE
    reduction: ShardingReduction
    board: Board
    kept_s: float

    @classmethod
    def why_not(cls, problem: ShardingProblem, repeatable: bool) -> str | None:
        """Accept every sharding problem."""
        return None

    def steps(self) -> Iterable[Step]:
        """Run a search alone, or a model after a short one."""
        ledger = self.ledger
        uses_model = ledger.formulation is not None
        searched = not (uses_model and ledger.repeatable)
        late = (SHARDING_SEARCH,)
        return (
            Step(
                "first plan",
                self.offer_initial_plan,
                lambda: False,  # while there is time, later steps find better ones at once
                run_after_time_limit=True,
            ),
            Step("elimination", self.eliminate, self.without_limit),
            Step("reductions", self.reduce, loops=(SHARDING,)),
            Step(
                "first search", self.search_first, lambda: not uses_model and self.small, loops=late
            ),
            Step("small model", self.solve_small, lambda: not uses_model and self.small),
            Step("search", self.search, lambda: searched or not self.size, loops=late),
            Step("model", self.solve, lambda: uses_model and self.size > 0),
        )

    def model_only_steps(self) -> Iterable[Step]:
        """Solve the model of the reduced problem; where that is empty, it gives the plan."""
        return (
            Step("reductions", self.reduce, loops=(SHARDING,)),
            Step("search", self.search, lambda: not self.size),
            Step("model", self.solve, lambda: self.size > 0),
        )

    def offer_initial_plan(self) -> None:
        """Offer greedy choices."""
        for name, plan in self.cheap_plans():
            self.ledger.offer(plan, name, "first plan")

    def cheap_plans(self) -> Iterator[tuple[str, ShardingPlan | None]]:
        """Yield greedy choices, with lower and lower prices of memory."""
        problem, part = self.ledger.problem, self.ledger.budget.part("first plan", FIRST_PLAN_SHARE)
        for chosen in first_choices(problem, part):
            yield FIRST_PLAN, ShardingPlan(problem.name, chosen)

    def without_limit(self) -> bool:
        """Return whether memory is irrelevant."""
        return self.ledger.problem.limit is None

    def eliminate(self) -> None:
        """Compute the exact optimum where the graph is narrow enough (like PaSE's networks)."""
        ledger = self.ledger
        with ledger.budget.phase("elimination"):
            result = plan_by_elimination(ledger.problem, CAPS, partly=False)
        if result.bound is not None:
            self.ledger.prove(Bound(NAME, result.bound, "operators eliminated one by one"))
        elif result.proved:
            ledger.refute(result.reason)
        if result.plan is None:
            ledger.say("elimination", result.reason)
        ledger.offer(result.plan, NAME, "elimination")

    @property
    def size(self) -> int:
        """Return the number of operators of the reduced problem."""
        return len(self.reduction.labelling)

    @property
    def small(self) -> bool:
        """Whether a solver mostly decides the reduced problem in seconds.

        Enumeration then takes longer. A node limit applies to a requested formulation.
        """
        left = self.reduction.labelling
        few = 0 < len(left.cost) + len(left.table) <= SMALL
        return few and not few_choices(left)

    def reduce(self) -> None:
        """Reduce the problem; its optimum stays."""
        ledger, budget = self.ledger, self.ledger.budget
        ledger.say("reducing")
        with budget.phase("reducing"):
            part = budget.part("reducing", REDUCE_SHARE, of_limit=False)
            self.reduction = reduction = reduce_sharding(ledger.problem, part.left_s)
        left = reduction.labelling
        ledger.details |= {
            "operators_left": len(left),
            "strategies_left": len(left.cost),
            "edges_left": len(left.ends),
            "rows_left": len(left.capacity),
            "reduction": [list(row) for row in reduction.history],
        }
        if reduction.infeasible_reason is not None:
            ledger.refute(reduction.infeasible_reason)
            return
        took_s = budget.elapsed_s - budget.phases.get("compiling", 0.0)
        self.kept_s = CHECK_S + CHECK_SHARE * budget.limit_s + CHECK_LIKE_READING * took_s
        self.part = Budget(max(0.05, budget.left_s - self.kept_s), budget.nodes)
        self.board = Board(left, self.part.left_s, ledger.settings.gap)
        if ledger.start is not None:
            self.board.offer(projected(reduction, np.array(ledger.start.chosen)))

    def search_first(self) -> None:
        """Search briefly: often that proves, before a solver has started."""
        self.search(FIRST_S)

    def solve_small(self) -> None:
        """Solve the exact model first, for a share of the time; the search starts from its plan."""
        ledger = self.ledger
        solver = LazySolver(shipped(OWN), ledger.settings.solver)
        part = ledger.budget.part("small model", SMALL_SHARE, of_limit=False)
        self.ask(solver, part.left_s)
        self.part = Budget(max(0.05, ledger.budget.left_s - self.kept_s), ledger.budget.nodes)
        if ledger.plan is not None:
            self.board.offer(projected(self.reduction, np.array(ledger.plan.chosen)))

    def search(self, most_s: float = math.inf) -> None:
        """Improve prices, messages and labels in every thread."""
        ledger, seconds = self.ledger, min(most_s, self.part.left_s)
        uses_model = ledger.formulation is not None
        if uses_model and self.size:
            seconds = min(SEARCH_S, SEARCH_SHARE * seconds)
        known = self.board
        with ledger.budget.phase("search"):
            self.board = search(
                self.reduction.labelling,
                seconds,
                gap=ledger.settings.gap,
                workers=ledger.threads,
                seed=ledger.settings.seed,
                on_sighting=self.sight,
            )
            if (labels := known.best()) is not None:
                self.board.offer(labels)
        self.take(self.board.bound_by if self.board.settled else PLANNER)
        if self.board.infeasible:
            ledger.refute(NO_CHOICE)
        elif not self.board.settled and not uses_model and not ledger.repeatable:
            ledger.stop = Stop.TIME_LIMIT  # the reserved time is part of the limit
        if self.board.interrupted:
            raise KeyboardInterrupt

    def sight(self, sighting: Sighting) -> None:
        """Prove a bound, and report a value whose plan comes later."""
        ledger = self.ledger
        if sighting.bound is not None and (ledger.lower is None or sighting.bound > ledger.lower):
            ledger.prove(Bound(sighting.bound_by, sighting.bound, "of what reductions have left"))
        values = [value for value in (sighting.value, ledger.value) if value is not None]
        ledger.say(sighting.phase, candidate_value=min(values, default=None))

    def take(self, by: str) -> None:
        """Offer the board's best choice as a plan of the whole problem."""
        board = self.board
        if board.bound is not None:
            self.ledger.prove(Bound(board.bound_by, board.bound, "of what reductions have left"))
        labels = board.best()
        if labels is not None:
            self.ledger.offer(self.lifted(labels), by, "search")

    def lifted(self, labels: Any) -> ShardingPlan:
        """Return the plan of the whole problem for a choice of the reduced one."""
        chosen = tuple(int(label) for label in self.reduction.lift(labels))
        return ShardingPlan(self.ledger.problem.name, chosen)

    def solve(self) -> None:
        """Solve the model of the reduced problem."""
        self.ask(self.ledger.solver, self.part.left_s)

    def ask(self, solver: FormulationSolver, seconds: float) -> None:
        """Solve a formulation's model of the reduced problem."""
        ledger: Ledger[ShardingProblem, ShardingPlan] = self.ledger
        settings, cutoff = ledger.settings, ledger.value
        limits = Limits(
            time_s=max(0.05, seconds),
            nodes=settings.node_limit,
            gap=0.5 * settings.gap,
            seed=settings.seed,
            threads=ledger.threads,
            grace_s=GRACE_S,
        )

        def tell(point: TracePoint) -> None:
            ledger.say("model", f"{point.nodes} nodes")

        answer = solve_labelling(
            self.reduction.labelling,
            solver,
            Guide(cutoff, ledger.lower),
            limits,
            ledger.budget,
            start=self.board.best(),
            on_progress=tell,
        )
        ledger.accept_answer(answer, cutoff, expand=lambda plan: self.lifted(np.array(plan.chosen)))
