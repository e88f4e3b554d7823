"""The best configurations of a space, with a bound that holds for all of it.

Three looks at a configuration, each dearer and closer than the one before: operations over rates;
times and memory of its chunks, with what fills and drains the pipeline; and the replay, which is
the law. A configuration is looked at again only while its lower bound is below the best replay.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from milp_plan.core.budget import Budget

from .configuration import Configuration
from .problem import TrainingProblem
from .replay import NoScheduleError
from .space import Refused, Space, no_reason
from .step import Priced, derive, excess_of, least_peaks, least_step

PATIENCE = 200
"""Chunks timed without a plan, after which the most promising configuration is replayed."""

KEPT = 3
"""Plans that are kept, the best first, each with other degrees."""

MISSES = 3
"""Configurations that are listed because their memory does not suffice."""


LOOKS = 1000
"""Configurations that are remembered for a picture of alternatives."""


class Costs(Protocol):
    """What a search asks of costs; times in nanoseconds, sizes in bytes."""

    def least_ns(self, configuration: Configuration) -> int:
        """Return a lower bound on a step that costs next to nothing to compute."""

    def evenly_ns(self, configuration: Configuration) -> int:
        """Return a lower bound from all passes of the model, evenly divided over the pipeline."""

    def variants(self, configuration: Configuration, cutoff: float) -> Iterable[Configuration]:
        """Return those that differ inside of stages alone, and may take less than a cutoff."""

    def first_peak(self, configuration: Configuration) -> int:
        """Return memory that the devices of the first pipeline stage take at least."""

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

    @property
    def degrees(self) -> tuple[int, ...]:
        """What makes a plan another one for people."""
        c = self.configuration
        return (c.tensor, c.context, c.expert, c.pipeline, c.micro_batch)


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


@dataclass(frozen=True, slots=True)
class Look:
    """A configuration of which chunks were timed.

    Parameters
    ----------
    least_ns
        Lower bound on its step.
    permille
        Memory of the fullest device, of what it may use; at least.
    """

    least_ns: int
    permille: int


@dataclass
class SearchResult:
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
    refused
        Configurations in the space that the framework to plan for cannot run.
    unrestricted
        The best of these, if it is faster than the best.
    reasons
        Why the framework cannot run that one.
    looked
        Of the configurations whose chunks were timed, the first :data:`LOOKS`.
    finished
        Whether the whole space was searched.
    interrupted
        Whether an interruption ended the search.
    """

    best: list[Candidate] = field(default_factory=list)
    bound_ns: int | None = None
    considered: int = 0
    timed: int = 0
    replayed: int = 0
    misses: list[Miss] = field(default_factory=list)
    refused: int = 0
    unrestricted: Candidate | None = None
    reasons: tuple[str, ...] = ()
    looked: list[Look] = field(default_factory=list)
    finished: bool = False
    interrupted: bool = False

    @property
    def gap(self) -> float | None:
        """How far the best is above the bound, as a part of its value."""
        if not self.best or self.bound_ns is None:
            return None
        value = self.best[0].step_ns
        return (value - self.bound_ns) / value


OnBetter = Callable[[Candidate, int], object]
"""Called with a configuration that is better than all before it, and the bound so far."""


def search(
    problem: TrainingProblem,
    costs: Costs,
    fixed: Mapping[str, Any],
    budget: Budget,
    refused: Refused = no_reason,
) -> SearchResult:
    """Return the best configurations of the space that fixed fields and a framework leave."""
    return Search(problem, costs, Space(problem, fixed, refused), budget).run()


_SEEN, _WIDE, _ALONE = 0, 1, 2


