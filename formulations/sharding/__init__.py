r"""One strategy per operator: computation plus resharding, memory at every instant that matters.

Letters: operator v with strategies s; edge e = (a, b) with a table over strategies s of a and t of
b; instant r. Strategies and pairs that masks forbid have no column.

===========  ====================================================================================
``choose``   sum_s x[v,s] = 1
``left``     sum_t z[e,s,t] = x[a,s]                                           strategies s of a
``right``    sum_s z[e,s,t] = x[b,t]                                           strategies t of b
``memory``   sum_{v in use at r, s} bytes[v,s,r] x[v,s] <= capacity[r]
===========  ====================================================================================

The objective is floor + sum_v,s cost[v,s] x[v,s] + sum_e,s,t cost[e,s,t] z[e,s,t]: the floor holds
the smallest entry of each table, so that all other costs are at least 0. Only x is integer. What
every strategy uses has left the capacities, and instants that another one implies have no row.

Source: Alpa (OSDI 2022, arXiv 2201.12023), section 4.2, with the pairs of an edge tied to its ends
by equations (the local polytope: Werner, PAMI 2007) and memory by instant as in the ASPLOS 2025
contest on intra-operator parallelism.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import pyomo.environ as pyo
from pyomo.core.expr import LinearExpression

from milp_plan.api import (
    BuilderFormulation,
    Card,
    CompiledModel,
    FormulationError,
    Guide,
    Labelling,
    Scale,
    ShardingObjective,
    ShardingPlan,
    ShardingProblem,
    Values,
    read_labelling,
    suited,
)

from .polytope import Polytope

Terms = list[tuple[float, Any]]
"""Factors and columns."""

LARGE = 20_000
"""Columns from which ``auto`` writes arrays instead of a Pyomo model."""


@dataclass(frozen=True)
class Switches:
    """Switches."""

    builder: Literal["auto", "pyomo", "columns"] = field(
        default="auto",
        metadata={"help": "a Pyomo model, arrays at once (large graphs), or by size; same rows"},
    )
    fewer_rows: bool = field(
        default=True, metadata={"help": "no memory rows for instants that another one implies"}
    )


class Sharding(BuilderFormulation):
    """The exact formulation of sharding problems, whole or reduced."""

    card = Card(
        name="sharding",
        title="One strategy per operator: computation plus resharding, memory by instant",
        source="Alpa (OSDI 2022, arXiv 2201.12023) 4.2; local polytope (Werner, PAMI 2007)",
        objectives=(ShardingObjective.TOTAL_COST,),
        exact=True,
    )
    handles = ShardingProblem
    Options = Switches

    def restricts(self, options: Switches) -> bool:
        """No switch leaves out plans."""
        return False

    def unsupported(self, problem: Any, options: Switches) -> str | None:
        """Only sharding problems, and what reductions leave of them."""
        found = read_labelling(problem, fewer_rows=False)
        return found if isinstance(found, str) else None

    def encode(
        self,
        problem: ShardingProblem | Labelling,
        options: Switches,
        model: Any,
        plan: ShardingPlan,
    ) -> Values | None:
        """Complete start from a plan; ``None`` if the cutoff has left it out."""
        arrays = isinstance(model, CompiledModel)
        names: Any = model.columns if arrays else model.builder.polytope.names
        ends: list[list[int]] = names.ends.tolist()
        chosen, values = plan.chosen, Values({"x": {}, "z": {}})
        for family, index in names:
            if family == "x":
                taken = chosen[index[0]] == index[1]
            else:
                first, second = ends[index[0]]
                taken = (chosen[first], chosen[second]) == index[1:]
            values[family][index] = float(taken)
        complete = sum(values["x"].values()) == len(chosen)
        return values if complete and sum(values["z"].values()) == len(ends) else None


class _Builder:
    """One model under construction."""

    def __init__(
        self, problem: ShardingProblem | Labelling, options: Switches, guide: Guide
    ) -> None:
        labelling = suited(read_labelling(problem, options.fewer_rows), "sharding")
        self.problem, self.options = problem, options
        self.polytope = Polytope(labelling, guide.cutoff)
        self.scale = Scale(self.polytope.unit)

    def build(self) -> pyo.ConcreteModel | CompiledModel:
        large = len(self.polytope.names) > LARGE
        if self.options.builder == "columns" or (self.options.builder == "auto" and large):
            return self.polytope.compiled()
        self.m = pyo.ConcreteModel("sharding")
        self.columns()
        self.choose()
        self.edges()
        self.memory()
        self.cost()
        return self.m

    def columns(self) -> None:
        """Strategies and pairs that may be chosen."""
        names = self.polytope.names
        labels = [tuple(index) for index in names.labels.tolist()]
        pairs = [tuple(index) for index in names.pairs.tolist()]
        self.m.x = pyo.Var(labels, domain=pyo.Binary)
        self.m.z = pyo.Var(pairs, bounds=(0, 1))
        self.terms: dict[tuple[int, int, int], Terms] = {}  # (side, edge, label) -> pairs
        for edge, first, second in pairs:
            column = self.m.z[edge, first, second]
            self.terms.setdefault((0, edge, first), []).append((1.0, column))
            self.terms.setdefault((1, edge, second), []).append((1.0, column))

    def choose(self) -> None:
        """Every operator has one strategy."""
        m, operators = self.m, len(self.polytope.labelling)
        self.strategies: list[list[int]] = [[] for _ in range(operators)]
        for operator, label in m.x:
            self.strategies[operator].append(label)
        m.choose = pyo.ConstraintList()
        for operator, labels in enumerate(self.strategies):
            add(m.choose, 1.0, [(1.0, m.x[operator, label]) for label in labels], 1.0)

    def edges(self) -> None:
        """The pairs of an edge sum to the strategies at either end."""
        m = self.m
        m.left, m.right = pyo.ConstraintList(), pyo.ConstraintList()
        for edge, ends in enumerate(self.polytope.labelling.ends.tolist()):
            for side, rows in enumerate((m.left, m.right)):
                for label in self.strategies[ends[side]]:
                    pairs = self.terms.get((side, edge, label), [])
                    add(rows, 0.0, [*pairs, (-1.0, m.x[ends[side], label])], 0.0)

    def memory(self) -> None:
        """What is in use at an instant fits."""
        m, b = self.m, self.polytope.labelling
        owner = self.polytope.owner.tolist()
        m.memory = pyo.ConstraintList()
        for row in self.polytope.memory():
            terms = []
            for number, amount in zip(row.labels.tolist(), row.amounts.tolist(), strict=True):
                label = number - int(b.offsets[owner[number]])
                terms.append((amount, m.x[owner[number], label]))
            add(m.memory, None, terms, row.capacity)

    def cost(self) -> None:
        """Costs above the smallest entry of each table, in units."""
        m, polytope = self.m, self.polytope
        costs = (
            polytope.dearer[polytope.label].tolist() + polytope.pair_dearer[polytope.pair].tolist()
        )
        m.objective = pyo.Objective(
            expr=LinearExpression(
                constant=polytope.floor / polytope.unit,
                linear_coefs=[cost / polytope.unit for cost in costs],
                linear_vars=[*m.x.values(), *m.z.values()],
            )
        )

    def decode(self, values: Values) -> ShardingPlan:
        """Take the largest share of each operator."""
        shares: dict[int, tuple[float, int]] = {}
        for (operator, label), share in values.get("x", {}).items():
            shares[operator] = max(shares.get(operator, (-1.0, 0)), (share, -label))
        if len(shares) < len(self.polytope.labelling):
            raise FormulationError("sharding: an operator has no strategy left to choose from")
        chosen = tuple(-shares[operator][1] for operator in range(len(shares)))
        if isinstance(self.problem, ShardingProblem):
            name, fingerprint = self.problem.name, self.problem.fingerprint
            return ShardingPlan(name, chosen, fingerprint, planner="sharding")
        return ShardingPlan("", chosen, planner="sharding")


def add(rows: Any, least: float | None, terms: Terms, most: float) -> None:
    """Add a row between two bounds."""
    factors, columns = [factor for factor, _ in terms], [column for _, column in terms]
    body = LinearExpression(constant=0, linear_coefs=factors, linear_vars=columns)
    rows.add((least, body, most))


FORMULATION = Sharding(_Builder)
