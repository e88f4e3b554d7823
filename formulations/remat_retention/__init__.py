r"""Retention intervals: where each copy of a result begins, and for which reader it lasts.

Letters: operator i of cost c and b bytes, in the order of the problem; stage t, which ends with the
first run of operator t. Event (t,j) is a run of operator j in stage t, number t(t+1)/2 + j of the
grid. An interval of i begins at an event (t,i) and ends at an event of a reader.

===========  ====================================================================================
R[t,i]       an interval of i begins in stage t; R[t,t] = 1, a constant
S[t,i]       an interval of i lasts from stage t - 1 into stage t
E[t,i,j]     an interval of i lasts until event (t,j) at least; j <= t reads i: its end, in unary
``begin``    E[t,i,first j] <= R[t,i] + S[t,i]                  only what has begun lasts
``end``      E[t,i,next j] <= E[t,i,j],  S[t+1,i] <= E[t,i,last j]
``read``     R[t,j] <= E[t,i,j]                                 an interval of every input
``one``      R[t,i] + S[t,i] <= 1                               none begins while another lasts
``memory``   sum over the intervals that last at event (t,j) of b <= budget
``most``     sum over t of R[t,i] <= C                          the switch ``intervals``
===========  ====================================================================================

The objective is sum c(i) R[t,i] over i < t. At event (t,j) an interval of i lasts where i < j and
E[t,i,k] = 1 for the first reader k >= j (or S[t+1,i] = 1, if there is none); where i > j and
S[t,i] = 1; and for j itself where R[t,j] or S[t,j]. The row holds for an event at which nothing
runs as well: what lasts there lasts at the next event at which something does.

Given R, ends are never fractional: E and S are the largest of what reads them. ``one`` leaves out
no value, as a run while a copy is there can be left out.

Source: the intervals, the grid and C are those of Bartan et al., MOCCASIN (ICML 2023, arXiv
2304.14463), which searches them by constraint programming; ends in unary instead of
integers with big-M are this project's. **What it leaves out**: an operator runs once per stage and
in order, as in the source; and with ``intervals`` all plans with more of them.
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

NAME = "remat_retention"


@dataclass(frozen=True)
class Switches:
    """Switches of the formulation."""

    intervals: int = field(
        default=0,
        metadata={"help": "intervals of one result at most (C); 0: any number", "least": 0},
    )
    entries: int = field(
        default=4_000_000,
        metadata={"help": "refuse problems with more matrix entries than this", "least": 0},
    )


class RematRetention(StagedFormulation):
    """Beginnings and ends of intervals."""

    card = Card(
        name=NAME,
        title="Rematerialisation by retention intervals, whose ends are counted in unary",
        source="Bartan et al., MOCCASIN (ICML 2023, arXiv 2304.14463)",
        objectives=(RematerialisationObjective.ADDED_TIME,),
        exact=False,
    )
    Options = Switches

    def too_large(self, problem: RematerialisationProblem, options: Switches) -> str | None:
        """Too many entries."""
        last = Amounts(problem).last
        needed = sum(sum(last[i] >= t for i in range(t + 1)) * (t + 1) for t in range(len(last)))
        if needed > options.entries:
            return f"needs about {needed} entries, the switch entries allows {options.entries}"
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
        runs = {run for run in staged.runs if run[0] > run[1]}
        kept = staged.kept
        ends = {
            (stage, copy.operator, reader)
            for copy in staged.copies
            for reader in problem.readers[copy.operator]
            for stage in range(max(copy.stage, reader), copy.last[0] + 1)
            if (stage, reader) <= copy.last
        }
        values = self.start(model, {"R": runs, "S": kept, "E": ends})
        if values is None:
            return None
        return values if model.violation(model.vector(values))[0] <= 1e-6 else None


class _Builder(StagedRows):
    """One model under construction."""

    def rows(self) -> None:
        self.columns()
        for stage in range(self.count):
            for i in range(stage + 1):
                if stage <= self.last[i]:
                    self.interval(stage, i)
            for j in range(stage + 1):
                self.reading(stage, j)
                self.memory(stage, j)
        self.few()

    def columns(self) -> None:
        for t in range(self.count):
            for i in range(t + 1):
                if t > self.last[i]:
                    continue
                if i < t:
                    self.table.column(("S", (t, i)))
                    if self.problem.computations[i].again:
                        self.table.column(("R", (t, i)), self.amounts.cost(i))
                for j in self.readers(t, i):
                    self.table.column(("E", (t, i, j)), integer=False)

    def readers(self, stage: int, operator: int) -> list[int]:
        """Readers that may run in a stage."""
        return [j for j in self.problem.readers[operator] if j <= stage <= self.last[j]]

    def begun(self, stage: int, operator: int) -> list[Term]:
        """R + S: whether an interval begins in a stage, or lasts into it."""
        if stage == operator:
            return [(None, 1.0)]
        names = (("R", (stage, operator)), ("S", (stage, operator)))
        return [(name, 1.0) for name in names if name in self.table]

    def interval(self, t: int, i: int) -> None:
        """``begin``, ``end`` and ``one``."""
        before = self.begun(t, i)
        if t > i:
            self.table.row("one", before, high=1.0)
        ends = [("E", (t, i, j)) for j in self.readers(t, i)]
        for end in (*ends, ("S", (t + 1, i))):
            if end in self.table:
                self.table.row("end" if end[0] == "S" else "begin", [*before, (end, -1.0)], 0.0)
                before = [(end, 1.0)]

    def reading(self, t: int, j: int) -> None:
        run: Term = (None, 1.0) if j == t else (("R", (t, j)), 1.0)
        if run[0] is None or run[0] in self.table:
            for i in self.problem.inputs[j]:
                self.table.row("read", [(("E", (t, i, j)), 1.0), (run[0], -1.0)], 0.0)

    def lasting(self, t: int, i: int, j: int) -> list[Term]:
        """Whether an interval of i lasts at event (t,j)."""
        if i == j:
            return self.begun(t, j)
        if i > j:
            return [(("S", (t, i)), 1.0)]
        later = next((k for k in self.readers(t, i) if k >= j), None)
        return [(("S", (t + 1, i)) if later is None else ("E", (t, i, later)), 1.0)]

    def memory(self, t: int, j: int) -> None:
        """Bytes at event (t,j), unless nothing can run there."""
        if j < t and ("R", (t, j)) not in self.table:
            return
        terms = [
            (name, size)
            for i, size in enumerate(self.amounts.sizes[: t + 1])
            for name, _ in (self.lasting(t, i, j) if size else ())
            if name is None or name in self.table
        ]
        self.table.row("memory", terms, high=self.amounts.room)

    def few(self) -> None:
        """``most``: the first run begins one interval."""
        if not self.options.intervals:
            return
        for i in range(self.count):
            names = [("R", (t, i)) for t in range(i + 1, self.last[i] + 1)]
            terms: list[Term] = [(name, 1.0) for name in names if name in self.table]
            self.table.row("most", terms, high=self.options.intervals - 1.0)

    def decode(self, values: Values) -> RematerialisationPlan:
        """Begin what the model begins."""
        chosen = [index for index, share in values.get("R", {}).items() if share > 0.5]
        return Staged.of(self.problem, chosen).plan(NAME)


FORMULATION: Any = RematRetention(_Builder)
