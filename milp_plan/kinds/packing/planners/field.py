"""Buffers as arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled

Integers = NDArray[np.int64]
Indices = NDArray[np.int32]


class Field(NamedTuple):
    """Buffers as arrays, by lower and then upper; sizes in units of the problem's grain.

    Times are sections: those between neighbouring starts and ends of lifetimes.
    """

    lower: Integers
    upper: Integers
    size: Integers
    alignment: Integers


@compiled
def aligned(address: int, alignment: int) -> int:
    """Round an address up."""
    rest = address % alignment
    return address if rest == 0 else address + alignment - rest
