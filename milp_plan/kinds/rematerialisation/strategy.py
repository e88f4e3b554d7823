"""Rematerialisation: proofs, the greedy, models that watch memory, and a search beside them.

A formulation that is named has its say before the models that watch memory; these prove.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from threading import Event
from typing import Any

from milp_plan.models.protocol import Guide
from milp_plan.models.registry import get
from milp_plan.run.background import BackgroundThread
from milp_plan.run.model import FormulationSolver, make_options
from milp_plan.run.settings import MODEL_ALONE
from milp_plan.run.strategy import MIN_SOLVE_S, Step, Strategy

from .planners import NAME, Annealing, greedy, keys_of, once, plan_of, relieved
from .problem import RematerialisationObjective, RematerialisationPlan, RematerialisationProblem
from .small_strategy import offer_best_of_all, offer_once

LAZY, MODELS = "remat_lazy_memory", "watched steps"
ANNEALING = "annealing of runs"

MODEL_SHARE = 0.4
"""Part of the time limit that one model may take."""

FORMULATION_SHARE = 0.7
"""Part of the time left for the formulation that was named."""

QUICK_COLUMNS = 12_000
"""Columns of the linear program that gives large problems a bound before their first model."""

COOLINGS, ANNEALING_SHARE = 2, 0.1
"""Coolings before the first model (all of a repeatable run), and their part of the limit."""


class RematerialisationStrategy(Strategy[RematerialisationProblem, RematerialisationPlan]):
    """The way for problems of rematerialisation."""

    name = "rematerialisation"
    uses = MODEL_ALONE
    annealing: Annealing | None = None

    @classmethod
    def why_not(cls, problem: RematerialisationProblem, repeatable: bool) -> str | None:
        """Every such problem whose added time is minimised."""
        least = RematerialisationObjective.ADDED_TIME
        fits = problem.objective is least and problem.host is None
        return None if fits else "it minimises added time, without a host"

    def steps(self) -> Iterable[Step]:
        """Proofs, every operator once, the greedy, annealing, models with annealing beside them."""
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
        """The formulation's model, unless it is plain that there is no plan."""
        return (Step("obstacle", self.ledger.prove_infeasible), *super().model_only_steps())

    def relieve(self) -> None:
        """Let go, again and again, what idles across the fullest run."""
        ledger = self.ledger
        with ledger.budget.phase("greedy"):
            plan = greedy(ledger.problem, ledger.settings.seed)
        ledger.offer(plan, NAME, "greedy")
        ledger.baselines[NAME] = ledger.reached.get(NAME)

    @property
    def annealed(self) -> RematerialisationProblem:
        """The problem that annealing is for."""
        return self.ledger.problem

    def anneal_first(self) -> None:
        """Cool a few times."""
        part = self.ledger.budget.part("annealing", ANNEALING_SHARE)
        self.anneal(lambda: part.over, COOLINGS)

    def anneal(self, over: Callable[[], bool], coolings: int | None = None) -> None:
        """Cool from the best plan, again and again or a fixed number of times, until it is over."""
        ledger, problem = self.ledger, self.annealed
        plan = ledger.plan if ledger.plan is not None and not ledger.plan.reloads else None
        keys = once(problem) if plan is None else keys_of(problem, plan)
        search = self.annealing = self.annealing or Annealing(problem, keys, ledger.settings.seed)
        if plan is not None:
            search.adopt(keys)

        def go_on() -> bool:
            return not (ledger.done or over())

        def better() -> None:
            found = plan_of(ledger.problem, search.best, ANNEALING)
            ledger.offer(
                found, ANNEALING, "annealing", must_be_valid=self.annealed is ledger.problem
            )

        with ledger.budget.phase("annealing"):
            while go_on() and coolings != 0:
                coolings = None if coolings is None else coolings - 1
                search.cool(go_on, better)

    def anneal_on(self) -> None:
        """Go on as long as there is time."""
        self.anneal(lambda: False)

    def another_is_named(self) -> bool:
        """Whether a formulation was named that is not the one that is asked anyway."""
        named = self.ledger.formulation
        return named is not None and named.found.name != LAZY

    def formulate(self) -> None:
        """Ask the formulation that was named; the best plan is its start."""
        self.solve_within_share("formulation", FORMULATION_SHARE, better=False)

    def model(self) -> None:
        """Ask models; beside them, where there is a thread for it, annealing goes on."""
        if self.ledger.threads < 2:
            self.watch()
            return
        stop = Event()
        beside = BackgroundThread(lambda: self.anneal(stop.is_set))
        beside.start()
        try:
            self.watch()
        finally:
            stop.set()
            beside.join()
        beside.check()

    def watch(self) -> None:
        """Ask the model whose memory rows are lazy; a plan that exceeds the budget is repaired."""
        ledger, budget = self.ledger, self.ledger.budget
        limits = ledger.limits(MODEL_SHARE * budget.limit_s, gap=0.0)
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
        """Return the formulation whose memory rows are lazy: the one that was named, if it is."""
        named = self.ledger.formulation
        if named is not None and named.found.name == LAZY and not options:
            return named
        found = get(LAZY)
        return FormulationSolver(found, make_options(found, options), self.ledger.settings.solver)

    @property
    def large(self) -> bool:
        """Whether the first model is so large that a linear program with fewer columns goes ahead.

        Where every operator runs once, that depends on how many steps hold too much.
        """
        problem = self.ledger.problem
        assert problem.budget is not None
        over = sum(held > problem.budget for held in problem.held)
        return over > max(4, QUICK_COLUMNS // (2 * len(problem.computations)))

    def repaired(self, plan: RematerialisationPlan) -> RematerialisationPlan | None:
        """Return a plan within the budget with more runs than one that exceeds it."""
        problem = self.ledger.problem
        keys = relieved(problem, keys_of(problem, plan), self.ledger.settings.seed)
        return None if keys is None else plan_of(problem, keys, f"{MODELS}, repaired")
