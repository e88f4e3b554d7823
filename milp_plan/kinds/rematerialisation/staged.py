"""What formulations of staged plans share: which problems they are for, and the head of a model."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, ClassVar

from milp_plan.lp import CompiledModel, Values
from milp_plan.lp.tableau import Tableau
from milp_plan.models.builders import BuilderFormulation
from milp_plan.models.protocol import Card, Guide, Scale

from .problem import RematerialisationProblem
from .stages import Amounts


class StagedFormulation(BuilderFormulation):
    """A formulation of staged plans: it leaves out those in which more runs again."""

    card: Card
    handles = RematerialisationProblem
    knows_hosts: ClassVar[bool] = False

    def restricts(self, options: Any) -> bool:  # noqa: ARG002
        """Runs are once per stage and in order."""
        return True

    def unsupported(self, problem: RematerialisationProblem, options: Any) -> str | None:
        """Another objective, a host, or too large."""
        if problem.objective not in self.card.objectives:
            known = " or ".join(self.card.objectives).replace("_", " ")
            return f"it minimises {known} alone"
        if problem.host is not None and not self.knows_hosts:
            return "it knows no host"
        return self.too_large(problem, options)

    def too_large(self, problem: RematerialisationProblem, options: Any) -> str | None:
        """Say what the model would need, and which switch does not allow it."""
        raise NotImplementedError

    def start(self, model: CompiledModel, chosen: Mapping[str, Set[Any]]) -> Values | None:
        """Return 1 for what is chosen, 0 for the rest; ``None`` where some of it is no column."""
        values: Values = {}
        for family, index in model.columns:
            values.setdefault(family, {})[index] = float(index in chosen.get(family, ()))
        known = all(found <= values.get(family, {}).keys() for family, found in chosen.items())
        return values if known else None


class StagedRows:
    """One model of staged plans under construction."""

    def __init__(self, problem: RematerialisationProblem, options: Any, guide: Guide) -> None:
        self.problem, self.options, self.guide = problem, options, guide
        self.amounts = Amounts(problem)
        self.scale = Scale(self.amounts.tick, self.amounts.grain)
        self.count = len(problem.computations)
        self.last = self.amounts.last
        self.table = Tableau()

    def build(self) -> CompiledModel:
        """Write the rows, and that plans as dear as a known one are not looked for."""
        self.rows()
        if self.guide.cutoff is not None:
            self.table.cost_row("cutoff", self.guide.cutoff / self.amounts.tick + 1e-6)
        return self.table.compiled()

    def rows(self) -> None:
        """Write columns and rows."""
        raise NotImplementedError
