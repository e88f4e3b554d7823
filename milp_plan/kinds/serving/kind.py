"""Serving: one deployment of a model on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from milp_plan.core.amounts import time_text
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.kinds.training.model_kind import ModelKind, SpaceStrategy
from milp_plan.run.kind import Measure
from milp_plan.run.scope import NotOffered
from milp_plan.run.strategy import Strategy

if TYPE_CHECKING:
    from .problem import ServingPlan, ServingProblem
    from .search import Search, ServingResult


OFFERS = {
    "tensor": NotOffered("tensor parallelism between nodes"),
    "prompts": NotOffered("prompts at once other than powers of two"),
    "chunks": NotOffered("prompts in chunks beside decoding"),
    "phases": NotOffered("devices of their own for each phase"),
}
"""What no plan uses unless its field is fixed; ``milp-plan serve`` has the whole list."""


class ServingStrategy(SpaceStrategy["ServingProblem", "ServingPlan"]):
    """Value the deployments of a serving problem."""

    name = "serving"

    def searching(self) -> Search:
        """Return a search of the whole space."""
        from .costs import ServingCosts
        from .search import Search

        problem = self.ledger.problem
        return Search(problem, ServingCosts(problem), self.ledger.budget, self.offer)

    def none_fits(self, found: ServingResult) -> str:
        """Say that memory does not suffice, or that all is too slow."""
        if found.late:
            return f"no deployment meets the limits on times: {found.late:,} that fit are slower"
        return f"none of {found.considered:,} deployments of the space fits into memory"


class Serving(ModelKind["ServingProblem", "ServingPlan"]):
    """The kind of :class:`milp_plan.kinds.serving.problem.ServingProblem`."""

    name = "serving"
    title = "a parallel configuration that serves a model: shortest request or most tokens"
    handles = "milp_plan.kinds.serving.problem:ServingProblem"
    plans = "milp_plan.kinds.serving.problem:ServingPlan"
    plan_marker = "milp-plan-serving-plan"
    content = "serving, a model on a cluster and the size of a request (JSON)"
    decisions = ("degrees", "replicas", "requests in flight", "prompts at once")
    offers = OFFERS

    def measure(self, problem: ServingProblem) -> Measure:
        """Time of a request, of a token, or of a million tokens."""
        from .check import objective_name

        return Measure(objective_name(problem), problem.units)

    def asked(self, problem: ServingProblem) -> dict[str, Any]:
        """Size of a request, objective and limits."""
        return {
            "parameters": problem.architecture.parameters,
            "prompt": problem.prompt,
            "output": problem.output,
            "phase": str(problem.phase),
            "requests": problem.requests,
            "precision": str(problem.precision),
            "cache_precision": str(problem.cache_precision),
            "first_token_ns": problem.first_token_ns,
            "token_ns": problem.token_ns,
        }

    def asked_rows(self, problem: ServingProblem) -> list[list[str]]:
        """Size of a request, objective and limits for people."""
        limits = (("first token", problem.first_token_ns), ("token", problem.token_ns))
        texts = [f"{name} {time_text(problem.units, ns)}" for name, ns in limits if ns is not None]
        size = f"prompt {problem.prompt:,}, output {problem.output:,}, {problem.phase}"
        return [
            ["request", f"{size}, {problem.objective}"],
            ["requests", "as is best" if problem.requests is None else f"{problem.requests:,}"],
            ["precision", f"{problem.precision}, cache {problem.cache_precision}"],
            ["limits", ", ".join(texts) or "none"],
        ]

    def figures(
        self, problem: ServingProblem, value: int | None, bound: int | None
    ) -> dict[str, float | None]:
        """Tokens per second of the cluster, where that is the objective."""
        if str(problem.objective) != "throughput":
            return {}
        rates = {"tokens_per_s": value, "tokens_per_s_bound": bound}
        return {name: 1e15 / ns if ns else None for name, ns in rates.items()}

    def obstacle(self, problem: ServingProblem, budget: Budget) -> str | None:
        """Fixed fields that leave no deployment."""
        from .search import why_empty

        reason = why_empty(problem)
        return None if reason is None else f"no deployment can run: {reason}"

    def bounds(
        self, problem: ServingProblem, budget: Budget, incumbent: int | None
    ) -> Iterator[Bound]:
        """The work of each width."""
        from .bounds import width_bound

        bound = width_bound(problem, budget)
        if bound is not None:
            yield bound

    def strategies(self) -> Sequence[type[Strategy[ServingProblem, ServingPlan]]]:
        """One for all."""
        return (ServingStrategy,)


KIND = Serving()
