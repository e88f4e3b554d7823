"""Columns and rows of a model that watches memory at some steps; plans from solutions and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from math import ceil, gcd, inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.api import CompiledModel, Tableau, Term
from milp_plan.kinds.rematerialisation.problem import RematerialisationProblem

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
        Without a budget, no plan holds too much.
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
        budget = self.problem.budget
        self.budget: int = self.problem.peak if budget is None else budget
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
        if not self.table.places:  # nothing may run again; solvers want a column
            self.table.column(("idle", (0, 0)), upper=0.0)
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

    def vector(self, runs: list[int]) -> NDArray[np.float64]:
        """Return the solution that a plan is: operators, one after the other."""
        last = [copy.last for copy in copies_of(self.problem, runs)]
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

    # -- lazy rows ---------------------------------------------------------------------------------

    def exceeded(self, runs: list[int]) -> Watch:
        """Return where to look next: what it is now, and what a plan exceeds."""
        copies = copies_of(self.problem, runs)
        held, done, part = usage_of(self.problem, copies), 0, 0
        steps, inside = set(self.watch.steps), set(self.watch.inside)
        covers, late = set(self.watch.covers), set[int]()
        for number, operator in enumerate(runs):
            over = held[number] > self.budget
            if operator == done:
                if over and operator not in steps:
                    steps.add(operator)
                elif over:
                    covers.add((operator, self._cover(copies, number)))
                part += part < len(self.steps) and operator == self.steps[part]
                done += 1
            elif over and part < len(self.steps) and (self.steps[part], operator) not in inside:
                inside.add((self.steps[part], operator))
            elif over:
                late.add(done)
        found = Watch(frozenset(steps), frozenset(inside), frozenset(covers))
        if found == self.watch and late:
            found = replace(found, steps=found.steps | late)
        return found

    def _cover(self, copies: list[Copy], number: int) -> frozenset[int]:
        """What is held during a run beside its output and its inputs."""
        operator = copies[number].operator
        there = {c.operator for c in copies if c.made <= number <= c.last and self.size[c.operator]}
        return frozenset(there - {operator, *self.problem.inputs[operator]})


class Copy(NamedTuple):
    """What a run makes, and the numbers of the run and of the last one that reads it."""

    operator: int
    made: int
    last: int


def copies_of(problem: RematerialisationProblem, runs: list[int]) -> list[Copy]:
    """Return the copy that each run makes."""
    made: dict[int, int] = {}
    last: list[int] = []
    for number, operator in enumerate(runs):
        for source in problem.inputs[operator]:
            last[made[source]] = number
        made[operator] = number
        last.append(number)
    return [Copy(*entry) for entry in zip(runs, range(len(runs)), last, strict=True)]


def usage_of(problem: RematerialisationProblem, copies: list[Copy]) -> list[int]:
    """Return the bytes held during each run."""
    changes = [0] * (len(copies) + 1)
    for copy in copies:
        size = problem.computations[copy.operator].size
        changes[copy.made] += size
        changes[copy.last + 1] -= size
    return list(accumulate(changes[:-1]))


def first_steps(problem: RematerialisationProblem, columns: int) -> frozenset[int]:
    """Return steps to watch first: those that hold too much where every operator runs once.

    Where that makes more than this many columns, the fullest ones of stretches of the order.
    """
    budget = problem.peak if problem.budget is None else problem.budget
    over = [step for step, held in enumerate(problem.held) if held > budget]
    most = max(4, columns // (2 * len(problem.computations)))
    width = ceil(len(over) / most) if over else 1
    groups = (over[place : place + width] for place in range(0, len(over), width))
    return frozenset(max(group, key=problem.held.__getitem__) for group in groups)
