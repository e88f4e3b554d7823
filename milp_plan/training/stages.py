"""Which blocks lie on which pipeline stage: the partition with the shortest slowest stage.

The time of a step of the 1F1B family is that of filling and draining plus the number of
micro-batches times the slowest stage, so that stage is what a partition should make short.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate


def balanced_layers(
    times: Sequence[Sequence[int]], opens: Sequence[int], ends: Sequence[int]
) -> tuple[int, ...]:
    """Return numbers of consecutive blocks of each stage whose slowest stage is the shortest.

    A threshold is kept if stages, from the last to the first, each take as many blocks as it
    allows and none is left over: taking more never hurts the stages before. The least threshold
    is found by bisection. Of equal partitions the one with the fewest blocks on the first stages
    is returned, where most micro-batches wait for their backward pass.

    Parameters
    ----------
    times
        Stage -> time of each block of the model on it, ticks.
    opens, ends
        Stage -> time of what is before the first block, and after the last one, on it. They count
        for the first and the last stage.
    """
    sums = [list(accumulate(row, initial=0)) for row in times]
    extra = [0] * len(times)
    extra[0] += opens[0]
    extra[-1] += ends[-1]
    low, high = 0, max(extra) + max(row[-1] for row in sums)
    while low < high:
        middle = (low + high) // 2
        if _filled(sums, extra, middle) is None:
            low = middle + 1
        else:
            high = middle
    found = _filled(sums, extra, low)
    assert found is not None
    return found


def _filled(sums: list[list[int]], extra: list[int], most: int) -> tuple[int, ...] | None:
    """Blocks of each stage, the last stages filled first up to a time; none if some are left."""
    stop = len(sums[0]) - 1
    counts = []
    for stage in reversed(range(len(sums))):
        row, start = sums[stage], stop
        if extra[stage] > most:
            return None
        while start and row[stop] - row[start - 1] + extra[stage] <= most:
            start -= 1
        counts.append(stop - start)
        stop = start
    return None if stop else tuple(reversed(counts))
