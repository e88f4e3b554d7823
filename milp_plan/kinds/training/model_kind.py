"""What kinds share whose plans decide how a model lies on a cluster: training and serving.

The folder of each has modules of the same names: ``formats`` with ``PLANS``, ``problem_file``,
``api``, ``report``, ``picture``, ``reasons`` with ``REASONS``. They are loaded when first used.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from milp_plan.core import Verdict
from milp_plan.core.amounts import size_text
from milp_plan.core.bound import Bound
from milp_plan.io.files import Document
from milp_plan.run.kind import Format, Kind
from milp_plan.run.scope import NotOffered, Scope
from milp_plan.run.strategy import Step, Strategy

P = TypeVar("P", bound=Any)
S = TypeVar("S", bound=Any)

SPACE = "space"
"""Name of the bound that holds for the space that is searched, which the scope describes."""


class SpaceStrategy(Strategy[P, S]):
    """Search the space of a problem; the result goes into the record."""

    uses = frozenset({"start"})

    @classmethod
    def why_not(cls, problem: P, repeatable: bool) -> str | None:
        """Every problem of its kind."""
        return None

    @abstractmethod
    def searching(self) -> Any:
        """Return the search: ``run`` returns its result, ``found`` is the result so far."""

    @abstractmethod
    def none_fits(self, found: Any) -> str:
        """Say why a finished search has no plan."""

    def steps(self) -> Iterable[Step]:
        """A proof that the fixed fields leave nothing, a bound, and the search."""
        ledger = self.ledger
        return (
            Step("obstacle", ledger.prove_infeasible),
            Step("bounds", ledger.find_bounds),
            Step("search", self.search),
        )

    def search(self) -> None:
        """Search the space."""
        ledger, searching = self.ledger, self.searching()
        with ledger.budget.phase("search"):
            try:
                found = searching.run()
            finally:
                self.record(searching.found)
                if searching.found.finished and not searching.found.best:
                    ledger.refute(self.none_fits(searching.found))
        if found.interrupted:
            raise KeyboardInterrupt

    def offer(self, candidate: Any, bound: int) -> None:
        """Offer a candidate that is better than all before it."""
        problem, kind = self.ledger.problem, cast("ModelKind[P, S]", self.ledger.kind)
        plans = kind.part("formats").PLANS
        plan = plans.plan(problem.name, problem.fingerprint, getattr(candidate, plans.member))
        self.bound_by(bound)
        self.ledger.offer(plan, "search", "search")

    def bound_by(self, bound: int) -> None:
        """Prove a bound on the space, unless the plan is a start from outside of it."""
        if self.ledger.value is None or bound <= self.ledger.value:
            self.ledger.prove(Bound(SPACE, bound, "nothing in the space is better"))

    def record(self, found: Any) -> None:
        """Note the next best, what does not fit, and how far the search went."""
        import msgspec

        self.ledger.details["search"] = msgspec.to_builtins(found)
        if found.bound_ns is not None:
            self.bound_by(found.bound_ns)


class ModelKind(Kind[P, S]):
    """A kind of :class:`.problem.ModelOnCluster`.

    Attributes
    ----------
    content
        What its files hold, in a few words.
    decisions
        What a plan decides, in words.
    offers
        Field of a plan -> what no plan uses unless that field is fixed.
    """

    content: ClassVar[str]
    decisions: ClassVar[tuple[str, ...]]
    offers: ClassVar[Mapping[str, NotOffered]]

    def part(self, name: str) -> Any:
        """Return a module of the kind's folder."""
        return import_module(f"{type(self).__module__.rpartition('.')[0]}.{name}")

    @abstractmethod
    def asked(self, problem: P) -> dict[str, Any]:
        """Return sizes and limits that problems of this kind alone have, as plain data."""

    @abstractmethod
    def asked_rows(self, problem: P) -> list[list[str]]:
        """Return the same for people."""

    def formats(self) -> tuple[Format[P], ...]:
        """A model, a cluster, and the size of a step or a request."""
        marker = f"milp-plan-{self.name}"

        def can_read(document: Document) -> bool:
            return document.marker == marker

        def read(document: Document, _: Mapping[str, Any]) -> Any:
            return self.part("problem_file").read(document)

        def write(problem: P) -> Any:
            return self.part("problem_file").to_json(problem)

        return (Format(self.name, self.content, can_read, read, write),)

    def read_plan(self, file: Path, problem: P, instance_file: Path) -> Any:
        """Read a plan."""
        return self.part("formats").PLANS.read(file, problem.name, instance_file)

    def plan_text(self, plan: S) -> Any:
        """What it decides."""
        return self.part("formats").PLANS.text(plan)

    def verify(self, problem: P, plan: S) -> Any:
        """Every rule, and the value computed again."""
        return self.part("api").check(problem, plan)

    def scope(self, problem: P) -> Scope:
        """All of a plan that is not fixed."""
        offers = tuple(offer for name, offer in self.offers.items() if name not in problem.fixed)
        return Scope(self.decisions, problem.fixed_texts, offers)

    def summary(self, problem: P) -> dict[str, Any]:
        """Sizes."""
        architecture, cluster = problem.architecture, problem.cluster
        return {
            "devices": cluster.devices,
            "model": architecture.name,
            "cluster": cluster.name,
            "blocks": len(architecture.blocks),
            **self.asked(problem),
            "memory_bytes": list(cluster.memories),
            "reserve_bytes": problem.reserve_bytes,
            "fixed": {name: str(value) for name, value in problem.fixed.items()},
            "costs": problem.costs_origin,
        }

    def rows(self, problem: P) -> list[list[str]]:
        """Sizes for people."""
        facts, sizes = self.summary(problem), problem.cluster.memories
        memory = ", ".join(size_text(problem.units, size) for size in sizes)
        return [
            ["devices", f"{facts['devices']:,}, memory {memory}"],
            ["left free", size_text(problem.units, problem.reserve_bytes)],
            ["parameters", f"{facts['parameters']:,} in {facts['blocks']:,} blocks"],
            *self.asked_rows(problem),
            ["fixed", ", ".join(problem.fixed_texts) or "nothing"],
            ["costs", facts["costs"]],
        ]

    def explain(self, problem: P, plan: S, verdict: Verdict) -> str:
        """The plan, memory and time by parts; or what breaks and by how much."""
        if not verdict.ok:
            return super().explain(problem, plan, verdict)
        return "\n".join(self.part("report").plan_lines(self.answer(problem, plan)))

    def answer(self, problem: P, plan: S) -> Any:
        """Return a plan as the kind's verb reports one."""
        return self.part("api").answer_for(problem, plan)

    def draw(self, problem: P, plan: S) -> Any:
        """The picture of its verb."""
        return self.answer(problem, plan).draw()

    def panels(self, problem: P, plan: S) -> Any:
        """Passes on every stage, and memory by stage."""
        return self.part("picture").panels(self.answer(problem, plan))

    def plan_rows(self, problem: P | None, plan: S) -> Iterator[dict[str, Any]]:
        """Fields of a plan with their values."""
        for name, value in self.part("formats").PLANS.rows(plan):
            row = {"field": name, "value": value}
            if problem is not None:
                row["fixed"] = name in problem.fixed
            yield row

    def reasons(self) -> Any:
        """Its parts and limits, and why a plan's value is what it is."""
        return self.part("reasons").REASONS

    def part_names(self, problem: P) -> None:
        """Nothing: a plan has the same fields whatever the problem."""
