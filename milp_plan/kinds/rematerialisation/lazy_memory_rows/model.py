r"""Rematerialisation with memory watched at some steps: a relaxation, small where few are watched.

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
``cover``    sum_{i in C} S[k,i] <= |C| - 1      C too large, by less than a solver may notice
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
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from milp_plan.lp import CompiledModel
from milp_plan.lp.tableau import Tableau, Term

from ..problem import RematerialisationProblem

Name = tuple[str, tuple[int, int]]


@dataclass(frozen=True)
class Watch:
    """Where a model looks.

    Parameters
    ----------
    steps
        Operators at whose first runs memory is watched.
    inside
        (step, operator): memory is watched while the operator runs again in the part that ends
        with the first run of ``step``.
    covers
        Step, and operators of which not all may be held then beside what its run needs.
    """

    steps: frozenset[int]
    inside: frozenset[tuple[int, int]] = frozenset()
    covers: frozenset[tuple[int, frozenset[int]]] = frozenset()


@dataclass
class Watched:
    """The model of a problem for what is watched.

    Parameters
    ----------
    problem
        With a budget.
    watch
        Where to look.
    cutoff
        Ticks of added time that a solution may have at most; ``None`` without a limit.
    """

    problem: RematerialisationProblem
    watch: Watch
    cutoff: int | None = None
    table: Tableau = field(default_factory=Tableau, init=False, repr=False)
    _both: list[tuple[int, int]] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        assert self.problem.budget is not None
        self.budget: int = self.problem.budget
        self.steps = sorted(self.watch.steps)
        count = len(self.problem.computations)
        ends = [*self.steps, count - 1] if self.steps[-1:] != [count - 1] else self.steps
        starts = [0, *(end + 1 for end in ends[:-1])]
        self.parts = [range(*pair) for pair in zip(starts, (e + 1 for e in ends), strict=True)]
        self.forced = [frozenset(self.problem.inputs[step]) | {step} for step in self.steps]
        self.size = [entry.size for entry in self.problem.computations]
        self.unit = max(1, *self.size)

    @cached_property
    def tick(self) -> int:
        """Ticks per unit of the objective: what all costs are multiples of."""
        return gcd(*(entry.cost for entry in self.problem.computations if entry.again)) or 1

    @cached_property
    def compiled(self) -> CompiledModel:
        """The model."""
        for part, span in enumerate(self.parts):
            self._columns(part, span.start)
        for part, span in enumerate(self.parts):
            needed = {i for j in span for i in self.problem.inputs[j] if i < span.start}
            for i in sorted(needed):
                self.table.row("read", [*self._there(part, i)], 1.0, inf)
            self._rerun_rows(part, span.start, needed)
            if part < len(self.steps):
                self._keep_rows(part, span.start, needed)
                self._memory_row(part)
        self._inside_rows()
        self._cover_rows()
        if self.cutoff is not None:
            self.table.cost_row("cutoff", self.cutoff // self.tick)
        return self.table.compiled()

    def _columns(self, part: int, start: int) -> None:
        for i in range(start):
            if self.problem.computations[i].again:
                self._column(("R", (part, i)), self.problem.computations[i].cost)
        if part < len(self.steps):
            for i in range(self.steps[part]):
                if i not in self.forced[part]:
                    self._column(("S", (part, i)), 0)

    def _column(self, name: Name, cost: int) -> None:
        self.table.column(name, cost / self.tick)

    def _held(self, part: int, i: int) -> Name | bool | None:
        """The column of a[part,i]; ``None`` for 1, ``False`` for 0."""
        if part < 0 or i > self.steps[part]:
            return False
        return None if i in self.forced[part] else ("S", (part, i))

    def _there(self, part: int, i: int) -> list[Term]:
        """a[part-1,i] + R[part,i]."""
        held = self._held(part - 1, i)
        terms: list[Term] = [] if isinstance(held, bool) else [(held, 1.0)]
        again: Name = ("R", (part, i))
        return [*terms, (again, 1.0)] if again in self.table else terms

    def _rerun_rows(self, part: int, start: int, needed: set[int]) -> None:
        for j in range(start):
            name: Name = ("R", (part, j))
            if name not in self.table:
                continue
            for i in self.problem.inputs[j]:
                if i not in needed and self._held(part - 1, i) is not None:
                    self.table.row("again", [*self._there(part, i), (name, -1.0)], 0.0, inf)

    def _keep_rows(self, part: int, start: int, needed: set[int]) -> None:
        for i in range(start):
            name: Name = ("S", (part, i))
            known = i in needed or self._held(part - 1, i) is None
            if name in self.table and not known:
                self.table.row("keep", [*self._there(part, i), (name, -1.0)], 0.0, inf)

    def _memory_row(self, part: int) -> None:
        left = self.budget - sum(self.size[i] for i in self.forced[part])
        terms: list[Term] = [
            (("S", (part, i)), self.size[i] / self.unit)
            for i in range(self.steps[part])
            if i not in self.forced[part] and self.size[i]
        ]
        self.table.row("memory", terms, -inf, left / self.unit)

    def _inside_rows(self) -> None:
        for step, j in sorted(self.watch.inside):
            part = self.steps.index(step)
            name: Name = ("R", (part, j))
            if name not in self.table:
                continue
            own = {j, *self.problem.inputs[j]}
            base = sum(self.size[i] for i in own)
            others = [i for i in range(self.parts[part].start) if i not in own and self.size[i]]
            terms: list[Term] = [(self._through(part, i), self.size[i] / self.unit) for i in others]
            most = max(0, base + sum(self.size[i] for i in others) - self.budget)
            limit = (self.budget - base + most) / self.unit
            self.table.row("inside", [*terms, (name, most / self.unit)], -inf, limit)

    def _through(self, part: int, i: int) -> Name:
        """The column T[part,i], with its row."""
        name: Name = ("T", (part, i))
        if name not in self.table:
            self._column(name, 0)
            self._both.append((part, i))
            terms: list[Term] = [(name, 1.0), (None, 1.0)]
            for at in (part - 1, part):
                held = self._held(at, i)
                if not isinstance(held, bool):
                    terms.append((held, -1.0))
            if ("R", (part, i)) in self.table:
                terms.append((("R", (part, i)), 1.0))
            self.table.row("through", terms, 0.0, inf)
        return name

    def _cover_rows(self) -> None:
        for step, cover in sorted(self.watch.covers, key=lambda entry: entry[0]):
            part = self.steps.index(step)
            terms: list[Term] = [(("S", (part, i)), 1.0) for i in sorted(cover)]
            self.table.row("cover", terms, -inf, len(cover) - 1.0)

    # -- plans and solutions -----------------------------------------------------------------------

    def runs(self, values: Mapping[str, Mapping[Any, float]]) -> list[int]:
        """Return the runs of a solution: what runs again does so just before it is needed."""
        again, kept = values.get("R", {}), values.get("S", {})
        sequence: list[int] = []
        held: set[int] = set()

        def run(operator: int) -> None:
            waiting = [operator]
            while waiting:
                missing = [i for i in self.problem.inputs[waiting[-1]] if i not in held]
                if missing:
                    waiting += missing
                    continue
                now = waiting.pop()
                if now not in held:
                    sequence.append(now)
                    held.add(now)

        for part, span in enumerate(self.parts):
            wanted: list[int] = []
            if part < len(self.steps):
                wanted = [i for i in range(span.start) if kept.get((part, i), 0.0) > 0.5]
            for operator in span[:-1]:
                run(operator)
            for operator in (*wanted, span[-1]):
                if operator == span[-1] or again.get((part, operator), 0.0) > 0.5:
                    run(operator)
            if part < len(self.steps):
                held = {*wanted, *self.forced[part]}
                held |= {i for i in span if kept.get((part, i), 0.0) > 0.5}
        return sequence

    def vector(self, runs: list[int], last: list[int]) -> NDArray[np.float64]:
        """Return the solution that a plan is.

        Parameters
        ----------
        runs
            Operators, one after the other.
        last
            For each run, the run that reads its copy last.
        """
        model = self.compiled
        values = np.zeros(model.num_columns)
        part = done = 0
        first: list[int] = []
        for number, operator in enumerate(runs):
            if operator == done:
                first.append(number)
                if part < len(self.steps) and operator == self.steps[part]:
                    part += 1
                done += 1
            elif ("R", (part, operator)) in self.table:
                values[self.table.places["R", (part, operator)]] = 1.0
        ends = [first[step] for step in self.steps]
        for number, operator in enumerate(runs):
            for part, end in enumerate(ends):
                if number < end <= last[number] and ("S", (part, operator)) in self.table:
                    values[self.table.places["S", (part, operator)]] = 1.0
        for part, i in self._both:
            total = sum(
                1.0 if name is None else values[self.table.places[name]]
                for at in (part - 1, part)
                if not isinstance(name := self._held(at, i), bool)
            )
            again = self.table.places.get(("R", (part, i)))
            total -= 0.0 if again is None else values[again]
            values[self.table.places["T", (part, i)]] = max(0.0, total - 1.0)
        return values
