"""All bounds of a problem, and the best of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from milp_plan.core import Objective, PlanningProblem
from milp_plan.core.bound import Bound, Infeasible
from milp_plan.core.budget import Budget, OutOfTime
from milp_plan.core.compiled import interpreting
from milp_plan.core.view import view

from .frame import Frame
from .heads import Windows, simple_windows
from .load import load_bound, packing_bound, unrelated_bound
from .memory import (
    instant_obstacle,
    instant_peak,
    operator_peak,
    persistent_obstacle,
    persistent_peak,
)
from .milestones import with_milestones
from .site_choices import choice_bound
from .stagger import stagger_bound
from .tight import known_regions, tight_windows
from .turns import turns_bound

logger = logging.getLogger(__name__)

LARGEST_PAIRS = 5000
"""Most operators for which arrays over all pairs are built."""

SMALLEST_SPINE = 40
"""Fewest operators of a graph in which spines are searched: exact models prove more below."""


@view
def frame_of(problem: PlanningProblem) -> Frame:
    """Return a problem as arrays that bounds share."""
    return Frame(problem)


def all_bounds(
    problem: PlanningProblem, budget: Budget | None = None, incumbent: int | None = None
) -> Iterator[Bound]:
    """Yield the lower bounds on the objective, simple ones first.

    Parameters
    ----------
    problem
        Any problem.
    budget
        A bound that is not done by its end is left out, with a note in the log; the first, cheap
        ones are always there.
    incumbent
        Value of a known plan, which helps some bounds to choose what to look at.

    Yields
    ------
    Bound
        At least one. For an infeasible problem any number is a bound; what can be computed is
        given.
    """
    budget = budget or Budget()
    if problem.serial is not None:
        yield from _serial(problem, budget, incumbent)
        return
    if problem.allows_memory_saving:
        yield from _anywhere(problem, budget, incumbent)
        return
    frame = frame_of(problem)
    if frame.obstacle is not None:
        yield Bound("infeasible", 0, frame.obstacle.reason)
        return
    catalogue = _Catalogue(frame, budget)
    if problem.objective is Objective.PEAK_MEMORY:
        yield from catalogue.peak_memory()
    elif problem.objective is Objective.MAKESPAN:
        yield from catalogue.makespan(incumbent)
    else:  # a device is busy for no longer than its span, so bounds on device work hold for both
        yield from catalogue.bottleneck()


def _serial(problem: PlanningProblem, budget: Budget, incumbent: int | None) -> Iterable[Bound]:
    """Return the bounds under the serial law, whose modules load compiled code."""
    from milp_plan.kinds.placement.bounds.catalogue import serial_bounds
    from milp_plan.kinds.placement.bounds.relaxed import read_relaxed

    graph = read_relaxed(problem)
    if isinstance(graph, str):
        return (Bound("none", 0, graph),)
    return serial_bounds(graph, budget, incumbent)


def _anywhere(problem: PlanningProblem, budget: Budget, incumbent: int | None) -> Iterator[Bound]:
    """Yield the bounds where operators may run again or values may wait on hosts."""
    from .anywhere import anywhere, anywhere_unlimited

    if problem.objective is not Objective.PEAK_MEMORY:
        yield from all_bounds(anywhere_unlimited(problem), budget, incumbent)
        return
    frame = frame_of(anywhere(problem))
    yield operator_peak(frame)
    yield persistent_peak(frame)


def best_bound(problem: PlanningProblem, budget: Budget | None = None) -> Bound:
    """Return the largest of :func:`all_bounds`; the simplest one when several are as large."""
    return max(all_bounds(problem, budget), key=lambda bound: bound.value)


def infeasibility(problem: PlanningProblem, budget: Budget | None = None) -> Infeasible | None:
    """Return a proof in words that no plan exists, or ``None`` when none was found."""
    if problem.unplaced is not None:
        return Infeasible(problem.unplaced.reason, problem.unplaced.operators)
    if problem.serial is not None:
        from milp_plan.kinds.placement.bounds.memory import serial_obstacle

        return serial_obstacle(problem)
    where = problem
    if problem.allows_memory_saving:
        from .anywhere import anywhere

        where = anywhere(problem)
    frame = frame_of(where)
    if frame.obstacle is not None:
        return frame.obstacle
    obstacle = persistent_obstacle(frame)
    if problem.allows_memory_saving or obstacle is not None or len(frame.names) > LARGEST_PAIRS:
        return obstacle
    budget = budget or Budget()
    try:
        return instant_obstacle(frame, budget) or _dead_end(tight_windows(frame, budget))
    except OutOfTime:
        logger.info("%s: search for a proof of infeasibility stopped by its limit", problem.name)
    return None


def _dead_end(windows: Windows) -> Infeasible | None:
    number = windows.dead
    if number is None:
        return None
    name = windows.frame.names[number]
    return Infeasible(
        f"operator {name!r} can run nowhere: operators that must share a device with it (there is "
        "no way for their values from elsewhere) leave it no memory or no device",
        (name,),
    )


class _Catalogue:
    """Yields bounds; the log lists those that the budget stopped."""

    def __init__(self, frame: Frame, budget: Budget) -> None:
        self.frame, self.budget = frame, budget

    def within(self, name: str, make: Callable[[], Iterable[Bound | None]]) -> Iterator[Bound]:
        """Yield bounds unless they run out of time or do not apply."""
        try:
            self.budget.check()
            yield from (bound for bound in make() if bound is not None)
        except OutOfTime:
            logger.info("%s: bound %r left out, no time", self.frame.problem.name, name)

    def bottleneck(self) -> Iterator[Bound]:
        yield load_bound(self.frame)
        yield from self.within("unrelated load", lambda: [unrelated_bound(self.frame)])
        yield from self.within("packing", lambda: [packing_bound(self.frame)])

    def peak_memory(self) -> Iterator[Bound]:
        yield operator_peak(self.frame)
        yield persistent_peak(self.frame)
        if len(self.frame.names) <= LARGEST_PAIRS:
            yield from self.within("bytes alive", lambda: [instant_peak(self.frame, self.budget)])

    def makespan(self, incumbent: int | None) -> Iterator[Bound]:
        simple = simple_windows(self.frame)
        yield critical_path(simple)
        yield from self.bottleneck()
        yield from self.within("turns of a group", lambda: [turns_bound(simple)])
        if len(self.frame.names) > LARGEST_PAIRS:
            logger.info("%s: too large for bounds over all pairs", self.frame.problem.name)
            return
        yield from self.within("windows", partial(self._windows, incumbent))

    def _windows(self, incumbent: int | None) -> Iterator[Bound | None]:
        small = len(self.frame.names) < SMALLEST_SPINE
        known = known_regions(self.frame, self.budget)
        windows = tight_windows(with_milestones(self.frame), self.budget, known)
        if windows.dead is not None:
            return
        bounds = [window_bound(windows)]
        yield bounds[0]
        bounds.append(stagger_bound(windows, self.budget))
        yield bounds[1]
        chosen = choice_bound(self.frame, self.budget)
        if chosen is not None:
            bounds.append(chosen)
            yield chosen
        best = max(bound.value for bound in bounds)
        if not (small or interpreting()) and (incumbent is None or best < incumbent):
            from .runs import run_bounds  # loads compiled code

            yield from run_bounds(self.frame, windows, self.budget, (best, incumbent), known)


def critical_path(windows: Windows) -> Bound:
    """Return the critical path.

    Proof: along each edge the reader waits for its producer and the transfer, in the best pair
    of states for the two; heads and tails add up such waits.
    """
    spans = [windows.span(number) for number in range(len(windows.heads))]
    worst = max(range(len(spans)), key=spans.__getitem__)
    name = windows.frame.names[worst]
    return Bound("critical path", spans[worst], f"the longest chain goes through {name!r}")


def window_bound(windows: Windows) -> Bound:
    """Return the critical path with one-device arguments (see :mod:`.heads`)."""
    bound = critical_path(windows)
    return Bound(
        "critical path with sharing",
        bound.value,
        bound.detail + "; ancestors share its device or their values travel",
    )
