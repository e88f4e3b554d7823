"""Checks whether the numbers of a model are within a solver's tolerances."""

from __future__ import annotations

import numpy as np

from .compiled import CompiledModel

TOLERANCE = 1e-9
"""Tolerance of a solver for rows and integrality."""

LARGEST = TOLERANCE / float(np.finfo(float).eps)
"""4.5 million: the rounding error of larger numbers exceeds the tolerance."""


def doubt_of(model: CompiledModel) -> str:
    """Return why no claim of a solver about a model is a proof; empty if its numbers are fine.

    A coefficient that is larger than :data:`LARGEST` makes each row it stands in uncertain by more
    than the tolerance, and multiplies what a bit is off by to whole units: a solver that finds no
    solution of such a model may have lost it. A whole number that may be larger is never whole for
    the solver, whatever it is multiplied by.
    """
    sides = np.concatenate((model.row_lower, model.row_upper))
    whole = model.integrality == 1
    ends = np.concatenate((model.column_lower[whole], model.column_upper[whole]))
    kinds = {
        "numbers": np.concatenate((model.matrix.data, sides[np.isfinite(sides)])),
        "whole columns": ends[np.isfinite(ends)],
    }
    for kind, numbers in kinds.items():
        worst = float(np.abs(numbers).max(initial=0.0))
        if worst > LARGEST:
            return (
                f"the model holds {kind} up to {worst:.3g}, more than {LARGEST:.3g}: rounding them "
                f"is off by more than the solver's tolerance of {TOLERANCE:g}, so it proves nothing"
            )
    return ""
