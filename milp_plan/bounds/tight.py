"""The tightest separations and windows of a frame, all arguments together."""

from __future__ import annotations

import numpy as np

from milp_plan.core.budget import Budget

from .frame import Frame
from .heads import HeadPass, Windows
from .neighbourhoods import neighbourhood_times
from .segments import LARGEST, segment_times
from .view import Separations, View, tick_of


def tight_windows(frame: Frame, budget: Budget) -> Windows:
    """Windows by edges and by one-device arguments (:mod:`.heads`).

    Raises
    ------
    OutOfTime
        The budget passed.
    """
    sides = []
    for separations in both_separations(frame, budget):
        heads = HeadPass(separations.view, separations, budget).run()
        sides.append(heads[::-1] if separations.view.backward else heads)
    return Windows(frame, sides[0], sides[1], tick_of(frame))


def both_separations(frame: Frame, budget: Budget) -> list[Separations]:
    """Separations forward and backward, raised by segments and by neighbourhoods.

    Raises
    ------
    OutOfTime
        The budget passed.
    """
    views = [View(frame, False), View(frame, True)]
    plain = [Separations(view, budget) for view in views]
    if len(frame.names) > LARGEST:
        return plain
    times = segment_times(plain[0], plain[1], budget)
    if all(map(frame.problem.graph.has_operator, frame.names)):  # moments have branches everywhere
        np.maximum(times, neighbourhood_times(plain[0], budget), out=times)
    return [
        Separations(views[0], budget, segments=times),
        Separations(views[1], budget, segments=np.ascontiguousarray(times[::-1, ::-1].T)),
    ]
