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
from typing import Any

from milp_plan.api import (
    BuilderFormulation,
    Card,
    CompiledModel,
    FormulationError,
    Guide,
    Scale,
    ShardingObjective,
    ShardingPlan,
    ShardingProblem,
    Values,
    require_supported,
)
from milp_plan.kinds.sharding.labelling import Labelling
from milp_plan.kinds.sharding.reading import read_labelling

from .polytope import Polytope


@dataclass(frozen=True)
class Switches:
    """Switches."""

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

    def unsupported(self, problem: Any, options: Switches) -> str | None:
        """Only sharding problems, and what reductions leave of them."""
        found = read_labelling(problem, fewer_rows=False)
        return found if isinstance(found, str) else None

    def encode(
        self,
        problem: ShardingProblem | Labelling,
        options: Switches,
        model: CompiledModel,
        plan: ShardingPlan,
    ) -> Values | None:
        """Complete start from a plan; ``None`` if the cutoff has left it out."""
        names: Any = model.columns
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
        labelling = require_supported(read_labelling(problem, options.fewer_rows), "sharding")
        self.problem = problem
        self.polytope = Polytope(labelling, guide.cutoff)
        self.scale = Scale(self.polytope.unit)

    def build(self) -> CompiledModel:
        return self.polytope.compiled()

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


FORMULATION = Sharding(_Builder)
