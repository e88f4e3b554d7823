"""All reductions, repeated until none changes anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from milp_plan.core import Units
from milp_plan.core.amounts import size_text
from milp_plan.core.budget import now
from milp_plan.core.sharding import ShardingProblem

from ..labelling import BAN, Integers, Labelling
from .contraction import merged
from .dominance import undominated
from .elimination import eliminated
from .instants import with_fewer_rows
from .masks import possible_labels
from .reading import labelling_of, without_constant
from .rebuild import without_labels
from .separable import without_separable
from .steps import Undo


@dataclass(frozen=True, eq=False)
class ShardingReduction:
    """A smaller labelling with the same optimum, and the steps back.

    Parameters
    ----------
    labelling
        The reduced labelling.
    steps
        Steps that undo the reduction, first step first.
    infeasible_because
        Proof in words that no plan exists; then the labelling is meaningless.
    history
        Name of each step, and operators, labels, edges, entries and rows after it.
    """

    labelling: Labelling
    steps: tuple[Undo, ...]
    infeasible_reason: str | None = None
    history: tuple[tuple[str, int, int, int, int, int], ...] = field(default=(), repr=False)

    def lift(self, labels: Integers) -> Integers:
        """Return strategies of the problem for labels of the smaller one."""
        for step in reversed(self.steps):
            labels = step.lift(labels)
        return labels


class _Impossible(Exception):
    pass


@dataclass
class _Work:
    labelling: Labelling
    until: float
    steps: list[Undo] = field(default_factory=list)
    history: list[tuple[str, int, int, int, int, int]] = field(default_factory=list)

    def note(self, name: str) -> None:
        b = self.labelling
        sizes = (len(b), len(b.cost), len(b.ends), len(b.table), len(b.capacity))
        self.history.append((name, *sizes))

    def masks(self) -> bool:
        alive = possible_labels(self.labelling)
        counts = np.add.reduceat(alive, self.labelling.offsets[:-1]) if len(alive) else alive
        if (counts == 0).any():
            raise _Impossible("an operator has no strategy that fits masks and limit")
        return self._keep(alive, "masks")

    def dominance(self) -> bool:
        return self._keep(undominated(self.labelling), "dominance")

    def _keep(self, alive: np.ndarray[tuple[int], np.dtype[np.bool_]], name: str) -> bool:
        if alive.all():
            return False
        self.labelling, step = without_labels(self.labelling, alive)
        self.steps.append(step)
        self.note(name)
        return True

    def separable(self) -> bool:
        before = self.labelling
        self.labelling = without_separable(before)
        if self.labelling is before:
            return False
        self.note("separable")
        return True

    def merge(self) -> bool:
        return self._take(merged(self.labelling), "merge")

    def eliminate(self) -> bool:
        return self._take(eliminated(self.labelling), "eliminate")

    def _take(self, result: tuple[Labelling, Undo] | None, name: str) -> bool:
        if result is None:
            return False
        self.labelling = result[0]
        self.steps.append(result[1])
        self.note(name)
        if (self.labelling.cost >= BAN).any():  # other steps must not see them: they are no costs
            self.masks()
        return True

    def rows(self) -> bool:
        before = self.labelling
        self.labelling = with_fewer_rows(before)
        if (self.labelling.capacity < 0).any():
            raise _Impossible("the smallest usages together exceed the limit at some instant")
        if len(before.parts) == len(self.labelling.parts):
            return False
        self.note("rows")
        return True


def infeasible_rows(problem: ShardingProblem) -> str | None:
    """Return the proof that smallest usages alone exceed the limit at some instant, if they do."""
    s = problem.strategies
    usage = np.where(s.allowed, s.usage, np.iinfo(np.int64).max)
    least = np.minimum.reduceat(usage, s.offsets[:-1])
    if (least == np.iinfo(np.int64).max).any():
        name = problem.operators[int(np.argmax(least))]
        return f"no strategy of operator {name!r} is allowed"
    if problem.limit is None:
        return None
    lasting = problem.intervals[:, 0] < problem.intervals[:, 1]
    times, places = np.unique(problem.intervals[lasting], return_inverse=True)
    change = np.zeros(len(times) + 1, dtype=object)
    places = places.reshape(-1, 2)
    for (start, stop), used in zip(places.tolist(), least[lasting].tolist(), strict=True):
        change[start] += used
        change[stop] -= used
    current, peak, instant = 0, -1, 0
    for time_, added in zip(times.tolist(), change.tolist(), strict=False):
        current += added
        if current > peak:
            peak, instant = current, time_
    if peak > problem.limit:
        used, limit = (size_text(Units(), amount) for amount in (peak, problem.limit))
        return f"at instant {instant} the smallest usages together are {used}, the limit is {limit}"
    return None


def reduce_sharding(problem: ShardingProblem, time_limit_s: float = 60.0) -> ShardingReduction:
    """Reduce a problem, exactly, until nothing changes or the time is up.

    Raises
    ------
    UnsupportedProblemError
        Sums of its numbers may exceed 64 bits.
    """
    proof = infeasible_rows(problem)
    labelling = labelling_of(problem)
    if proof is not None:
        return ShardingReduction(labelling, (), proof)
    return reduced(labelling, time_limit_s)


def reduced(labelling: Labelling, time_limit_s: float = 60.0) -> ShardingReduction:
    """Reduce a labelling."""
    work = _Work(labelling, now() + time_limit_s)
    work.note("read")
    try:
        _fixed_point(work)
    except _Impossible as proof:
        return ShardingReduction(work.labelling, tuple(work.steps), str(proof), tuple(work.history))
    left = without_constant(work.labelling)
    return ShardingReduction(left, tuple(work.steps), None, tuple(work.history))


def _fixed_point(work: _Work) -> None:
    work.rows()
    dear: Callable[[], bool] = work.dominance
    cheap = (work.masks, work.separable, work.rows, work.merge, work.eliminate)
    while True:
        while sum(step() for step in cheap):
            if now() > work.until:
                return
        if now() > work.until or not dear():
            return
