"""Plans rematerialisation: proofs, the greedy, models with lazy memory rows, and annealing.

A formulation that is named runs before the models with lazy memory rows, which prove.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from milp_plan.models.protocol import Guide
from milp_plan.models.registry import get
from milp_plan.run.background import run_beside
from milp_plan.run.model import FormulationSolver, make_options
from milp_plan.run.settings import MODEL_ALONE
from milp_plan.run.strategy import MIN_SOLVE_S, Step, Strategy

from .planners import NAME, Annealing, greedy, keys_of, once, plan_of, relieved
from .problem import RematerialisationObjective, RematerialisationPlan, RematerialisationProblem
from .small_strategy import offer_best_of_all, offer_once

LAZY, MODELS = "remat_lazy_memory", "watched steps"
ANNEALING = "annealing of runs"

MODEL_SHARE = 0.4
"""Share of the time limit for one model."""

FORMULATION_SHARE = 0.7
"""Share of the time left for a formulation that was named."""

QUICK_COLUMNS = 12_000
"""Largest columns of the linear program that bounds large problems before their first model."""

COOLINGS, ANNEALING_SHARE = 2, 0.1
"""Cooling runs before the first model (all of a repeatable run), and their share of the limit."""


class RematerialisationStrategy(Strategy[RematerialisationProblem, RematerialisationPlan]):
    """The strategy for problems of rematerialisation."""

    name = "rematerialisation"
    uses = MODEL_ALONE
    annealing: Annealing | None = None

    @classmethod
    def why_not(cls, problem: RematerialisationProblem, repeatable: bool) -> str | None:
        """Accept such problems whose added time is minimised."""
        least = RematerialisationObjective.ADDED_TIME
        fits = problem.objective is least and problem.host is None
        return None if fits else "it minimises added time, without a host"

    def steps(self) -> Iterable[Step]:
        """Run proofs, every operator once, the greedy, and models with annealing concurrently."""
        ledger = self.ledger
        return (
            Step("obstacle", ledger.prove_infeasible),
            Step("bounds", ledger.find_bounds),
            Step("every plan", lambda: offer_best_of_all(ledger)),
            Step("once", lambda: offer_once(ledger), run_after_time_limit=True),
            Step("greedy", self.relieve),
            Step("annealing", self.anneal_first),
            Step("formulation", self.formulate, self.another_is_named),
            Step("models", self.model),
            Step("annealing to the end", self.anneal_on, lambda: not ledger.repeatable),
        )

    def model_only_steps(self) -> Iterable[Step]:
        """Run the formulation's model, unless it is proved that there is no plan."""
        return (Step("obstacle", self.ledger.prove_infeasible), *super().model_only_steps())

    def relieve(self) -> None:
        """Release outputs that idle across the fullest run, again and again."""
        ledger = self.ledger
        with ledger.budget.phase("greedy"):
            plan = greedy(ledger.problem, ledger.settings.seed)
        ledger.offer(plan, NAME, "greedy")
        ledger.baselines[NAME] = ledger.reached.get(NAME)

    @property
    def annealed(self) -> RematerialisationProblem:
        """The problem that annealing solves."""
        return self.ledger.problem

    def anneal_first(self) -> None:
        """Cool a few times."""
        part = self.ledger.budget.part("annealing", ANNEALING_SHARE)
        self.anneal(lambda: part.over, COOLINGS)

    def anneal(self, over: Callable[[], bool], coolings: int | None = None) -> None:
        """Cool from the best plan, repeatedly or a fixed number of times, until ``over``."""
        ledger, problem = self.ledger, self.annealed
        plan = ledger.plan if ledger.plan is not None and not ledger.plan.reloads else None
        keys = once(problem) if plan is None else keys_of(problem, plan)
        search = self.annealing = self.annealing or Annealing(problem, keys, ledger.settings.seed)
        if plan is not None:
            search.adopt(keys)

        def go_on() -> bool:
            return not (ledger.done or over())

        def better() -> None:
            plan = plan_of(ledger.problem, search.best, ANNEALING)
            ledger.offer(
                plan, ANNEALING, "annealing", must_be_valid=self.annealed is ledger.problem
            )

        with ledger.budget.phase("annealing"):
            while go_on() and coolings != 0:
                coolings = None if coolings is None else coolings - 1
                search.cool(go_on, better)

    def anneal_on(self) -> None:
        """Continue as long as there is time."""
        self.anneal(lambda: False)

    def another_is_named(self) -> bool:
        """Return whether another formulation than the default one was named."""
        named = self.ledger.formulation
        return named is not None and named.found.name != LAZY

    def formulate(self) -> None:
        """Solve the formulation that was named; the best plan is its start."""
        self.solve_within_share("formulation", FORMULATION_SHARE, better=False)

    def model(self) -> None:
        """Solve models; annealing runs concurrently where there is a thread for it."""
        if self.ledger.threads < 2:
            self.watch()
        else:
            run_beside(self.watch, self.anneal)

    def watch(self) -> None:
        """Solve the model with lazy memory rows; a plan that exceeds the budget is repaired."""
        ledger, budget = self.ledger, self.ledger.budget
        limits = ledger.limits(MODEL_SHARE * budget.limit_s)
        limits = dataclasses.replace(limits, threads=max(1, ledger.threads - 1))
        with budget.phase("models"):
            solver = self.lazy()
            if self.large:
                quick = self.lazy(columns=QUICK_COLUMNS, integers=False)
                answer = quick.run(ledger.problem, Guide(), limits, budget, confirm=False)
                ledger.accept_answer(answer, by=MODELS)
            if budget.left_s > MIN_SOLVE_S and not ledger.done:
                ledger.details["models"] = self.solve_with_lazy_rows(
                    solver, Guide(), limits, budget, lambda: ledger.plan,
                    by=MODELS, phase="models", repair=self.repaired,
                )  # fmt: skip

    def lazy(self, **options: Any) -> FormulationSolver:
        """Return the formulation with lazy memory rows: the one that was named, if it has them."""
        named = self.ledger.formulation
        if named is not None and named.found.name == LAZY and not options:
            return named
        formulation = get(LAZY)
        return FormulationSolver(
            formulation, make_options(formulation, options), self.ledger.settings.solver
        )

    @property
    def large(self) -> bool:
        """Whether the first model is so large that a smaller linear program comes first.

        Where every operator runs once, that depends on the number of steps above the budget.
        """
        problem = self.ledger.problem
        assert problem.budget is not None
        over = sum(held > problem.budget for held in problem.held)
        return over > max(4, QUICK_COLUMNS // (2 * len(problem.computations)))

    def repaired(self, plan: RematerialisationPlan) -> RematerialisationPlan | None:
        """Return a plan within the budget, made of one that exceeds it by further runs."""
        problem = self.ledger.problem
        keys = relieved(problem, keys_of(problem, plan), self.ledger.settings.seed)
        return None if keys is None else plan_of(problem, keys, f"{MODELS}, repaired")
