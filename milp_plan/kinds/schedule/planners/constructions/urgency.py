"""Priorities of operators that know passes and micro-batches; larger comes first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .structure import Pass, Structure

Floats = NDArray[np.float64]

DISCOUNTS = (0.02, 0.05, 0.1, 0.2)
"""Parts of the longest path by which each micro-batch is less urgent than the one before."""

STEADY = {Pass.BACKWARD: 2, Pass.SUM: 2, Pass.FORWARD: 1, Pass.WEIGHT: 0, Pass.UPDATE: -1}
_FREEING = {Pass.BACKWARD: 2, Pass.SUM: 2, Pass.FORWARD: 1, Pass.WEIGHT: 3, Pass.UPDATE: 4}


def urgencies(
    structure: Structure, tail: Sequence[float] | Floats | None = None
) -> dict[str, Floats]:
    """Return priorities by name, the most promising first.

    Parameters
    ----------
    structure
        The problem.
    tail
        Ticks from each operator's start to the end; shortest durations alone by default.
    """
    path = np.array(structure.tail if tail is None else tail, dtype=float)
    batch = np.array(structure.batch, dtype=float)
    longest = max(1.0, float(path.max(initial=1.0)))
    result: dict[str, Floats] = {}
    if structure.trains:
        result["steady"] = _ranked(structure, STEADY, path, batch, longest)
    if structure.num_batches > 1:
        for part in DISCOUNTS:
            result[f"discount {part}"] = path - part * longest * batch
    result["critical path"] = path
    if structure.trains:
        result["freeing"] = _ranked(structure, _FREEING, path, batch, longest)
    return result


def _ranked(
    structure: Structure, rank: dict[Pass, int], path: Floats, batch: Floats, longest: float
) -> Floats:
    """By pass, then by micro-batch, then by longest path."""
    ranks = np.array([rank[each] for each in structure.passes], dtype=float)
    step = 3.0 * longest
    return ranks * step * (structure.num_batches + 2) - batch * step + path
