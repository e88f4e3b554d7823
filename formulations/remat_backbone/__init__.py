r"""Bits on the backbone: each result is kept until its next reader, or made again just before it.

The backbone is the first runs, in order; its events are t = 0, 1, ... A *gap* (i,t) of operator i
ends at the first run of a reader t, and begins at the reader before it, or at i itself. Letters: c
and b, cost and bytes; A(t), the operators that may run again for event t: its inputs, their inputs,
and so on, ``depth`` levels.

===========  ====================================================================================
K[i,t]       the copy that is there when gap (i,t) begins is kept until t
R[t,i]       i, of A(t), runs again just before event t
H[t,i,j]     what R[t,i] makes, not read by t, is still there while R[t,j] runs
O[t,i]       i, an input of t, is read back from the host just before event t
P[i]         i is written to the host, right after its first run
``supply``   K[i,t] + R[t,i] + O[t,i] = 1                 i an input of t
``write``    O[t,i] <= P[i];  sum b(i) P[i] <= memory of the host
``time``     ticks of all R, O and P <= limit of added time
``chain``    R[t,j] <= K[i,t'] + R[t,i]                   i an input of j; (i,t') the gap around t
``one``      K[i,t'] + R[t,i] <= 1                        nothing runs again while it is there
``until``    H[t,i,j] >= H[t,i,next j],  H[t,i,j] >= R[t,i] + R[t,j] - 1       j reads i
``across``   X[t] = sum of b(i) K[i,t'] over the gaps around t that do not end there
``event``    X[t] <= budget - b(t) - sum of b(inputs of t)
``memory``   X[t] + sum b K[i,t] + sum b R[t,i] + sum b H[t,i,k] + b(j) R[t,j] <= budget
===========  ====================================================================================

``memory`` holds while R[t,j] runs: inputs i of t that were kept, those that were made before
(i < j), and what waits for a reader k >= j. It holds as well where R[t,j] = 0, as all of that is
there when the next run of the stage goes; O[t,i] counts wherever R[t,i] does. The objective is
sum c(i) R[t,i] + w(i) (O[t,i] + P[i]), w the price of a transfer; with ``added_energy`` c and w
are energies. O and P are there where the problem has a host (POET, Patil et al., ICML 2022,
arXiv 2207.07697, pages out and in by stage; here a result is written once).

Columns grow with the edges, not with the square of the operators: large graphs have a model.

Source: this project; keep, recompute per backward use as in Chen et al. (arXiv 1604.06174) and
their successors, as bits. **What it leaves out**: a copy that is made for one event and kept for a
later one that does not follow as a reader, and chains longer than ``depth``.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any

from milp_plan.api import Card, CompiledModel, Guide, Term, Values
from milp_plan.kinds.rematerialisation.problem import (
    RematerialisationObjective,
    RematerialisationPlan,
    RematerialisationProblem,
)
from milp_plan.kinds.rematerialisation.staged import StagedFormulation, StagedRows
from milp_plan.kinds.rematerialisation.stages import Amounts, Staged

NAME = "remat_backbone"
Key = tuple[int, int]


@dataclass(frozen=True)
class Switches:
    """Switches of the formulation."""

    depth: int = field(
        default=3,
        metadata={"help": "levels of inputs that may run again for one event", "least": 0},
    )
    columns: int = field(
        default=200_000,
        metadata={"help": "refuse problems with more columns than this", "least": 0},
    )


class RematBackbone(StagedFormulation):
    """Bits of gaps."""

    card = Card(
        name=NAME,
        title="Rematerialisation on the backbone: keep until the next reader, or make again for it",
        source="this project; Chen et al. (2016, arXiv 1604.06174) for the choice per reader",
        objectives=(
            RematerialisationObjective.ADDED_TIME,
            RematerialisationObjective.ADDED_ENERGY,
        ),
        exact=False,
    )
    Options = Switches
    knows_hosts = True

    def too_large(self, problem: RematerialisationProblem, options: Switches) -> str | None:
        """Too many columns."""
        known = 0
        for t in range(len(problem.computations)):
            known += 2 * len(problem.inputs[t]) + 3 * len(_allowed(problem, t, options.depth))
            if known > options.columns:
                return f"needs more columns than the {options.columns} of the switch columns"
        return None

    def encode(
        self,
        problem: RematerialisationProblem,
        options: Switches,
        model: CompiledModel,
        plan: RematerialisationPlan,
    ) -> Values | None:
        """Complete start from a plan that keeps and makes again as the model can."""
        staged = Staged.read(problem, plan)
        again = {run for run in staged.runs if run[0] > run[1]} - staged.reloads
        written = {i for _, i in staged.reloads}
        values = self.start(model, {"R": again, "O": set(staged.reloads), "P": written})
        if values is None:
            return None
        for i, t in values.get("K", {}):
            values["K"][i, t] = float((t, i) not in again | staged.reloads)
        for t, i, j in values.get("H", {}):
            needed = any((t, k) in again and i in problem.inputs[k] for k in range(j, t))
            values["H"][t, i, j] = float(needed and (t, i) in again)
        amounts = Amounts(problem)
        for t in values.get("X", {}):
            values["X"][t] = sum(
                amounts.sizes[i]
                for i in range(t)
                if (end := _gap(problem, i, t)) is not None and end > t and values["K"][i, end]
            )
        return values if model.violation(model.vector(values))[0] <= 1e-6 else None


def _allowed(problem: RematerialisationProblem, t: int, depth: int) -> list[int]:
    """A(t): operators that may run again for an event, in order."""
    found: set[int] = set()
    level = {*problem.inputs[t]}
    for _ in range(depth):
        level = {i for i in level if problem.computations[i].again} - found
        found |= level
        level = {source for i in level for source in problem.inputs[i]}
    return sorted(found)


def _gap(problem: RematerialisationProblem, operator: int, t: int) -> int | None:
    """End of the gap of an operator around event t, which may be t."""
    readers = problem.readers[operator]
    place = bisect_left(readers, t)
    return readers[place] if place < len(readers) else None


class _Builder(StagedRows):
    """One model under construction."""

    def __init__(self, problem: RematerialisationProblem, options: Switches, guide: Guide) -> None:
        super().__init__(problem, options, guide)
        self.host = problem.host
        self.allowed = [_allowed(problem, t, options.depth) for t in range(self.count)]

    def rows(self) -> None:
        for t in range(self.count):
            self.columns(t)
        for t in range(self.count):
            self.across(t)
            self.supply(t)
            for j in self.allowed[t]:
                self.chain(t, j)
            for j in sorted({*self.allowed[t], *(self.problem.inputs[t] if self.host else ())}):
                self.memory(t, j)
        self.writing()
        self.time()

    def columns(self, t: int) -> None:
        if self.host is not None:
            self.table.column(("P", t), self.amounts.transfer(t))
        for i in self.problem.inputs[t]:
            self.table.column(("K", (i, t)))
            if self.host is not None:
                self.table.column(("O", (t, i)), self.amounts.transfer(i))
        for i in self.allowed[t]:
            self.table.column(("R", (t, i)), self.amounts.cost(i))
            if i not in self.problem.inputs[t]:
                for j in self.readers(t, i):
                    self.table.column(("H", (t, i, j)), integer=False)
        self.table.column(("X", t), upper=self.amounts.room, integer=False)

    def readers(self, t: int, i: int) -> list[int]:
        """Operators that may run again for event t and read i."""
        return [j for j in self.problem.readers[i] if j in self.allowed[t]]

    def kept(self, t: int, i: int) -> list[Term]:
        """Whether a copy of i that was there before event t is there."""
        end = _gap(self.problem, i, t)
        return [] if end is None else [(("K", (i, end)), 1.0)]

    def made(self, t: int, i: int) -> list[Term]:
        """Whether i is made again or read back just before event t."""
        names = (("R", (t, i)), ("O", (t, i)))
        return [(name, 1.0) for name in names if name in self.table]

    def writing(self) -> None:
        """``write``."""
        if self.host is None:
            return
        for t, inputs in enumerate(self.problem.inputs):
            for i in inputs:
                self.table.row("write", [(("O", (t, i)), 1.0), (("P", i), -1.0)], high=0.0)
        if self.host.memory is not None:
            sizes = self.amounts.sizes
            terms: list[Term] = [(("P", i), sizes[i]) for i in range(self.count)]
            self.table.row("write", terms, high=self.host.memory / self.amounts.byte)

    def time(self) -> None:
        """``time``."""
        limit, terms = self.problem.added_limit, list[Term]()
        if limit is None:
            return
        unit = max(1.0, limit / 1e4)
        for (family, index), _ in self.table.places.items():
            place: Any = index
            if family == "R":
                terms.append(((family, index), self.problem.computations[place[1]].cost / unit))
            elif family in {"O", "P"}:
                operator = place if family == "P" else place[1]
                terms.append(((family, index), self.problem.transfers[operator] / unit))
        self.table.row("time", terms, high=limit / unit)

    def across(self, t: int) -> None:
        """``across`` and ``event``."""
        sizes = self.amounts.sizes
        terms: list[Term] = [(("X", t), -1.0)]
        for i in range(t):
            end = _gap(self.problem, i, t)
            if end is not None and end > t and sizes[i]:
                terms.append((("K", (i, end)), sizes[i]))
        self.table.row("across", terms, 0.0, 0.0)
        own = sizes[t] + sum(sizes[i] for i in self.problem.inputs[t])
        self.table.row("event", [(("X", t), 1.0)], high=self.amounts.room - own)

    def supply(self, t: int) -> None:
        for i in self.problem.inputs[t]:
            self.table.row("supply", [*self.kept(t, i), *self.made(t, i)], 1.0, 1.0)

    def chain(self, t: int, j: int) -> None:
        """``chain`` for what R[t,j] reads, ``one``, and ``until`` for what it makes."""
        run = ("R", (t, j))
        for i in self.problem.inputs[j]:
            self.table.row("chain", [*self.kept(t, i), *self.made(t, i), (run, -1.0)], 0.0)
        if j in self.problem.inputs[t]:
            return
        self.table.row("one", [*self.kept(t, j), (run, 1.0)], high=1.0)
        before: list[Term] = []
        for k in self.readers(t, j):
            waits = ("H", (t, j, k))
            self.table.row("until", [(waits, 1.0), (run, -1.0), (("R", (t, k)), -1.0)], -1.0)
            if before:
                self.table.row("until", [*before, (waits, -1.0)], 0.0)
            before = [(waits, 1.0)]

    def memory(self, t: int, j: int) -> None:
        sizes, inputs = self.amounts.sizes, self.problem.inputs[t]
        terms: list[Term] = [(("X", t), 1.0), *((name, sizes[j]) for name, _ in self.made(t, j))]
        terms += [(("K", (i, t)), sizes[i]) for i in inputs]
        for i in sorted({*self.allowed[t], *inputs}):
            if i >= j:
                break
            waiting = [(("H", (t, i, k)), 1.0) for k in self.readers(t, i) if k >= j][:1]
            for name, _ in self.made(t, i) if i in inputs else waiting:
                terms.append((name, sizes[i]))
        self.table.row("memory", terms, high=self.amounts.room)

    def decode(self, values: Values) -> RematerialisationPlan:
        """Run again what the model runs again."""
        again, back = (
            [index for index, share in values.get(family, {}).items() if share > 0.5]
            for family in ("R", "O")
        )
        return Staged.of(self.problem, again, back).plan(NAME)


FORMULATION: Any = RematBackbone(_Builder)
