"""Fits of buffers in a given order."""

from __future__ import annotations

import numpy as np

from milp_plan.core.compiled import compiled

from .field import Field, Indices, Integers, aligned


@compiled
def fit(field: Field, order: Indices, tight: bool, offset: Integers) -> int:
    """Place buffers one after the other in the first, or the tightest, gap; return the height."""
    height = 0
    by_offset = np.empty(len(order), np.int32)
    for done in range(len(order)):
        i = order[done]
        size, begin, chosen, least = field.size[i], 0, -1, np.int64(2**62)
        for at in range(done):
            j = by_offset[at]
            if field.lower[j] >= field.upper[i] or field.lower[i] >= field.upper[j]:
                continue
            gap = offset[j] - begin
            if gap >= size and gap < least:
                chosen, least = begin, gap
                if not tight:
                    break
            begin = max(begin, aligned(offset[j] + field.size[j], field.alignment[i]))
        offset[i] = begin if chosen < 0 else chosen
        height = max(height, offset[i] + size)
        at = done
        while at > 0 and offset[by_offset[at - 1]] > offset[i]:
            by_offset[at] = by_offset[at - 1]
            at -= 1
        by_offset[at] = i
    return height
