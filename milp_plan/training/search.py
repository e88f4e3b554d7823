"""The best configurations of a space, with a bound that holds for all of it.

Three looks at a configuration, each dearer and closer than the one before: operations over rates;
times and memory of its chunks, with what fills and drains the pipeline; and the replay, which is
the law. A configuration is looked at again only while its lower bound is below the best replay.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from milp_plan.core.budget import Budget

from .configuration import Configuration, Schedule
from .problem import TrainingProblem
from .replay import NoScheduleError, schedule_bound
from .space import Space
from .step import Priced, derive

PATIENCE = 200
"""Chunks timed without a plan, after which the most promising configuration is replayed."""

KEPT = 5
"""Plans that are kept, the best first."""

MISSES = 3
"""Configurations that are listed because their memory does not suffice."""


class Costs(Protocol):
    """What a search asks of costs; times in nanoseconds, sizes in bytes."""

    def least_ns(self, configuration: Configuration) -> int:
        """Return a lower bound on a step that costs next to nothing to compute."""

    def evenly_ns(self, configuration: Configuration) -> int:
        """Return a lower bound from all passes of the model, evenly divided over the pipeline."""

    def priced(self, configuration: Configuration) -> Priced:
        """Return what a configuration costs."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration with its exact value and memory.

    Parameters
    ----------
    configuration
        What it is.
    step_ns
        Time of a step.
    peaks
        Most memory at any instant on the devices of each pipeline stage.
    """

    configuration: Configuration
    step_ns: int
    peaks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Miss:
    """A configuration that would be faster if it had more memory.

    Parameters
    ----------
    configuration
        What it is.
    least_ns
        Lower bound on its step.
    excess_bytes
        Memory that the worst stage lacks on each device, at least.
    stage
        That stage.
    """

    configuration: Configuration
    least_ns: int
    excess_bytes: int
    stage: int


@dataclass
class Found:
    """Result of a search.

    Parameters
    ----------
    best
        Up to :data:`KEPT` candidates, the best first.
    bound_ns
        No configuration of the space is faster; ``None`` where none fits.
    considered, timed, replayed
        Configurations in the space, those of which chunks were timed, those replayed.
    misses
        Configurations that would be faster but do not fit, the least excess first.
    finished
        Whether the whole space was searched.
    """

    best: list[Candidate] = field(default_factory=list)
    bound_ns: int | None = None
    considered: int = 0
    timed: int = 0
    replayed: int = 0
    misses: list[Miss] = field(default_factory=list)
    finished: bool = True

    @property
    def gap(self) -> float | None:
        """How far the best is above the bound, as a part of its value."""
        if not self.best or self.bound_ns is None:
            return None
        value = self.best[0].step_ns
        return (value - self.bound_ns) / value


def search(
    problem: TrainingProblem, costs: Costs, fixed: Mapping[str, Any], budget: Budget
) -> Found:
    """Return the best configurations of the space that the fixed fields leave."""
    return _Search(problem, costs, budget).run(Space(problem, fixed))


_SEEN, _WIDE = 0, 1


class _Search:
    def __init__(self, problem: TrainingProblem, costs: Costs, budget: Budget) -> None:
        self.problem, self.costs, self.budget = problem, costs, budget
        self.found = Found()
        self.unseen: list[tuple[int, int, int, Configuration]] = []
        self.ready: list[tuple[int, int, Configuration, Priced]] = []
        self.misses: list[Miss] = []

    @property
    def value(self) -> float:
        """Value that a configuration must beat to be kept."""
        best = self.found.best
        return best[-1].step_ns if len(best) == KEPT else float("inf")

    def run(self, space: Iterable[Configuration]) -> Found:
        found, costs = self.found, self.costs
        self.unseen = [(costs.least_ns(c), _SEEN, i, c) for i, c in enumerate(space)]
        found.considered = len(self.unseen)
        heapq.heapify(self.unseen)
        while self.unseen or self.ready:
            if self.budget.over:
                found.finished = False
                break
            if self.least() >= self.value:
                break
            impatient = not found.best and found.timed % PATIENCE == PATIENCE - 1
            if self.ready and (impatient or self.ready[0][0] <= self.least()):
                self.replay(*heapq.heappop(self.ready)[2:])
                found.timed += impatient
            else:
                self.look(*heapq.heappop(self.unseen))
        self.conclude(None if not (self.unseen or self.ready) else int(self.least()))
        return found

    def least(self) -> float:
        """Lower bound of everything that was not replayed."""
        return min(entries[0][0] for entries in (self.unseen, self.ready) if entries)

    def look(self, least: int, level: int, number: int, configuration: Configuration) -> None:
        """Look closer: a better bound first, then chunks; what cannot fit is a miss."""
        costs = self.costs
        if level == _SEEN:
            evenly = max(least, costs.evenly_ns(configuration))
            if evenly < self.value:
                heapq.heappush(self.unseen, (evenly, _WIDE, number, configuration))
            return
        self.found.timed += 1
        priced = costs.priced(configuration)
        least = max(least, schedule_bound(configuration, priced.chunks) + priced.after_ns)
        if least >= self.value:
            return
        peaks = least_peaks(configuration, priced)
        if self.fits(configuration, least, peaks):
            heapq.heappush(self.ready, (least, number, configuration, priced))

    def fits(self, configuration: Configuration, least: int, peaks: tuple[int, ...]) -> bool:
        """Whether memory suffices; remember what lacks little."""
        excess, stage = excess_of(self.problem, configuration, peaks)
        if excess > 0:
            self.misses.append(Miss(configuration, least, excess, stage))
        return excess <= 0

    def replay(self, configuration: Configuration, priced: Priced) -> None:
        """Derive value and peaks as the law says, and keep the configuration if it is good."""
        self.found.replayed += 1
        try:
            step = derive(configuration, priced)
        except NoScheduleError:
            return
        if self.fits(configuration, step.step_ns, step.peaks):
            best = self.found.best
            best.append(Candidate(configuration, step.step_ns, step.peaks))
            best.sort(key=lambda candidate: (candidate.step_ns, simplicity(candidate)))
            del best[KEPT:]

    def conclude(self, left: int | None) -> None:
        """Set the bound, and choose the misses to list: faster than the best, nearest to fit."""
        found = self.found
        if found.best:
            value = found.best[0].step_ns
            found.bound_ns = value if left is None else min(value, left)
            faster = [miss for miss in self.misses if miss.least_ns < value]
        else:
            faster = self.misses
        faster.sort(key=lambda miss: (miss.excess_bytes, miss.least_ns))
        found.misses = faster[:MISSES]


def excess_of(
    problem: TrainingProblem, configuration: Configuration, peaks: tuple[int, ...]
) -> tuple[int, int]:
    """Return how much memory the worst stage lacks on a device, and that stage; at most 0: fits."""
    over = [
        (peak - problem.limit_bytes(configuration, stage), -stage)
        for stage, peak in enumerate(peaks)
    ]
    excess, stage = max(over)
    return excess, -stage


def simplicity(candidate: Candidate) -> tuple[int, ...]:
    """Return what decides between configurations of equal time: the least of everything."""
    c = candidate.configuration
    return (c.context, c.pipeline, c.tensor, c.zero, c.expert * c.expert_tensor, c.micro_batch)


def least_peaks(configuration: Configuration, priced: Priced) -> tuple[int, ...]:
    """Return memory of each stage that the schedule takes at least; most schedules take just that.

    Forward passes ahead of the first backward pass have no choice; their number follows from the
    schedule's definition.
    """
    counts = micro_batches_ahead(configuration)
    return tuple(
        fixed
        + sum(
            count * priced.chunks[k].activation_bytes
            for k, count in zip(configuration.chunks_of(stage), counts[stage], strict=True)
        )
        for stage, fixed in enumerate(priced.resident_bytes)
    )


def micro_batches_ahead(configuration: Configuration) -> tuple[tuple[int, ...], ...]:
    """Return how many micro-batches of each chunk of a stage wait for their backward pass at once.

    1F1B and ZB-H1 as published; interleaved 1F1B at the end of its warm-up; V-shaped schedules hold
    as many as 1F1B on its first device, but for those that take less by design, where one is
    counted.
    """
    p, m, v = configuration.pipeline, configuration.micro_batches, configuration.virtual
    schedule = configuration.schedule
    if p == 1:
        return ((1,) * v,)
    if schedule is Schedule.GPIPE:
        return ((m,) * v,) * p
    if schedule is Schedule.ONE_F_ONE_B:
        return tuple((min(m, p - stage),) for stage in range(p))
    if schedule is Schedule.INTERLEAVED:
        return tuple(_turns(p, v, m, stage) for stage in range(p))
    if schedule in (Schedule.ZB_H1, Schedule.ZB_V):
        return ((min(m, p),) * v,) * p
    return ((1,) * v,) * p


def _turns(p: int, v: int, m: int, stage: int) -> tuple[int, ...]:
    """Micro-batches of each chunk after the warm-up and one more forward pass."""
    passes = min(2 * (p - 1 - stage) + (v - 1) * p + 1, m * v)
    rounds, rest = divmod(passes, p * v)
    return tuple(rounds * p + max(0, min(p, rest - k * p)) for k in range(v))
