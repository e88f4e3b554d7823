"""The tightest separations and windows of a frame, from all arguments together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from milp_plan.core.budget import Budget

from .frame import Frame
from .heads import HeadPass, Windows
from .neighbourhoods import neighbourhood_times
from .regions import find_regions
from .segments import LARGEST, segment_times
from .view import FAR, Array, Separations, kept_with, plain_separations, tick_of

SMALLEST = 10
"""Fewest operators of a graph whose regions are searched."""


class Known(NamedTuple):
    """Least times from stop to start between operators of a frame, in units of ``tick``."""

    frame: Frame
    times: Array
    tick: int

    def within(self, frame: Frame) -> Array:
        """Return the same for a frame that has all these operators."""
        place = [frame.index[name] for name in self.frame.names]
        result = np.full((len(frame.names), len(frame.names)), -FAR, dtype=np.int64)
        times = np.where(self.times < 0, -FAR, np.minimum(self.times, FAR // self.tick))
        result[np.ix_(place, place)] = np.where(
            times < 0, -FAR, times * self.tick // tick_of(frame)
        )
        return result


def known_regions(frame: Frame, budget: Budget) -> Known | None:
    """Least times from forks to joins (:mod:`.region_times`); loads compiled code if there are any.

    Raises
    ------
    OutOfTime
        The budget passed.
    """
    if not SMALLEST <= len(frame.names) <= LARGEST or not frame.single:
        return None
    plain = plain_separations(frame, budget)
    regions = list(find_regions(plain, budget))
    if not regions:
        return None
    from .region_times import region_times

    return Known(frame, region_times(plain, regions, budget), plain.view.tick)


def tight_windows(frame: Frame, budget: Budget, known: Known | None = None) -> Windows:
    """Return the windows by edges and by one-device arguments (:mod:`.heads`).

    Raises
    ------
    OutOfTime
        The budget passed.
    """
    if known is None:
        return kept_with(frame, "tight windows", lambda: _windows(frame, budget, None))
    return _windows(frame, budget, known)


def _windows(frame: Frame, budget: Budget, known: Known | None) -> Windows:
    sides = []
    for separations in both_separations(frame, budget, known):
        heads = HeadPass(separations.view, separations, budget).run()
        sides.append(heads[::-1] if separations.view.backward else heads)
    return Windows(frame, sides[0], sides[1], tick_of(frame))


def both_separations(frame: Frame, budget: Budget, known: Known | None = None) -> list[Separations]:
    """Return separations forward and backward, raised by segments, neighbourhoods and regions.

    Raises
    ------
    OutOfTime
        The budget passed.
    """
    plain = [plain_separations(frame, budget, backward) for backward in (False, True)]
    if len(frame.names) > LARGEST:
        return plain
    times = kept_with(frame, "least times", lambda: _least_times(frame, plain, budget))
    if known is not None:
        times = np.maximum(times, known.within(frame))
    return [
        Separations(plain[0].view, budget, segments=times),
        Separations(plain[1].view, budget, segments=np.ascontiguousarray(times[::-1, ::-1].T)),
    ]


def _least_times(frame: Frame, plain: list[Separations], budget: Budget) -> Array:
    """Return the times from stop to start, by segments and neighbourhoods."""
    times = segment_times(plain[0], plain[1], budget)
    if all(map(frame.problem.graph.has_operator, frame.names)):  # moments have branches everywhere
        np.maximum(times, neighbourhood_times(plain[0], budget), out=times)
    return times
