r"""Rematerialisation with memory watched at some steps, and at more where a plan exceeds it.

Let the first runs of operators p_0 < p_1 < ... be watched. Part k of a plan is everything behind
the first run of p_(k-1), up to and with that of p_k; the last part ends with the plan. Letters:
b(i) the bytes of operator i, F(k) the inputs of p_k and p_k itself.

===========  ====================================================================================
R[k,i]       operator i, which runs first before part k, runs again in part k
S[k,i]       a copy of i is held while p_k runs first, i < p_k and not in F(k)
a[k,i]       what is there once p_k has run: 1 for i in F(k), else S[k,i]
``read``     a[k-1,i] + R[k,i] >= 1           i read in part k by a first run, made before it
``again``    a[k-1,i] + R[k,i] >= R[k,j]      i read by j
``keep``     a[k-1,i] + R[k,i] >= S[k,i]      i made before part k
``memory``   sum_i b(i) S[k,i] <= budget - sum_{i in F(k)} b(i)
``through``  T[k,i] >= a[k-1,i] + a[k,i] - R[k,i] - 1
``inside``   sum_i b(i) T[k,i] <= budget - b(j) - b(inputs of j)      where R[k,j] = 1
``cover``    sum_{i in C} S[k,i] <= size(C) - 1  C too large, by less than a solver may notice
===========  ====================================================================================

The objective is sum_k,i cost(i) R[k,i].

Every plan within the budget is a solution of at most its added time, so the optimum is a bound:
let S[k,i] = 1 where a copy of i is held while p_k runs first, and R[k,i] = 1 where i runs again in
part k. What is read in a part, or held at its end, was held at its beginning or is made in it;
what is held while p_k runs first is within the budget, the inputs of p_k and its output among it.
What is held at both ends of a part without running again in it (T = 1) is held during all of it,
thus together with output and inputs of whatever j runs again there: a copy of another operator
that is held at both ends is the same copy, since a new one would take a run. Rows for operators j
that are not asked for are left out, which is a relaxation as well.

The idea of steps is Checkmate's (Jain et al., MLSys 2020); that plans may run an operator in any
order, and more than once, between two first runs is not excluded here.

Which steps, rows ``inside`` and ``cover`` there are is what ``guide.lazy`` says: at first the steps
that hold too much where every operator runs once; then what the last plan exceeds as well
(:meth:`RematLazyMemory.refined`). A plan that keeps the budget ends that: it is an optimal one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from milp_plan.api import BuilderFormulation, Card, CompiledModel, Guide, Scale, Values
from milp_plan.kinds.rematerialisation.problem import (
    RematerialisationObjective,
    RematerialisationPlan,
    RematerialisationProblem,
)

from .rows import Watch, Watched, first_steps

NAME = "remat_lazy_memory"


@dataclass(frozen=True)
class Switches:
    """Options of the formulation."""

    columns: int = field(
        default=80_000,
        metadata={
            "help": "columns at first, about; where all full steps take more, some are left",
            "least": 0,
        },
    )
    integers: bool = field(
        default=True, metadata={"help": "False: the linear relaxation, for its bound alone"}
    )


@dataclass(frozen=True)
class WatchedModel(CompiledModel):
    """A matrix that knows what it was written from."""

    watched: Watched | None = None


class RematLazyMemory(BuilderFormulation):
    """Bits of runs and copies between watched steps."""

    card = Card(
        name=NAME,
        title="Rematerialisation in any order, with memory rows added where a plan exceeds them",
        source="this project; steps as in Checkmate (Jain et al., MLSys 2020)",
        objectives=(RematerialisationObjective.ADDED_TIME,),
        exact=False,
        relaxes=True,
    )
    handles = RematerialisationProblem
    Options = Switches

    def unsupported(self, problem: RematerialisationProblem, options: Switches) -> str | None:
        """Another objective, or a host."""
        if problem.objective is not RematerialisationObjective.ADDED_TIME:
            return "it minimises added time alone"
        return None if problem.host is None else "it knows no host"

    def encode(
        self,
        problem: RematerialisationProblem,
        options: Switches,
        model: WatchedModel,
        plan: RematerialisationPlan,
    ) -> Values | None:
        """Complete start from any plan."""
        assert model.watched is not None
        runs = [problem.numbers[name] for name in plan.runs]
        return model.name_values(model.watched.vector(runs))

    def refined(
        self,
        problem: RematerialisationProblem,
        options: Switches,
        guide: Guide,
        plan: RematerialisationPlan,
    ) -> Guide | None:
        """Watch what a plan exceeds as well; ``None`` where it exceeds nothing new."""
        watched = guide.keep(self.builder, problem, options).watched
        more = watched.exceeded([problem.numbers[name] for name in plan.runs])
        return None if more == watched.watch else replace(guide, lazy=more)


class _Builder:
    """One question."""

    def __init__(self, problem: RematerialisationProblem, options: Switches, guide: Guide) -> None:
        watch = guide.lazy or Watch(first_steps(problem, options.columns))
        self.watched = Watched(problem, watch, guide.cutoff)
        self.integers = options.integers
        self.scale = Scale(self.watched.tick, self.watched.tick)

    def build(self) -> WatchedModel:
        """Write the rows of what is watched."""
        model = WatchedModel(**vars(self.watched.compiled), watched=self.watched)
        return model if self.integers else replace(model, integrality=0 * model.integrality)

    def decode(self, values: Values) -> RematerialisationPlan | None:
        """Run again what the model runs again; that may hold too much."""
        if not self.integers:
            return None
        problem = self.watched.problem
        names = (problem.computations[place].name for place in self.watched.runs(values))
        return RematerialisationPlan(problem.name, tuple(names), planner=NAME)


FORMULATION: Any = RematLazyMemory(_Builder)
