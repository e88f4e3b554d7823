"""Plans of rematerialisation as stages: the runs before each first run, and the copies.

Stage t ends with the first run of operator t. In a *staged* plan every operator below t runs at
most once more in it, in the order of the problem: the plans of Checkmate (Jain et al., MLSys 2020)
and MOCCASIN (Bartan et al., ICML 2023). The law allows more, so models of staged plans restrict.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import gcd

from milp_plan.models.builders import coarser

from .problem import (
    RematerialisationPlan,
    RematerialisationProblem,
)

WHOLE_UNITS, SPLIT_UNITS = 1_000_000, 10_000
"""Largest number of units of a budget: where bytes are whole units, and where they are split."""

MARGIN = 0.1
"""Number of split units by which a budget is lowered."""

MAX_UNITS = 10_000_000
"""Largest number of units of time of all operators together."""


@dataclass(frozen=True)
class Amounts:
    """Ticks (or energy) and bytes of a problem in units that suit a solver.

    Parameters
    ----------
    problem
        A problem with or without a budget.
    """

    problem: RematerialisationProblem

    @property
    def budget(self) -> int:
        """Bytes that may be held; without a limit the most that a plan needs."""
        peak, limit = self.problem.peak, self.problem.budget
        return peak if limit is None else min(limit, peak)

    @cached_property
    def grain(self) -> int:
        """Common divisor of all values, in ticks or energy."""
        amounts = [number for pair in self.problem.prices for number in pair]
        return gcd(*amounts) or 1

    @cached_property
    def tick(self) -> float:
        """Ticks, or energy, per unit of the objective."""
        total = sum(number for pair in self.problem.prices for number in pair)
        return coarser(self.grain, total, MAX_UNITS)

    @cached_property
    def byte(self) -> float:
        """Bytes per unit of memory: their common divisor, unless that makes too many units."""
        common = gcd(*(entry.size for entry in self.problem.computations)) or 1
        if self.budget <= WHOLE_UNITS * common:
            return float(common)
        return max(1.0, self.budget / SPLIT_UNITS)

    @cached_property
    def sizes(self) -> tuple[float, ...]:
        """Memory of each output, in units."""
        return tuple(entry.size / self.byte for entry in self.problem.computations)

    @cached_property
    def room(self) -> float:
        """Memory limit, in units.

        Where units are split, a solver would not notice an excess of a few bytes: then it is
        lower by :data:`MARGIN` units, unless one run alone, or running everything once, needs them.
        """
        if self.byte.is_integer() and all(size.is_integer() for size in self.sizes):
            return float(self.budget // int(self.byte))
        needed = max(self.problem.floors)
        if self.budget == self.problem.peak:
            needed = self.budget
        elif needed > self.budget:
            needed = 0
        return max(self.budget / self.byte - MARGIN, needed / self.byte)

    @cached_property
    def last(self) -> tuple[int, ...]:
        """The last operator that needs each one, directly or not: later, it is idle."""
        last = list(range(len(self.problem.computations)))
        for reader in reversed(range(len(last))):
            for source in self.problem.inputs[reader]:
                last[source] = max(last[source], last[reader])
        return tuple(last)

    def cost(self, operator: int) -> float:
        """Return the cost of a run, in units of the objective."""
        return self.problem.prices[operator][0] / self.tick

    def transfer(self, operator: int) -> float:
        """Return the cost of a transfer of its output, in units of the objective."""
        return self.problem.prices[operator][1] / self.tick


@dataclass(frozen=True)
class Reread:
    """The copy of a run: ``(stage, operator)`` of its maker and of its last reader."""

    operator: int
    stage: int
    last: tuple[int, int]


@dataclass(frozen=True)
class Staged:
    """A staged plan.

    Parameters
    ----------
    problem
        The problem.
    runs
        Pairs (stage, operator) of all runs, in order.
    reloads
        The runs that read from the host.
    """

    problem: RematerialisationProblem
    runs: tuple[tuple[int, int], ...]
    reloads: frozenset[tuple[int, int]] = frozenset()

    @classmethod
    def of(
        cls,
        problem: RematerialisationProblem,
        again: Iterable[tuple[int, int]],
        reloads: Iterable[tuple[int, int]] = (),
    ) -> Staged:
        """Return the plan in which these (stage, operator) run again, or are reloaded."""
        firsts = {(t, t) for t in range(len(problem.computations))}
        back = frozenset(reloads) - firsts
        return cls(problem, tuple(sorted({*again, *back, *firsts})), back)

    @classmethod
    def read(cls, problem: RematerialisationProblem, plan: RematerialisationPlan) -> Staged:
        """Return a valid plan with the runs of each stage in order, each once.

        It makes all that is read, adds no time, and may need more memory than the plan.
        """
        pairs: list[tuple[int, int]] = []
        back: list[tuple[int, int]] = []
        done = 0
        reloads = set(plan.reloads)
        for number, name in enumerate(plan.runs):
            operator = problem.numbers[name]
            (back if number in reloads else pairs).append((done, operator))
            done += operator == done
        return cls.of(problem, pairs, set(back) - set(pairs))

    @cached_property
    def copies(self) -> tuple[Reread, ...]:
        """Copies of all runs, in order."""
        newest: dict[int, int] = {}
        last = list(self.runs)
        for run, (_, operator) in enumerate(self.runs):
            reloaded = self.runs[run] in self.reloads
            for source in () if reloaded else self.problem.inputs[operator]:
                last[newest[source]] = self.runs[run]
            newest[operator] = run
        return tuple(
            Reread(operator, stage, end)
            for (stage, operator), end in zip(self.runs, last, strict=True)
        )

    @property
    def kept(self) -> set[tuple[int, int]]:
        """Pairs (stage, operator): a copy of an earlier stage is there when the stage begins."""
        return {
            (stage, copy.operator)
            for copy in self.copies
            for stage in range(copy.stage + 1, copy.last[0] + 1)
        }

    @property
    def peak(self) -> int:
        """Most bytes held during a run."""
        places = {run: number for number, run in enumerate(self.runs)}
        changes = [0] * (len(self.runs) + 1)
        for copy in self.copies:
            size = self.problem.computations[copy.operator].size
            changes[places[copy.stage, copy.operator]] += size
            changes[places[copy.last] + 1] -= size
        return max(accumulate(changes[:-1]))

    def plan(self, planner: str) -> RematerialisationPlan:
        """Return it as a plan."""
        names = [entry.name for entry in self.problem.computations]
        runs = tuple(names[operator] for _, operator in self.runs)
        return RematerialisationPlan(
            self.problem.name,
            runs,
            self.problem.fingerprint,
            planner=planner,
            reloads=tuple(n for n, run in enumerate(self.runs) if run in self.reloads),
        )
