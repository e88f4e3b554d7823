"""Training: one parallel configuration of a model on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.io.files import Document
from milp_plan.run.kind import Measure
from milp_plan.run.scope import NotOffered, Scope
from milp_plan.run.strategy import Strategy

from .model_kind import ModelKind, SpaceStrategy

if TYPE_CHECKING:
    from .problem import TrainingPlan, TrainingProblem
    from .result import SearchResult
    from .search import Search

HOST = "memory of hosts"

OFFERS = {
    "tensor": NotOffered("tensor parallelism between nodes"),
    "micro_batch": NotOffered("micro-batches of other than 1 to 4, 8 and 16 samples"),
    "precision": NotOffered("8-bit products"),
    "offload": NotOffered(HOST, "--host"),
}
"""What no plan uses unless its field is fixed; ``milp-plan train`` has the whole list."""


class TrainingStrategy(SpaceStrategy["TrainingProblem", "TrainingPlan"]):
    """Search the configurations of a training problem."""

    name = "training"

    def searching(self) -> Search:
        """Return a search of all that the framework can run."""
        from .costing import PlanCosts
        from .exports import refusals
        from .search import Search
        from .space import Space

        problem = self.ledger.problem
        space = Space(problem, problem.fixed, refusals(problem))
        return Search(problem, PlanCosts(problem), space, self.ledger.budget, self.offer)

    def none_fits(self, found: SearchResult) -> str:
        """Say that memory does not suffice."""
        return f"none of {found.considered:,} configurations of the space fits into memory"


class Training(ModelKind["TrainingProblem", "TrainingPlan"]):
    """The kind of :class:`milp_plan.kinds.training.problem.TrainingProblem`."""

    name = "training"
    title = "a parallel configuration of a model on a cluster: shortest training step"
    handles = "milp_plan.kinds.training.problem:TrainingProblem"
    plans = "milp_plan.kinds.training.problem:TrainingPlan"
    plan_marker = "milp-plan-training-plan"
    content = "training, a model on a cluster (JSON)"
    decisions = (
        *("degrees", "micro-batches", "schedule", "layers"),
        *("recomputation", "offload", "sharding"),
    )
    offers = OFFERS

    def other_content(self, document: Document) -> str | None:
        """Configurations of frameworks, and rates."""
        from .efficiency import MARKER
        from .exports import is_export

        if document.marker == MARKER:
            return "rates of training steps"
        return "an exported plan" if is_export(document) else None

    def measure(self, problem: TrainingProblem) -> Measure:
        """Time of a step."""
        return Measure("step", problem.units)

    def scope(self, problem: TrainingProblem) -> Scope:
        """Degrees and all else of a configuration that is not fixed."""
        scope = super().scope(problem)
        more = (f"what {problem.framework} runs",) if problem.framework else ()
        host = problem.host or problem.fixed.get("recompute") == "offload"
        offers = (o for o in scope.not_offered if not host or o.what != HOST)
        return replace(scope, fixed=(*scope.fixed, *more), not_offered=tuple(offers))

    def asked(self, problem: TrainingProblem) -> dict[str, Any]:
        """Sizes of a step."""
        return {
            "parameters": problem.architecture.all_parameters,
            "sequence": problem.sequence,
            "global_batch": problem.global_batch,
            "model_flops": problem.model_flops,
            "framework": problem.framework or None,
            "host": problem.host,
        }

    def asked_rows(self, problem: TrainingProblem) -> list[list[str]]:
        """Sizes of a step for people."""
        batch = f"{problem.global_batch:,} samples of {problem.sequence:,} tokens"
        return [["batch", batch], ["framework", problem.framework or "any"]]

    def models(self) -> list[dict[str, Any]]:
        """Models by name, with their sizes and sources."""
        from .models import MODELS, model

        known = (model(name) for name in MODELS)
        return [
            {
                "name": each.name,
                "parameters": each.all_parameters,
                "blocks": len(each.blocks),
                "hidden": each.hidden,
                "sequence": each.sequence,
                "source": each.source,
            }
            for each in known
        ]

    def obstacle(self, problem: TrainingProblem, budget: Budget) -> str | None:
        """Fixed fields, or a framework, that leave no configuration."""
        from .exports import refusals
        from .space import Space

        space = Space(problem, problem.fixed, refusals(problem))
        if next(iter(space), None) is None:
            return f"no configuration can run: {space.why_empty()}"
        reasons = "; ".join(space.why_refused()) if problem.framework else ""
        return f"{problem.framework} runs no configuration: {reasons}" if reasons else None

    def bounds(
        self, problem: TrainingProblem, budget: Budget, incumbent: int | None
    ) -> Iterator[Bound]:
        """Operations of the model over the rates of all devices."""
        from .costing import operations_bound

        yield operations_bound(problem)

    def strategies(self) -> Sequence[type[Strategy[TrainingProblem, TrainingPlan]]]:
        """One for all."""
        return (TrainingStrategy,)


KIND = Training()
