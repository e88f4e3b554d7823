"""Schedules of all constructions, of which the best few are starts of searches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import PlanningProblem
from milp_plan.core.budget import Budget

from ..decoder import NEVER, Decoder
from .assignment import Assigned, assignment
from .base import Layout
from .layouts import choices, families
from .structure import structure
from .urgency import urgencies

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_SCHEDULES = 1500
"""Most schedules of all constructions."""

FIRST_URGENCIES = 2
"""Priorities with which every placement is scheduled; the best placements get all of them."""

REFINED = 12
"""Number of placements that are scheduled with all priorities."""

APART = 0.02
"""Least part of the operators that two starts must place differently."""


class Start(NamedTuple):
    """Placement and priority of every operator, numbered as in ``planners.indexed``.

    Parameters
    ----------
    name
        Name of the construction.
    value
        Stop of the last operator of its list schedule, in units of the decoder.
    sites
        Site of each unit.
    spots
        Index of each operator's spot.
    priority
        Priority of each operator; the largest comes first.
    """

    name: str
    value: int
    sites: tuple[int, ...]
    spots: list[int]
    priority: list[float]


def placed(decoder: Decoder, start: Start) -> tuple[Ints, Ints, Ints]:
    """Return the site, option and rank of every operator, in the decoder's order."""
    view, order = decoder.compiled.view, decoder.compiled.order
    site, option = decoder.of_spots([view.spots[n][k] for n, k in enumerate(start.spots)])
    urgent = -np.array(start.priority)[order]
    return site, option, np.unique(urgent, return_inverse=True)[1].astype(np.int64)


class _Trial(NamedTuple):
    """A scheduled placement."""

    value: int
    number: int
    layout: Layout
    urgency: str
    priority: Floats


class _Choice(NamedTuple):
    """A member of a family, as good as its best schedule."""

    value: int
    number: int
    family: int
    choice: tuple[int, ...]


def best_starts(
    problem: PlanningProblem,
    decoder: Decoder,
    budget: Budget | None = None,
    *,
    count: int = 4,
    most: int = MOST_SCHEDULES,
    window: int | None = None,
    on_better: Callable[[Start], object] = lambda _start: None,
) -> list[Start]:
    """Schedule constructions, and return the best that differ from each other.

    Parameters
    ----------
    problem
        What to plan.
    decoder
        Decoder of this problem.
    budget
        Nothing further is scheduled when it is over.
    count
        How many starts are wanted.
    most
        Schedules in all.
    window
        Micro-batches at once, if the problem has gates.
    on_better
        Called with each start that is better than all before it.

    Returns
    -------
    list of Start
        Best first; empty if nothing fits.
    """
    portfolio = _Portfolio(problem, decoder, budget or Budget(), most, window)
    portfolio.on_better = on_better
    return portfolio.best(count)


