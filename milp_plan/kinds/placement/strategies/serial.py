"""The common part of strategies under the serial law."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from milp_plan.core import Plan, PlanningProblem, SerialLaw
from milp_plan.run.ledger import Ledger
from milp_plan.run.strategy import Strategy

from ..serial.graph import SerialGraph, read_serial


class SerialStrategy(Strategy[PlanningProblem, Plan]):
    """A strategy for some problems under the serial law, read as a hypergraph of classes.

    Attributes
    ----------
    formulation
        Name of its formulation unless another is named.
    """

    formulation: ClassVar[str]

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        super().__init__(ledger)
        graph = read_serial(ledger.problem)
        assert isinstance(graph, SerialGraph), graph
        self.graph = graph

    def offer_initial_plan(self) -> None:
        """Offer cheap plans."""
        for name, plan in self.cheap_plans():
            self.ledger.offer(plan, name, "first plan")

    def cheap_plans(self) -> Iterator[tuple[str, Plan | None]]:
        """Yield everything on one device, and one device filled after the other."""
        from ..planners.baselines import greedy, single

        graph = self.graph
        for name, planner in (("single", single), ("greedy", greedy)):
            places = planner(graph)
            yield name, None if places is None else graph.plan(places, name)

    @classmethod
    def formulation_for(cls, problem: PlanningProblem) -> str:
        """Return the exact formulation of this law."""
        return cls.formulation

    @classmethod
    @abstractmethod
    def suits(cls, law: SerialLaw) -> bool:
        """Return whether it applies to a law."""

    @classmethod
    def why_not(cls, problem: PlanningProblem, repeatable: bool) -> str | None:
        """Reject other laws, and problems that are no hypergraph of classes."""
        if problem.serial is None or not cls.suits(problem.serial):
            return "another law"
        graph = read_serial(problem)
        return graph if isinstance(graph, str) else None
