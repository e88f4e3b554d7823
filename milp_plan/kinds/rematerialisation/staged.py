"""Common part of formulations of staged plans: supported problems, and the frame of a model."""

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
    """A formulation of staged plans, which leaves out plans with more recomputation."""

    card: Card
    handles = RematerialisationProblem
    knows_hosts: ClassVar[bool] = False

    def restricts(self, options: Any) -> bool:  # noqa: ARG002
        """Return that runs are once per stage and in order."""
        return True

    def unsupported(self, problem: RematerialisationProblem, options: Any) -> str | None:
        """Reject another objective, a host, or a problem that is too large."""
        if problem.objective not in self.card.objectives:
            known = " or ".join(self.card.objectives).replace("_", " ")
            return f"it minimises {known} alone"
        if problem.host is not None and not self.knows_hosts:
            return "it knows no host"
        return self.too_large(problem, options)

    def too_large(self, problem: RematerialisationProblem, options: Any) -> str | None:
        """Explain what the model would need, and which option limits it."""
        raise NotImplementedError

    def start(self, model: CompiledModel, chosen: Mapping[str, Set[Any]]) -> Values | None:
        """Return 1 for chosen columns, 0 for the rest; ``None`` where a chosen one is missing."""
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
        """Write the rows, and the limit below a known plan's value."""
        self.rows()
        if self.guide.cutoff is not None:
            self.table.cost_row("cutoff", self.guide.cutoff / self.amounts.tick + 1e-6)
        return self.table.compiled()

    def rows(self) -> None:
        """Write columns and rows."""
        raise NotImplementedError
