"""New ranks for a placement: by the longest path behind each operator, and by micro-batch.

Moves change few ranks. Where a unit of all micro-batches goes elsewhere, the old ranks are those of
another pipeline, and the list schedule is far worse than the placement allows. The rules are those
of :mod:`..constructions.urgency`, with random weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import PlanningProblem
from milp_plan.core.compiled import compiled

from ..constructions.structure import structure
from ..constructions.urgency import STEADY
from ..decoder import Compiled
from ..decoder.ahead import look_ahead, units_at
from ..decoder.layout import OPERATORS, RANK, TAIL, Ints
from ..decoder.legs import find_legs
from .states import Undo, remember

BY_PASS = 0.25
"""Probability that passes come before micro-batches, in training."""

MOST, DECADES = 0.5, 1.5
"""Part of the longest path by which a micro-batch is less urgent than the one before: drawn from
``MOST`` down to ``DECADES`` powers of ten below it."""


class Urgency(NamedTuple):
    """Micro-batch and pass of each operator, by position in the decoder's order.

    Parameters
    ----------
    batch
        Micro-batch, from 0; operators that run once have the number of micro-batches.
    row
        Rank of the pass: a larger one comes first in a steady pipeline. All 0 without training.
    """

    batch: NDArray[np.float64]
    row: NDArray[np.float64]


def urgency_of(problem: PlanningProblem, compiled_problem: Compiled) -> Urgency:
    """Read the structure of a problem."""
    graph, order = structure(problem), compiled_problem.order
    rows = [float(STEADY[graph.passes[number]]) for number in order]
    return Urgency(
        np.array([graph.batch[number] for number in order], dtype=np.float64),
        np.array(rows if graph.trains else [0.0] * len(rows)),
    )


@compiled
def rank_anew(a: Ints, t: Ints, undo: Undo, urgency: Urgency, width: float) -> None:
    """Rank all operators by the longest path behind them in their placement.

    ``width`` is the range of ranks. Nothing changes where the law does not allow the placement.
    """
    if not find_legs(a, t):
        return
    look_ahead(a, t)
    longest = 1
    for operator in range(t[OPERATORS]):
        longest = max(longest, units_at(a, t, operator) + a[t[TAIL] + operator])
    steps = urgency.batch.max() + 1.0
    part = MOST * 10.0 ** (-DECADES * np.random.random())
    row = 0.0
    if urgency.row.max() > urgency.row.min() and np.random.random() < BY_PASS:
        part, row = 1.0, steps + 1.0
    scale = width / (1.0 + part * steps + row * (urgency.row.max() - urgency.row.min()))
    for operator in range(t[OPERATORS]):
        path = (units_at(a, t, operator) + a[t[TAIL] + operator]) / longest
        late = part * urgency.batch[operator] - row * urgency.row[operator] - path
        remember(a, t, undo, operator)
        a[t[RANK] + operator] = int(late * scale)
