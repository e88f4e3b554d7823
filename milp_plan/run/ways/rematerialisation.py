"""Rematerialisation: proofs, the greedy, models that watch memory, and a search beside them."""

from __future__ import annotations

from collections.abc import Iterable

from milp_plan.core.bound import Bound
from milp_plan.core.rematerialisation import RematerialisationPlan, RematerialisationProblem
from milp_plan.planners.rematerialisation import NAME, greedy, keys_of, plan_of, relieved

from ..model import backend
from ..watched import Answer, Known, refine
from ..way import Step, Way

ONCE, MODELS, REPAIRED = "every operator once", "watched steps", "watched steps, repaired"

MODEL_SHARE = 0.4
"""Part of the time limit that one model may take."""


class RematerialisationWay(Way[RematerialisationProblem, RematerialisationPlan]):
    """The way for problems of rematerialisation."""

    name = "rematerialisation"

    @classmethod
    def unsuited(cls, problem: RematerialisationProblem, repeatable: bool) -> str | None:
        """Every such problem."""
        return None

    def steps(self) -> Iterable[Step]:
        """Proofs, every operator once, the greedy, models."""
        ledger = self.ledger
        return (
            Step("obstacle", ledger.look_for_obstacle),
            Step("bounds", ledger.find_bounds),
            Step("once", self.run_once, always=True),
            Step("greedy", self.relieve),
            Step("models", self.model),
        )

    def run_once(self) -> None:
        """Every operator once: no time is added, if the budget allows it."""
        problem = self.ledger.problem
        runs = tuple(entry.name for entry in problem.computations)
        plan = RematerialisationPlan(problem.name, runs)
        self.ledger.offer(plan, ONCE, "once", sure=False)

    def relieve(self) -> None:
        """Let go, again and again, what idles across the fullest run."""
        ledger = self.ledger
        with ledger.budget.phase("greedy"):
            plan = greedy(ledger.problem, ledger.settings.seed)
        ledger.offer(plan, NAME, "greedy")
        ledger.baselines[NAME] = ledger.reached.get(NAME)

    def model(self) -> None:
        """Ask models that watch more and more; what exceeds the budget is repaired."""
        ledger, budget = self.ledger, self.ledger.budget
        limits = ledger.limits(MODEL_SHARE * budget.limit_s, gap=0.0)
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
