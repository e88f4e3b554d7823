"""Training: one parallel configuration of a model on a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milp_plan.core import Verdict
from milp_plan.core.amounts import size_text
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.io.files import Document
from milp_plan.run.kind import Format, Kind, Measure
from milp_plan.run.scope import NotOffered, Scope
from milp_plan.run.strategy import Step, Strategy

if TYPE_CHECKING:
    from milp_plan.draw.panels import Panel
    from milp_plan.run.reasons.base import Reasons

    from .problem import TrainingPlan, TrainingProblem
    from .search import Candidate, SearchResult

SPACE = "space"
"""Name of the bound that holds for the space that is searched, which the scope describes."""


OFFERS = {
    "tensor": NotOffered("tensor parallelism between nodes"),
    "micro_batch": NotOffered("micro-batches of other than 1 to 4, 8 and 16 samples"),
    "precision": NotOffered("8-bit products"),
    "offload": NotOffered("offload to the host"),
}
"""What no plan uses unless its field is fixed; ``milp-plan train`` has the whole list."""


class TrainingStrategy(Strategy["TrainingProblem", "TrainingPlan"]):
    """Search the configurations of a training problem."""

    name = "training"
    uses = frozenset({"start"})

    @classmethod
    def why_not(cls, problem: TrainingProblem, repeatable: bool) -> str | None:
        """Every training problem."""
        return None

    def steps(self) -> Iterable[Step]:
        """A proof that the fixed fields leave nothing, a bound, and the search."""
        ledger = self.ledger
        return (
            Step("obstacle", ledger.prove_infeasible),
            Step("bounds", ledger.find_bounds),
            Step("search", self.search),
        )

    def search(self) -> None:
        """Search the space; the result goes into the record."""
        from .costing import PlanCosts
        from .exports import refusals
        from .search import Search
        from .space import Space

        ledger, problem = self.ledger, self.ledger.problem
        space = Space(problem, problem.fixed, refusals(problem))
        search = Search(problem, PlanCosts(problem), space, ledger.budget, self.offer)
        with ledger.budget.phase("search"):
            try:
                found = search.run()
            finally:
                self.record(search.found)
        if found.finished and not found.best:
            text = f"none of {found.considered:,} configurations of the space fits into memory"
            ledger.refute(text)
        if found.interrupted:
            raise KeyboardInterrupt

    def offer(self, candidate: Candidate, bound: int) -> None:
        """Offer a configuration that is better than all before it."""
        from .problem import TrainingPlan

        problem = self.ledger.problem
        plan = TrainingPlan(problem.name, problem.fingerprint, candidate.configuration)
        self.bound_by(bound)
        self.ledger.offer(plan, "search", "search")

    def bound_by(self, bound: int) -> None:
        """Prove a bound on the space, unless the plan is a start from outside of it."""
        if self.ledger.value is None or bound <= self.ledger.value:
            self.ledger.prove(Bound(SPACE, bound, "no configuration of the space is faster"))

    def record(self, found: SearchResult) -> None:
        """Note the next best, what does not fit, and how far the search went."""
        import msgspec

        self.ledger.details["search"] = msgspec.to_builtins(found)
        if found.bound_ns is not None:
            self.bound_by(found.bound_ns)


class Training(Kind["TrainingProblem", "TrainingPlan"]):
    """The kind of :class:`milp_plan.kinds.training.problem.TrainingProblem`."""

    name = "training"
    title = "a parallel configuration of a model on a cluster: shortest training step"
    handles = "milp_plan.kinds.training.problem:TrainingProblem"
    plans = "milp_plan.kinds.training.problem:TrainingPlan"
    plan_marker = "milp-plan-training-plan"

    def formats(self) -> tuple[Format[TrainingProblem], ...]:
        """A model, a cluster, a batch; what reads them is loaded for such files alone."""

        def can_read(document: Document) -> bool:
            return document.marker == "milp-plan-training"

        def read(document: Document, _: Mapping[str, Any]) -> TrainingProblem:
            from .problem_file import read

            return read(document)

        def write(problem: TrainingProblem) -> bytes:
            from .problem_file import to_json

            return to_json(problem)

        return (Format("training", "training, a model on a cluster (JSON)", can_read, read, write),)

    def read_plan(self, file: Path, problem: TrainingProblem, instance_file: Path) -> TrainingPlan:
        """Read a configuration."""
        from .formats import read_plan

        return read_plan(file, problem.name, instance_file)

    def other_content(self, document: Document) -> str | None:
        """Configurations of frameworks, and rates."""
        from .efficiency import MARKER
        from .exports import is_export

        if document.marker == MARKER:
            return "rates of training steps"
        return "an exported plan" if is_export(document) else None

    def plan_text(self, plan: TrainingPlan) -> bytes:
        """The configuration."""
        from .formats import plan_text

        return plan_text(plan)

    def verify(self, problem: TrainingProblem, plan: TrainingPlan) -> Verdict:
        """Degrees, fixed fields, schedule, memory at every instant, and the step replayed."""
        from .api import check

        return check(problem, plan)

    def measure(self, problem: TrainingProblem) -> Measure:
        """Time of a step."""
        return Measure("step", problem.units)

    def scope(self, problem: TrainingProblem) -> Scope:
        """Degrees and all else of a configuration that is not fixed."""
        decided = ("degrees", "micro-batches", "schedule", "layers", "recomputation", "sharding")
        fixed = [f"{name} {value}" for name, value in problem.fixed.items()]
        fixed += [f"what {problem.framework} runs"] if problem.framework else []
        offers = (offer for name, offer in OFFERS.items() if name not in problem.fixed)
        return Scope(decided, tuple(fixed), tuple(offers))

    def summary(self, problem: TrainingProblem) -> dict[str, Any]:
        """Sizes."""
        architecture, cluster = problem.architecture, problem.cluster
        return {
            "devices": cluster.devices,
            "model": architecture.name,
            "cluster": cluster.name,
            "parameters": architecture.all_parameters,
            "blocks": len(architecture.blocks),
            "sequence": problem.sequence,
            "global_batch": problem.global_batch,
            "model_flops": problem.model_flops,
            "memory_bytes": list(cluster.memories),
            "reserve_bytes": problem.reserve_bytes,
            "fixed": {name: str(value) for name, value in problem.fixed.items()},
            "framework": problem.framework or None,
            "costs": problem.costs_origin,
        }

    def rows(self, problem: TrainingProblem) -> list[list[str]]:
        """Sizes for people."""
        facts, sizes = self.summary(problem), problem.cluster.memories
        fixed = ", ".join(f"{name} {value}" for name, value in facts["fixed"].items())
        memory = ", ".join(size_text(problem.units, size) for size in sizes)
        return [
            ["devices", f"{facts['devices']:,}, memory {memory}"],
            ["left free", size_text(problem.units, problem.reserve_bytes)],
            ["parameters", f"{facts['parameters']:,} in {facts['blocks']:,} blocks"],
            ["batch", f"{problem.global_batch:,} samples of {problem.sequence:,} tokens"],
            ["fixed", fixed or "nothing"],
            ["framework", problem.framework or "any"],
            ["costs", facts["costs"]],
        ]

    def explain(self, problem: TrainingProblem, plan: TrainingPlan, verdict: Verdict) -> str:
        """The configuration, memory and time by parts; or what breaks and by how much."""
        if not verdict.ok:
            return super().explain(problem, plan, verdict)
        from .api import answer_for
        from .report import plan_lines

        return "\n".join(plan_lines(answer_for(problem, plan)))

    def draw(self, problem: TrainingProblem, plan: TrainingPlan) -> Any:
        """A step on every stage, and memory by stage."""
        from .api import answer_for

        return answer_for(problem, plan).draw()

    def panels(self, problem: TrainingProblem, plan: TrainingPlan) -> Sequence[Panel]:
        """A step on every stage, and memory by stage."""
        from .api import answer_for
        from .picture import panels

        return panels(answer_for(problem, plan))

    def plan_rows(
        self, problem: TrainingProblem | None, plan: TrainingPlan
    ) -> Iterator[dict[str, Any]]:
        """Fields of the configuration with their values."""
        from .formats import configuration_rows

        for name, value in configuration_rows(plan.configuration):
            row = {"field": name, "value": value}
            if problem is not None:
                row["fixed"] = name in problem.fixed
            yield row

    def part_names(self, problem: TrainingProblem) -> None:
        """Nothing: a plan has the same fields whatever the problem."""

    def reasons(self) -> Reasons[TrainingProblem, TrainingPlan]:
        """Its parts and limits, and why a plan's value is what it is."""
        from .reasons import TrainingReasons

        return TrainingReasons()

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
