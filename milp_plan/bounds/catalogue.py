"""All bounds of a problem, and the best of them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from milp_plan.core import Objective, PlanningProblem
from milp_plan.serial import read_serial

from .bound import Bound, Deadline, Infeasible, OutOfTime
from .frame import Frame
from .heads import Windows, simple_windows, tight_windows
from .load import largest_bound, load_bound, packing_bound, unrelated_bound
from .memory import (
    instant_obstacle,
    instant_peak,
    operator_peak,
    persistent_obstacle,
    persistent_peak,
    residence_bound,
)
from .milestones import with_milestones
from .stagger import stagger_bound

logger = logging.getLogger(__name__)

LARGEST_PAIRS = 5000
"""Operators beyond which arrays over all pairs are not built."""


def all_bounds(problem: PlanningProblem, time_limit_s: float | None = None) -> tuple[Bound, ...]:
    """Lower bounds on the objective, simple ones first.

    Parameters
    ----------
    problem
        Any.
    time_limit_s
        A bound that is not done by then is left out, with a note in the log; the first, cheap
        ones are always there.

    Returns
    -------
    tuple of Bound
        At least one. For an infeasible problem any number is a bound; what can be computed is
        returned.
    """
    if problem.serial is not None:
        return _serial(problem, Deadline(time_limit_s))
    frame = Frame(problem)
    if frame.obstacle is not None:
        return (Bound("infeasible", 0, frame.obstacle.reason),)
    catalogue = _Catalogue(frame, Deadline(time_limit_s))
    if problem.objective is Objective.PEAK_MEMORY:
        return catalogue.peak_memory()
    if problem.objective is Objective.BOTTLENECK:
        return catalogue.bottleneck()
    if problem.objective is Objective.SPAN:
        return catalogue.span()
    return catalogue.makespan()


def _serial(problem: PlanningProblem, deadline: Deadline) -> tuple[Bound, ...]:
    """Bounds under the serial law, whose modules load compiled code."""
    graph = read_serial(problem)
    if isinstance(graph, str):
        return (Bound("none", 0, graph),)
    from .serial_catalogue import serial_bounds

    return serial_bounds(graph, deadline)


def best_bound(problem: PlanningProblem, time_limit_s: float | None = None) -> Bound:
    """Return the largest of :func:`all_bounds`; the simplest one when several are as large."""
    return max(all_bounds(problem, time_limit_s), key=lambda bound: bound.value)


def infeasibility(problem: PlanningProblem, time_limit_s: float | None = None) -> Infeasible | None:
    """Return a proof in words that no plan exists, or ``None`` when none was found."""
    frame = Frame(problem)
    if frame.obstacle is not None:
        return frame.obstacle
    obstacle = persistent_obstacle(frame)
    if obstacle is not None or len(frame.names) > LARGEST_PAIRS:
        return obstacle
    deadline = Deadline(time_limit_s)
    try:
        return instant_obstacle(frame, deadline) or _dead_end(tight_windows(frame, deadline))
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
    """Collects bounds; those stopped by the deadline are noted in the log."""

    def __init__(self, frame: Frame, deadline: Deadline) -> None:
        self.frame = frame
        self.deadline = deadline
        self.found: list[Bound] = []

    def add(self, name: str, make: Callable[[], Bound | None]) -> None:
        """Add a bound unless it runs out of time or does not apply."""
        try:
            self.deadline.check()
            bound = make()
        except OutOfTime:
            logger.info("%s: bound %r left out, no time", self.frame.problem.name, name)
            return
        if bound is not None:
            self.found.append(bound)

    def bottleneck(self) -> tuple[Bound, ...]:
        self.found += [load_bound(self.frame), largest_bound(self.frame)]
        self.add("unrelated load", lambda: unrelated_bound(self.frame))
        self.add("packing", lambda: packing_bound(self.frame))
        return tuple(self.found)

    def peak_memory(self) -> tuple[Bound, ...]:
        self.found += [operator_peak(self.frame), persistent_peak(self.frame)]
        if len(self.frame.names) <= LARGEST_PAIRS:
            self.add("bytes alive", lambda: instant_peak(self.frame, self.deadline))
        return tuple(self.found)

    def span(self) -> tuple[Bound, ...]:
        """A device is busy for no longer than its span, so bounds on device work hold."""
        return self.bottleneck()

    def makespan(self) -> tuple[Bound, ...]:
        self.found.append(critical_path(simple_windows(self.frame)))
        self.bottleneck()
        if len(self.frame.names) > LARGEST_PAIRS:
            logger.info("%s: too large for bounds over all pairs", self.frame.problem.name)
            return tuple(self.found)
        self.add("bytes times time", lambda: residence_bound(self.frame, self.deadline))
        self.add("windows", self._windows)
        return tuple(self.found)

    def _windows(self) -> None:
        windows = tight_windows(with_milestones(self.frame), self.deadline)
        if windows.dead is None:
            self.found.append(window_bound(windows))
            self.add("head + work + tail", lambda: stagger_bound(windows, self.deadline))


def critical_path(windows: Windows) -> Bound:
    """Critical path.

    Proof: along each edge the reader waits for its producer and the transfer, in the best pair
    of states for the two; heads and tails add up such waits.
    """
    spans = [windows.span(number) for number in range(len(windows.heads))]
    worst = max(range(len(spans)), key=spans.__getitem__)
    name = windows.frame.names[worst]
    return Bound("critical path", spans[worst], f"the longest chain goes through {name!r}")


def window_bound(windows: Windows) -> Bound:
    """Critical path with one-device arguments (see :mod:`.heads`)."""
    bound = critical_path(windows)
    return Bound(
        "critical path with sharing",
        bound.value,
        bound.detail + "; ancestors share its device or their values travel",
    )
