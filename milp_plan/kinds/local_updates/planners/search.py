"""Search for the best cuts by labels, chunk after chunk from the first stage; exact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget

from ..problem import LocalUpdatesPlan, LocalUpdatesProblem

SEARCH = "labels of chunks"

LABELS = 200_000
"""Largest number of chunks that are tried after labels."""


@dataclass(frozen=True, slots=True)
class _Label:
    """Chunks up to a boundary.

    ``spent`` is the price of their cuts, ``end`` the last stop of any backward in them, and
    ``arrivals`` say when each micro-batch's forward reaches the next stage.
    """

    spent: int
    end: int
    arrivals: tuple[int, ...]
    cuts: tuple[int, ...]

    def beats(self, other: _Label) -> bool:
        """Return whether any continuation of the other label is as good after this one."""
        return (
            self.spent <= other.spent
            and self.end <= other.end
            and all(a <= b for a, b in zip(self.arrivals, other.arrivals, strict=True))
        )


class CutSearch:
    """Non-dominated labels at each boundary.

    Proof that nothing better is left out. Behind a cut, later stages know of earlier ones only when
    forwards arrive, and every time in a chunk is a maximum of sums of arrivals and of lengths; so
    with arrivals that are no later, and no more spent, any continuation ends no later
    (:meth:`_Label.beats`). Only dominated labels are left out, and those that end no sooner than
    the best plan: micro-batches m and later have all their work at each later stage before them
    once m has arrived there.
    """

    def __init__(self, problem: LocalUpdatesProblem, known: int | None, lower: int = 0) -> None:
        self.problem, self.best, self.lower = problem, known, lower
        self.tried = 0
        steps = [stage.forward + problem.transfer for stage in problem.stages]
        self.way = [0, *accumulate(steps)]

    def run(self, budget: Budget) -> Iterator[LocalUpdatesPlan | Bound]:
        """Yield better and better plans, and a bound when nothing is left."""
        problem, last = self.problem, len(self.problem.stages) - 1
        most = LABELS if budget.nodes is None else min(LABELS, budget.nodes)
        none = (0,) * problem.micro_batches
        open_at: list[list[_Label]] = [[_Label(0, 0, none, ())], *[[] for _ in range(last)]]
        for first in range(last + 1):
            for label in open_at[first]:
                for end in reversed(self.ends(first, label)):
                    if self.tried >= most or budget.over:
                        return
                    self.tried += 1
                    after = self.extended(label, first, end)
                    if self.best is not None and self.least(after, end + 1) >= self.best:
                        continue
                    if end < last:
                        _keep(open_at[end + 1], after)
                        continue
                    self.best = after.end
                    names = tuple(problem.stages[cut].name for cut in after.cuts)
                    mark = problem.fingerprint
                    yield LocalUpdatesPlan(problem.name, names, mark, after.end, SEARCH)
                    if after.end <= self.lower:
                        return
        if self.best is not None:
            detail = f"no cuts make the step shorter, {self.tried} chunks tried"
            yield Bound(SEARCH, self.best, detail)

    def ends(self, first: int, label: _Label) -> list[int]:
        """Return the last stages of chunks that may begin at ``first``."""
        problem, last = self.problem, len(self.problem.stages) - 1
        ends = []
        for end in range(first, last + 1):
            if not all(problem.fits(place, end) for place in range(first, end + 1)):
                break  # longer chunks hold more
            price = problem.stages[end].price if end < last else 0
            if problem.budget is None or label.spent + price <= problem.budget:
                ends.append(end)
        return ends

    def least(self, label: _Label, first: int) -> int:
        """Return the earliest stop of a step that continues from a label."""
        problem = self.problem
        stop = label.end
        for place in range(first, len(problem.stages)):
            each = problem.stages[place].forward + problem.stages[place].backward
            way = self.way[place] - self.way[first]
            left = problem.micro_batches
            for arrival in label.arrivals:
                stop = max(stop, arrival + way + left * each)
                left -= 1
        return stop

    def extended(self, label: _Label, first: int, end: int) -> _Label:
        """Return the label after one more chunk, of stages ``first`` to ``end``."""
        problem, last = self.problem, len(self.problem.stages) - 1
        stages, lag, count = problem.stages[first : end + 1], problem.transfer, end - first + 1
        free = [0] * count
        back = [0] * problem.micro_batches
        arrivals = list(label.arrivals)
        for forward, place, batch in _order(count, problem.micro_batches):
            stage = stages[place]
            if forward:
                begin = max(free[place], arrivals[batch])
                free[place] = begin + stage.forward
                arrivals[batch] = free[place] + lag
                if place == count - 1 and end < last:
                    free[place] += stage.head
            else:
                free[place] = max(free[place], back[batch]) + stage.backward
                back[batch] = free[place] + lag
        price = problem.stages[end].price if end < last else 0
        cuts = (*label.cuts, end) if end < last else label.cuts
        return _Label(label.spent + price, max(label.end, *free), tuple(arrivals), cuts)


@cache
def _order(count: int, batches: int) -> tuple[tuple[bool, int, int], ...]:
    """Return the tasks of a chunk, (forward?, stage, micro-batch), each after its inputs.

    With d stages behind it, a stage runs d forwards ahead: its n-th forward has the rank ``place +
    2n``, its n-th backward ``place + 2(n + d) + 1``. So ranks of a device are in its order, those
    of forwards grow along the stages, and those of backwards shrink.
    """
    tasks = []
    for place in range(count):
        for batch in range(batches):
            tasks.append((place + 2 * batch, place, batch, True))
            behind = count - 1 - place
            tasks.append((place + 2 * (batch + behind) + 1, place, batch, False))
    return tuple((forward, place, batch) for _, place, batch, forward in sorted(tasks))


def _keep(labels: list[_Label], new: _Label) -> None:
    """Add a label unless one beats it; drop those that it beats."""
    if not any(label.beats(new) for label in labels):
        labels[:] = [label for label in labels if not new.beats(label)]
        labels.append(new)


def best_cuts(problem: LocalUpdatesProblem) -> LocalUpdatesPlan | None:
    """Return the best plan, searched to the end; ``None`` where there is none."""
    plans = [plan for plan in CutSearch(problem, None).run(Budget()) if not isinstance(plan, Bound)]
    return plans[-1] if plans else None
