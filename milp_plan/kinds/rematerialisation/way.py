"""Rematerialisation: proofs, the greedy, models that watch memory, and a search beside them.

A formulation that is named has its say before the models that watch memory; these prove.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from threading import Event

from milp_plan.core.bound import Bound
from milp_plan.run.beside import Beside
from milp_plan.run.model import backend
from milp_plan.run.settings import MODEL_ALONE
from milp_plan.run.way import Step, Way

from .lazy_memory_rows import Answer, Known, refine
from .planners import NAME, Annealing, greedy, keys_of, once, plan_of, relieved
from .problem import RematerialisationObjective, RematerialisationPlan, RematerialisationProblem
from .small_way import offer_best_of_all, offer_once

MODELS, REPAIRED = "watched steps", "watched steps, repaired"
ANNEALING = "annealing of runs"

MODEL_SHARE = 0.4
"""Part of the time limit that one model may take."""

FORMULATION_SHARE = 0.7
"""Part of the time left for the formulation that was named."""

COOLINGS, ANNEALING_SHARE = 2, 0.1
"""Coolings before the first model (all of a repeatable run), and their part of the limit."""


class RematerialisationWay(Way[RematerialisationProblem, RematerialisationPlan]):
    """The way for problems of rematerialisation."""

    name = "rematerialisation"
    uses = MODEL_ALONE
    annealing: Annealing | None = None

    @classmethod
    def unsuited(cls, problem: RematerialisationProblem, repeatable: bool) -> str | None:
        """Every such problem whose added time is minimised."""
        least = RematerialisationObjective.ADDED_TIME
        fits = problem.objective is least and problem.host is None
        return None if fits else "it minimises added time, without a host"

    def steps(self) -> Iterable[Step]:
        """Proofs, every operator once, the greedy, annealing, models with annealing beside them."""
        ledger = self.ledger
        return (
            Step("obstacle", ledger.look_for_obstacle),
            Step("bounds", ledger.find_bounds),
            Step("every plan", lambda: offer_best_of_all(ledger)),
            Step("once", lambda: offer_once(ledger), always=True),
            Step("greedy", self.relieve),
            Step("annealing", self.anneal_first),
            Step("formulation", self.formulate, lambda: ledger.formulation is not None),
            Step("models", self.model),
            Step("annealing to the end", self.anneal_on, lambda: not ledger.repeatable),
        )

    def alone(self) -> Iterable[Step]:
        """The formulation's model, unless it is plain that there is no plan."""
        return (Step("obstacle", self.ledger.look_for_obstacle), *super().alone())

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
        """Cool from the best plan, again and again or so many times, until it is over."""
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
            ledger.offer(found, ANNEALING, "annealing", sure=self.annealed is ledger.problem)

        with ledger.budget.phase("annealing"):
            while go_on() and coolings != 0:
                coolings = None if coolings is None else coolings - 1
                search.cool(go_on, better)

    def anneal_on(self) -> None:
        """Go on as long as there is time."""
        self.anneal(lambda: False)

    def formulate(self) -> None:
        """Ask the formulation that was named; the best plan is its start."""
        self.ask_part("formulation", FORMULATION_SHARE, better=False)

    def model(self) -> None:
        """Ask models; beside them, where there is a thread for it, annealing goes on."""
        if self.ledger.threads < 2:
            self.watch()
            return
        stop = Event()
        beside = Beside(lambda: self.anneal(stop.is_set))
        beside.start()
        try:
            self.watch()
        finally:
            stop.set()
            beside.join()
        beside.check()

    def watch(self) -> None:
        """Ask models that watch more and more; what exceeds the budget is repaired."""
        ledger, budget = self.ledger, self.ledger.budget
        limits = ledger.limits(MODEL_SHARE * budget.limit_s, gap=0.0)
        limits = dataclasses.replace(limits, threads=max(1, ledger.threads - 1))
        ask = backend(ledger.settings.solver)
        rounds: list[list[int]] = []

        def known() -> Known:
            return Known(ledger.plan, ledger.value)

        with budget.phase("models"):
            for answer in refine(ledger.problem, ask, limits, budget, known):
                rounds.append([answer.steps, answer.columns, answer.rows])
                self.take(answer)
                if ledger.done:
                    break
        ledger.details["models"] = rounds

    def take(self, answer: Answer) -> None:
        """Take what a model says: a plan, one that exceeds the budget, a bound, or that none is."""
        ledger, problem = self.ledger, self.ledger.problem
        if answer.infeasible:
            ledger.refute(f"memory watched at {answer.steps} steps: no plan is within the budget")
            return
        if answer.bound is not None:
            detail = f"memory watched at {answer.steps} of {len(problem.computations)} steps"
            ledger.prove(Bound(MODELS, answer.bound, detail))
        if answer.plan is None or ledger.offer(answer.plan, MODELS, "models", sure=False):
            return
        keys = relieved(problem, keys_of(problem, answer.plan), ledger.settings.seed)
        if keys is not None:
            ledger.offer(plan_of(problem, keys, REPAIRED), REPAIRED, "models")
