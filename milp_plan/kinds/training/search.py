"""The best configurations of a space, with a bound that holds for all of it.

A configuration is bounded in three stages, each more expensive and tighter than the one before:
operations over rates; times and memory of its chunks, with fill and drain of the pipeline; and the
replay, which gives its value. It enters a stage only while its bound is below the best value.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from milp_plan.core.budget import Budget

from .configuration import Configuration, Offload, Recompute
from .misses import nearest_misses
from .problem import TrainingProblem
from .replay import NoScheduleError
from .result import KEPT, Alternative, Candidate, SearchResult
from .saving_options import SavingOptions, saves_everywhere
from .space import Refused, Space, no_reason
from .step import Costs, Priced, TrainingStep, derive, excess_of, host_excess, least_peaks

PATIENCE = 200
"""Chunks timed without a plan, after which the most promising configuration is replayed."""

MOST_ALTERNATIVES = 1000
"""Configurations that are stored for a picture of alternatives."""

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


_SEEN, _WIDE, _ALONE, _LIGHTER = 0, 1, 2, 3
"""What is known of a configuration: its cheapest bound; a closer one, and other blocks on stages
are to be tried; the same without them; less memory is to be tried as well."""


class Search:
    """A best-first search, whose result so far is available at any time.

    Parameters
    ----------
    problem, costs
        What is planned, and by which costs.
    space
        The configurations that are considered.
    budget
        When to stop.
    on_better
        Called with every new best configuration and the bound so far.
    """

    def __init__(
        self,
        problem: TrainingProblem,
        costs: Costs,
        space: Space,
        budget: Budget,
        on_better: OnBetter = lambda _candidate, _bound: None,
    ) -> None:
        self.problem, self.costs, self.space, self.budget = problem, costs, space, budget
        self.on_better = on_better
        self.found = SearchResult()
        self.unseen: list[tuple[int, int, int, Configuration]] = []
        self.ready: list[tuple[int, int, Configuration, Priced]] = []
        self.unsupported: list[tuple[int, int, int, Configuration]] = []
        self.misses: list[tuple[int, Configuration]] = []
        self.options = SavingOptions(problem, costs, space)
        self.numbers = count()
        self.cap = float("inf")
        self.bound: int | None = 0

    @property
    def value(self) -> float:
        """Value that a configuration must beat to enter the result."""
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
                self.search_unsupported()
            if found.finished and not found.best:
                self.search_hosts()
        except KeyboardInterrupt:  # the current one is lost: the last bound still covers it
            found.interrupted = True
        finally:
            self.conclude(self.bound)
        return found

    def search_unsupported(self) -> None:
        """Search what the framework cannot run for a configuration faster than the best."""
        space = Space(self.problem, self.space.fixed)
        other = Search(self.problem, self.costs, space, self.budget)
        other.cap, other.numbers = self.found.best[0].step_ns, self.numbers
        other.unseen = self.unsupported + [e for e in self.unseen if self.space.refused(e[-1])]
        heapq.heapify(other.unseen)
        self.found.compared = False  # also where an interruption ends it
        self.found.compared = other.descend() and self.found.finished
        for candidate in other.found.best:
            reasons = tuple(self.space.refused(candidate.configuration))
            if reasons and candidate.step_ns < other.cap:
                self.found.unrestricted, self.found.reasons = candidate, reasons
                return

    def search_hosts(self) -> None:
        """Search a plan that uses the memory of hosts, where none fits without it."""
        if self.problem.host or not self.found.considered:
            return
        problem = replace(self.problem, host=True)
        space = Space(problem, self.space.fixed, self.space.refused)
        other = Search(problem, self.costs, space, self.budget)
        if other.enumerate():
            other.descend()
        self.found.with_host = next(iter(other.found.best), None)

    def enumerate(self) -> bool:
        """List the space with its cheapest bounds; return whether time sufficed."""
        for configuration in self.space:
            least = self.costs.least_ns(configuration)
            self.unseen.append((least, _SEEN, next(self.numbers), configuration))
            self.found.considered += 1
            self.found.refused += bool(self.space.refused(configuration))
            if self.budget.over:
                return False
        heapq.heapify(self.unseen)
        return True

    def descend(self) -> bool:
        """Bound and replay, the lowest bound first; return whether time sufficed."""
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
                self.refine(*heapq.heappop(self.unseen))
        return True

    def least(self) -> float:
        """Lower bound of everything that was not replayed."""
        return min(entries[0][0] for entries in (self.unseen, self.ready) if entries)

    def refine(self, least: int, level: int, number: int, configuration: Configuration) -> None:
        """Tighten the bound of a configuration, then price the chunks of every variant."""
        costs = self.costs
        if level == _SEEN:
            evenly = max(least, costs.evenly_ns(configuration))
            heapq.heappush(self.unseen, (evenly, _WIDE, number, configuration))
            return
        refused = bool(self.space.refused(configuration))
        if refused:
            self.unsupported.append((least, level, number, configuration))
            if level != _LIGHTER:
                return
            self.found.refused += 1  # it may run with some blocks, or in another way
        if level == _WIDE and costs.saving_ns(configuration) is None:
            self.fits(configuration, (costs.first_peak(configuration),))
            self.save_memory(configuration)
            return
        fits = [not refused and self.price(least, configuration)]
        for each in self.variants(level, configuration):
            if self.space.refused(each):
                self.unsupported.append((least, _ALONE, next(self.numbers), each))
            else:
                fits.append(self.price(least, each))
        if level == _WIDE and not all(fits):
            self.save_memory(configuration)

    def variants(self, level: int, configuration: Configuration) -> Iterator[Configuration]:
        """Yield the same with other blocks on stages, and with fewer of them recomputed."""
        costs, fixed = self.costs, self.space.fixed.items()
        found: list[Configuration] = []
        if level != _ALONE:
            found += costs.variants(configuration)
        if level == _LIGHTER:
            found += costs.lighter(configuration, self.value)
        yield from (c for c in found if all(getattr(c, name) == value for name, value in fixed))

    def save_memory(self, configuration: Configuration) -> None:
        """Let a configuration that does not fit recompute or offload, which only adds time."""
        level = _WIDE if "recompute" in self.space.fixed else _LIGHTER
        for bound, option in self.options.take(configuration):
            self.found.considered += 1
            heapq.heappush(self.unseen, (bound, level, next(self.numbers), option))

    def price(self, least: int, configuration: Configuration) -> bool:
        """Time the chunks of what may fit, which then waits for its replay; whether it may fit."""
        first = self.costs.first_peak(configuration)
        if not self.fits(configuration, (first,)):
            self.remember(configuration, least, (first,))
            return False
        self.found.timed += 1
        priced = self.costs.priced(configuration)
        least = max(least, self.options.least_step(configuration, priced))
        peaks = least_peaks(configuration, priced)
        self.remember(configuration, least, peaks)
        fits = self.fits(configuration, peaks)
        if least < self.value and fits:
            heapq.heappush(self.ready, (least, next(self.numbers), configuration, priced))
        return fits

    def remember(self, configuration: Configuration, least: int, peaks: tuple[int, ...]) -> None:
        """Keep bounds for a picture."""
        if len(self.found.alternatives) < MOST_ALTERNATIVES:
            limits = (self.problem.limit_bytes(configuration, s) for s in range(len(peaks)))
            most = max(1000 * peak // limit for peak, limit in zip(peaks, limits, strict=False))
            self.found.alternatives.append(Alternative(least, most))

    def fits(self, configuration: Configuration, peaks: tuple[int, ...]) -> bool:
        """Whether memory suffices; remember what lacks some."""
        lacking, _ = excess_of(self.problem, configuration, peaks)
        if lacking > 0:
            self.misses.append((lacking, configuration))
        return lacking <= 0

    def replay(self, configuration: Configuration, priced: Priced) -> None:
        """Derive value and peaks as the law says, and add a good configuration to the result."""
        self.found.replayed += 1
        try:
            step = derive(configuration, priced)
        except NoScheduleError:
            return
        steps = [(configuration, step)] if self.fits(configuration, step.peaks) else []
        if steps:
            steps += self.options.with_fewer(configuration, self.value)
        good = [
            (each, made)
            for each, made in steps
            if host_excess(self.problem, each, made.host_peaks) <= 0
        ]
        for each, made in good:
            self.offer(each, made)
        if not good:
            self.save_memory(configuration)

    def offer(self, configuration: Configuration, step: TrainingStep) -> None:
        """Add a configuration that fits to the result, if it is good."""
        best, made = self.found.best, candidate_of(configuration, step)
        best.append(made)
        best.sort(key=lambda candidate: (candidate.step_ns, simplicity(candidate)))
        distinct: dict[tuple[int, ...], Candidate] = {}
        for candidate in best:
            distinct.setdefault(candidate.degrees, candidate)
        best[:] = list(distinct.values())[:KEPT]
        if best[0] is made:
            self.on_better(made, min(made.step_ns, self.bound or 0))

    def conclude(self, left: int | None) -> None:
        """Set the bound, and replay what would be faster than the best with more memory."""
        found, value = self.found, float("inf")
        if found.best:
            value = found.best[0].step_ns
            found.bound_ns = value if left is None else min(value, left)
        if not found.best:
            for option in self.options.lacking:
                if not self.space.refused(option):
                    self.fits(option, (self.costs.first_peak(option),))
        if not found.interrupted:
            given = (self.problem, self.costs, self.misses, value, self.budget)
            found.misses = [*nearest_misses(*given)]


def candidate_of(configuration: Configuration, step: TrainingStep) -> Candidate:
    """Return a replayed configuration as a candidate."""
    return Candidate(configuration, step.step_ns, step.peaks, step.host_peaks)


def simplicity(candidate: Candidate) -> tuple[int, ...]:
    """Return what decides between configurations of equal time: the least of everything."""
    c = candidate.configuration
    host = (c.offload is not Offload.NONE) + (c.recompute is Recompute.OFFLOAD)
    saved = 10**6 if saves_everywhere(c) else c.recomputed + sum(c.recomputed_by_chunk)
    return (
        host,
        saved,
        c.context,
        c.pipeline,
        c.tensor,
        c.zero,
        c.expert * c.expert_tensor,
        c.micro_batch,
    )
