r"""Checkmate's program: what runs and what is kept in each stage, and the memory after each run.

Letters: operator i of cost c and b bytes, in the order of the problem; stage t, which ends with the
first run of operator t; i < k <= t.

===========  ====================================================================================
R[t,i]       operator i runs in stage t; R[t,t] = 1
S[t,i]       a copy of i is kept from stage t - 1 to stage t
F[t,i,k]     the copy of i is let go behind k in stage t; i is k or an input of k
U[t,k]       what is held while k runs in stage t
``read``     R[t,k] <= R[t,i] + S[t,i]                  i an input of k
``keep``     S[t,i] <= R[t-1,i] + S[t-1,i]
``free``     F[t,i,k] <= R[t,k];  F[t,i,k] <= 1 - S[t+1,i];  F[t,i,k] <= 1 - R[t,j]  for readers
             j > k of i
``begin``    U[t,0] = sum_i b(i) S[t,i] + b(0) R[t,0]
``next``     U[t,k+1] = U[t,k] - sum_i b(i) F[t,i,k] + b(k+1) R[t,k+1]
===========  ====================================================================================

The objective is sum c(i) R[t,i] over i < t, the paper's less what runs once; U is at most the
budget. Source: Jain et al., Checkmate (MLSys 2020, arXiv 1910.02653), the integer program with
partitioned (frontier-advancing) stages and its linearised FREE, here F; names are the paper's.
F has upper bounds alone: letting go only helps, so rows that force it are not needed, and F may be
fractional where R and S are not.

**What it leaves out.** The law lets an operator run more than once, and in any order, between two
first runs; here it runs once per stage and in order. Its optimum is the least of such plans.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from milp_plan.api import Card, CompiledModel, Term, Values
from milp_plan.kinds.rematerialisation.problem import (
    RematerialisationObjective,
    RematerialisationPlan,
    RematerialisationProblem,
)
from milp_plan.kinds.rematerialisation.staged import StagedFormulation, StagedRows
from milp_plan.kinds.rematerialisation.stages import Amounts, Staged

NAME = "remat_staged"


@dataclass(frozen=True)
class Switches:
    """Switches of the formulation."""

    columns: int = field(
        default=100_000,
        metadata={"help": "refuse problems with more columns than this", "least": 0},
    )


class RematStaged(StagedFormulation):
    """Runs and copies by stage."""

    card = Card(
        name=NAME,
        title="Rematerialisation by stages: what runs, what is kept, when it is let go",
        source="Jain et al., Checkmate (MLSys 2020, arXiv 1910.02653), partitioned stages",
        objectives=(RematerialisationObjective.ADDED_TIME,),
        exact=False,
    )
    Options = Switches

    def too_large(self, problem: RematerialisationProblem, options: Switches) -> str | None:
        """Too many columns."""
        needed = _columns(problem)
        if needed > options.columns:
            return f"needs {needed} columns, the switch columns allows {options.columns}"
        return None

    def encode(
        self,
        problem: RematerialisationProblem,
        options: Switches,
        model: CompiledModel,
        plan: RematerialisationPlan,
    ) -> Values | None:
        """Complete start from a plan whose runs, once per stage and in order, keep the budget."""
        staged = Staged.read(problem, plan)
        runs, kept = set(staged.runs), staged.kept
        released = {(copy.last[0], copy.operator, copy.last[1]) for copy in staged.copies}
        values = self.start(model, {"R": runs, "S": kept})
        if values is None:
            return None  # it keeps what nobody needs any more
        values["F"] = {index: float(index in released) for index in values["F"]}
        return _filled(Amounts(problem), values)


def _columns(problem: RematerialisationProblem) -> int:
    stages = [last - place + 1 for place, last in enumerate(Amounts(problem).last)]
    read = [len(inputs) for inputs in problem.inputs]
    return sum((4 + read[place]) * count for place, count in enumerate(stages))


def _filled(amounts: Amounts, values: Values) -> Values | None:
    """Values with U, or ``None`` where that exceeds the budget."""
    problem, sizes = amounts.problem, amounts.sizes
    ran, kept, gone = values["R"], values.get("S", {}), values["F"]
    for stage in range(len(sizes)):
        held = sum(size * kept.get((stage, i), 0.0) for i, size in enumerate(sizes))
        for k in range(stage + 1):
            held += sizes[k] * ran.get((stage, k), 0.0)
            if held > amounts.room * (1 + 1e-9) + 1e-9:
                return None
            values["U"][stage, k] = min(held, amounts.room)
            for i in (*problem.inputs[k], k):
                held -= sizes[i] * gone.get((stage, i, k), 0.0)
    return values


class _Builder(StagedRows):
    """One model under construction."""

    def rows(self) -> None:
        self.columns()
        for stage in range(self.count):
            self.reading(stage)
            self.keeping(stage)
            self.freeing(stage)
            self.memory(stage)

    def columns(self) -> None:
        problem, table = self.problem, self.table
        for t in range(self.count):
            for i in range(t + 1):
                table.column(("U", (t, i)), upper=self.amounts.room, integer=False)
                if i == t:
                    table.column(("R", (t, t)))
                    table.row("first", [(("R", (t, t)), 1.0)], 1.0)
                elif t <= self.last[i]:
                    table.column(("S", (t, i)))
                    if problem.computations[i].again:
                        table.column(("R", (t, i)), self.amounts.cost(i))
                for source in (*problem.inputs[i], i):
                    if ("R", (t, i)) in table:
                        table.column(("F", (t, source, i)), integer=False)

    def there(self, stage: int, operator: int) -> list[Term]:
        """R + S."""
        names = (("R", (stage, operator)), ("S", (stage, operator)))
        return [(name, 1.0) for name in names if name in self.table]

    def reading(self, t: int) -> None:
        for k in range(t + 1):
            if ("R", (t, k)) in self.table:
                for i in self.problem.inputs[k]:
                    self.table.row("read", [*self.there(t, i), (("R", (t, k)), -1.0)], 0.0)

    def keeping(self, t: int) -> None:
        for i in range(t):
            if ("S", (t, i)) in self.table:
                self.table.row("keep", [*self.there(t - 1, i), (("S", (t, i)), -1.0)], 0.0)

    def freeing(self, t: int) -> None:
        for k in range(t + 1):
            ran = ("R", (t, k))
            if ran not in self.table:
                continue
            for i in (*self.problem.inputs[k], k):
                gone = (("F", (t, i, k)), 1.0)
                self.table.row("free", [gone, (ran, -1.0)], high=0.0)
                later = [("R", (t, j)) for j in self.problem.readers[i] if k < j <= t]
                for other in (("S", (t + 1, i)), *later):
                    if other in self.table:
                        self.table.row("free", [gone, (other, 1.0)], high=1.0)

    def memory(self, t: int) -> None:
        sizes, table = self.amounts.sizes, self.table
        terms: list[Term] = [(("S", (t, i)), sizes[i]) for i in range(t)]
        for k in range(t + 1):
            terms.append((("R", (t, k)), sizes[k]))
            held = ("U", (t, k))
            known = [term for term in terms if term[0] in table and term[1]]
            table.row("begin" if k == 0 else "next", [*known, (held, -1.0)], 0.0, 0.0)
            gone = [(("F", (t, i, k)), -sizes[i]) for i in (*self.problem.inputs[k], k)]
            terms = [(held, 1.0), *gone]

    def decode(self, values: Values) -> RematerialisationPlan:
        """Run what the model runs."""
        chosen = [index for index, share in values["R"].items() if share > 0.5]
        return Staged.of(self.problem, chosen).plan(NAME)


FORMULATION: Any = RematStaged(_Builder)
