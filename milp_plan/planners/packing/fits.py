"""Fits of buffers in a given order, and orders that get better step by step."""

from __future__ import annotations

import numpy as np

from milp_plan.core.compiled import compiled, copy_into

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


@compiled
def improve(field: Field, order: Indices, offset: Integers, seed: int, steps: int) -> int:
    """Move buffers that reach highest to earlier places; keep orders that are no worse."""
    np.random.seed(seed)
    trial, other = np.empty_like(offset), order.copy()
    height = fit(field, order, False, offset)
    for _ in range(steps):
        highest = np.flatnonzero(offset + field.size == height)
        culprit = highest[np.random.randint(len(highest))]
        if np.random.random() < 0.3:
            culprit = order[np.random.randint(len(order))]
        old = 0
        while order[old] != culprit:
            old += 1
        new = np.random.randint(old + 1)
        copy_into(order, other)
        copy_into(order[new:old], other[new + 1 : old + 1])
        other[new] = culprit
        reached = fit(field, other, False, trial)
        if reached <= height:
            copy_into(other, order)
            copy_into(trial, offset)
            height = reached
    return height