class _Portfolio:
    """The trials of one problem."""

    def __init__(
        self,
        problem: PlanningProblem,
        decoder: Decoder,
        budget: Budget,
        most: int,
        window: int | None = None,
    ) -> None:
        self.problem, self.decoder, self.budget, self.left = problem, decoder, budget, most
        self.structure = structure(problem)
        self.view = self.structure.view
        self.order = np.array(self.view.topological, dtype=np.int64)
        self.unit = np.array(self.view.unit, dtype=np.int64)[self.order]
        operators = problem.graph.operators
        counts = [len(operators[operator].options) for operator in self.view.topological]
        self.first_option = np.cumsum([0, *counts[:-1]])
        self.trials: list[_Trial] = []
        self.least = NEVER
        self.on_better: Callable[[Start], object] = lambda _start: None
        self.families = families(problem, window)
        self.values: dict[object, int] = {}
        self.chosen: set[tuple[int, tuple[int, ...]]] = set()
        self.open: list[_Choice] = []

    def best(self, count: int) -> list[Start]:
        """Try the most promising choices, then what is like the best; return the best."""
        self._try_promising(self.left * 2 // 5)
        self._try_neighbours(self.left // 4)
        general = urgencies(self.structure)
        for layout in self._best_layouts(REFINED):
            exact = self._urgencies(layout)
            for name, priority in self._not_tried(layout, general, exact):
                if self._over:
                    break
                self._try(layout, name, priority)
        return [self._start(trial) for trial in self._different(count)]

    def _try_promising(self, most: int) -> None:
        """Choices that are promising in every parameter, families in turn."""
        until = self.left - most
        least = self.left // 4
        turns = [(n, iter(choices(family.sizes))) for n, family in enumerate(self.families)]
        while turns and not self._over and self.left > (until if self.trials else least):
            for turn in list(turns):
                choice = next(turn[1], None)
                if choice is None:
                    turns.remove(turn)
                elif not self._over:
                    self._choose(turn[0], choice)

    def _try_neighbours(self, keep: int) -> None:
        """Choices that differ in one parameter from the best ones."""
        while self.open and self.left > keep and not self._over:
            best = heappop(self.open)
            for axis, size in enumerate(self.families[best.family].sizes):
                for other in range(size):
                    choice = (*best.choice[:axis], other, *best.choice[axis + 1 :])
                    if self.left > keep and not self._over:
                        self._choose(best.family, choice)

    def _choose(self, family: int, choice: tuple[int, ...]) -> None:
        """Schedule a member of a family, unless it or an equal one was scheduled before."""
        if (family, choice) in self.chosen:
            return
        self.chosen.add((family, choice))
        layout = self.families[family].make(choice)
        if layout is None:
            return
        if layout.key not in self.values:
            exact = self._urgencies(layout)
            for name in list(exact)[:FIRST_URGENCIES]:
                self._try(layout, f"{name} of the placement", exact[name])
        value = self.values.get(layout.key, NEVER)
        if value < NEVER:
            heappush(self.open, _Choice(value, len(self.chosen), family, choice))

    def _urgencies(self, layout: Layout) -> dict[str, Floats]:
        """Return the priorities by what remains to be done on these sites."""
        return urgencies(self.structure, assignment(self.problem).tails(layout.assigned))

    @property
    def _over(self) -> bool:
        return self.left <= 0 or (self.budget.over and bool(self.values))

    def _not_tried(
        self, layout: Layout, general: dict[str, Floats], exact: dict[str, Floats]
    ) -> Iterator[tuple[str, Floats]]:
        tried = {trial.urgency for trial in self.trials if trial.layout.key == layout.key}
        for name, priority in exact.items():
            if f"{name} of the placement" not in tried:
                yield f"{name} of the placement", priority
            yield name, general[name]

    def _try(self, layout: Layout, name: str, priority: Floats) -> None:
        sites = np.array(layout.assigned.sites, dtype=np.int64)[self.unit]
        options = self.first_option + layout.assigned.options[self.order]
        rank = np.unique(-priority[self.order], return_inverse=True)[1].astype(np.int64)
        value = self.decoder.decode(sites, options, rank)
        self.left -= 1
        known = self.values.get(layout.key, NEVER)
        self.values[layout.key] = known if value is None else min(known, value)
        if value is not None:
            self.trials.append(_Trial(value, len(self.trials), layout, name, priority))
            if value < self.least:
                self.least = value
                self.on_better(self._start(self.trials[-1]))

    def _ranked(self) -> list[_Trial]:
        return sorted(self.trials, key=lambda trial: trial[:2])

    def _best_layouts(self, count: int) -> list[Layout]:
        result = {trial.layout.key: trial.layout for trial in reversed(self._ranked())}
        return list(reversed(result.values()))[:count]

    def _different(self, count: int) -> list[_Trial]:
        """Return the best trials that place enough operators differently from each other."""
        chosen: list[_Trial] = []
        for trial in self._ranked():
            here = trial.layout.assigned
            if all(self._apart(here, other.layout.assigned) >= APART for other in chosen):
                chosen.append(trial)
                if len(chosen) == count:
                    break
        return chosen

    def _apart(self, one: Assigned, other: Assigned) -> float:
        """Return the part of the operators with another site or option."""
        sites = np.array(one.sites)[self.unit] != np.array(other.sites)[self.unit]
        return float((sites | (one.options != other.options)[self.order]).mean())

    def _spots(self, assigned: Assigned) -> list[int]:
        """Return the index of each operator's spot."""
        view, found = self.view, []
        for number, operator in enumerate(self.problem.graph.operators):
            site = assigned.sites[view.unit[number]]
            option = operator.options[assigned.options[number]].name
            found.append(
                next(
                    spot.order
                    for spot in view.spots[number]
                    if spot.site == site and spot.placement.option == option
                )
            )
        return found

    def _start(self, trial: _Trial) -> Start:
        return Start(
            f"{trial.layout.name}; {trial.urgency}",
            trial.value,
            trial.layout.assigned.sites,
            self._spots(trial.layout.assigned),
            [float(each) for each in trial.priority],
        )