class Search:
    """A search, whose result so far is known at any time.

    Parameters
    ----------
    problem, costs
        What is planned, and by which costs.
    space
        The configurations that are considered.
    budget
        When to stop.
    hear
        Called with everything that is better than all before it.
    """

    def __init__(
        self,
        problem: TrainingProblem,
        costs: Costs,
        space: Space,
        budget: Budget,
        hear: OnBetter = lambda _candidate, _bound: None,
    ) -> None:
        self.problem, self.costs, self.space, self.budget = problem, costs, space, budget
        self.hear = hear
        self.found = SearchResult()
        self.unseen: list[tuple[int, int, int, Configuration]] = []
        self.ready: list[tuple[int, int, Configuration, Priced]] = []
        self.aside: list[tuple[int, int, int, Configuration]] = []
        self.misses: list[Miss] = []
        self.cap = float("inf")
        self.waiting = 0
        self.bound: int | None = 0

    @property
    def value(self) -> float:
        """Value that a configuration must beat to be kept."""
        best = self.found.best
        return min(self.cap, best[-1].step_ns) if len(best) == KEPT else self.cap

    def run(self) -> SearchResult:
        """Search until the end, the end of the budget or an interruption, which keeps the best."""
        found = self.found
        try:
            found.finished = self.enumerate() and self.descend()
            if found.finished:
                self.bound = int(self.least()) if self.unseen or self.ready else None
            if found.best and found.refused:
                self.look_aside()
        except KeyboardInterrupt:  # what was at hand is lost: the last bound still holds for it
            found.interrupted = True
        finally:
            self.conclude(self.bound)
        return found

    def look_aside(self) -> None:
        """Search what the framework cannot run for something faster than the best."""
        space = Space(self.problem, self.space.fixed)
        other = Search(self.problem, self.costs, space, self.budget)
        other.cap = self.found.best[0].step_ns
        other.unseen = self.aside + [e for e in self.unseen if self.space.refused(e[-1])]
        heapq.heapify(other.unseen)
        other.descend()
        for candidate in other.found.best:
            reasons = tuple(self.space.refused(candidate.configuration))
            if reasons and candidate.step_ns < other.cap:
                self.found.unrestricted, self.found.reasons = candidate, reasons
                return

    def enumerate(self) -> bool:
        """List the space with its cheapest bounds; return whether time sufficed."""
        for number, configuration in enumerate(self.space):
            least = self.costs.least_ns(configuration)
            self.unseen.append((least, _SEEN, number, configuration))
            self.found.considered += 1
            self.found.refused += bool(self.space.refused(configuration))
            if self.budget.over:
                return False
        heapq.heapify(self.unseen)
        return True

    def descend(self) -> bool:
        """Look and replay, the lowest bound first; return whether time sufficed."""
        found = self.found
        while self.unseen or self.ready:
            self.bound = int(self.least())
            if self.budget.over:
                return False
            if self.least() >= self.value:
                break
            impatient = not found.best and found.timed % PATIENCE == PATIENCE - 1
            if self.ready and (impatient or self.ready[0][0] <= self.least()):
                self.replay(*heapq.heappop(self.ready)[2:])
                found.timed += impatient
            else:
                self.look(*heapq.heappop(self.unseen))
        return True

    def least(self) -> float:
        """Lower bound of everything that was not replayed."""
        return min(entries[0][0] for entries in (self.unseen, self.ready) if entries)

    def look(self, least: int, level: int, number: int, configuration: Configuration) -> None:
        """Look closer: a better bound first, then the chunks of every variant."""
        costs = self.costs
        if level == _SEEN:
            evenly = max(least, costs.evenly_ns(configuration))
            heapq.heappush(self.unseen, (evenly, _WIDE, number, configuration))
            return
        variants = () if level == _ALONE else costs.variants(configuration, self.value)
        fixed = self.space.fixed.items()
        free = (v for v in variants if all(getattr(v, name) == value for name, value in fixed))
        for each in (configuration, *free):
            if self.space.refused(each):
                self.aside.append((least, _ALONE, len(self.aside), each))
            else:
                self.price(least, each)

    def price(self, least: int, configuration: Configuration) -> None:
        """Time the chunks; what cannot fit is a miss, the rest waits for its replay."""
        first = self.costs.first_peak(configuration)
        if not self.fits(configuration, least, (first,)):
            self.remember(configuration, least, (first,))
            return
        self.found.timed += 1
        priced = self.costs.priced(configuration)
        least = max(least, least_step(configuration, priced))
        peaks = least_peaks(configuration, priced)
        self.remember(configuration, least, peaks)
        if least >= self.value:
            return
        if self.fits(configuration, least, peaks):
            self.waiting += 1
            heapq.heappush(self.ready, (least, self.waiting, configuration, priced))

    def remember(self, configuration: Configuration, least: int, peaks: tuple[int, ...]) -> None:
        """Keep bounds for a picture."""
        if len(self.found.looked) < LOOKS:
            limits = (self.problem.limit_bytes(configuration, s) for s in range(len(peaks)))
            most = max(1000 * peak // limit for peak, limit in zip(peaks, limits, strict=False))
            self.found.looked.append(Look(least, most))

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
            best, made = self.found.best, Candidate(configuration, step.step_ns, step.peaks)
            best.append(made)
            best.sort(key=lambda candidate: (candidate.step_ns, simplicity(candidate)))
            distinct: dict[tuple[int, ...], Candidate] = {}
            for candidate in best:
                distinct.setdefault(candidate.degrees, candidate)
            best[:] = list(distinct.values())[:KEPT]
            if best[0] is made:
                self.hear(made, min(made.step_ns, self.bound or 0))

    def conclude(self, left: int | None) -> None:
        """Set the bound, and choose the misses to list: faster than the best, nearest to fit."""
        found = self.found
        if found.best:
            value = found.best[0].step_ns
            found.bound_ns = value if left is None else min(value, left)
            faster = [miss for miss in self.misses if miss.least_ns < value]
        else:
            faster = self.misses
        nearest: dict[object, Miss] = {}
        for miss in sorted(faster, key=lambda miss: (miss.excess_bytes, miss.least_ns)):
            c = miss.configuration
            nearest.setdefault((c.tensor, c.pipeline, c.recompute, c.zero), miss)
        found.misses = list(nearest.values())[:MISSES]


def simplicity(candidate: Candidate) -> tuple[int, ...]:
    """Return what decides between configurations of equal time: the least of everything."""
    c = candidate.configuration
    return (c.context, c.pipeline, c.tensor, c.zero, c.expert * c.expert_tensor, c.micro_batch)
