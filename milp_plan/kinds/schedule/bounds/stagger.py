"""Head, work and tail of operator subsets, packed on all devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from milp_plan.core.amounts import time_text
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget

from .heads import Windows
from .load import usable_devices
from .view import FAR, Array


def stagger_bound(windows: Windows, budget: Budget) -> Bound:
    """Head + work + tail, with devices that start and stop one after another.

    Proof: take the operators with head >= a and tail >= b, and suppose they use k devices. Each
    of these devices is idle before the head of its first operator and after the tail of its last
    one. The first operators on different devices belong to different colocation groups (to the
    same one at most as often as it holds devices), so the idle times before are at least the k
    smallest heads of different groups, and so for tails. Hence k T >= work + these heads + these
    tails. The bound is the least over k = 1 .. number of devices, the largest over (a, b).

    Raises
    ------
    OutOfTime
        The budget passed.
    """
    frame = windows.frame
    heads, tails = windows.least_heads, windows.least_tails
    devices = usable_devices(frame)
    by_head = sorted(range(len(heads)), key=heads.__getitem__)
    by_tail = sorted(range(len(tails)), key=lambda v: -tails[v])
    area = np.array([frame.least_area[v] // windows.tick for v in by_tail], dtype=np.int64)
    late = np.array([heads[v] for v in by_tail], dtype=np.int64)
    after = [_smallest(windows, tails, by_tail[stop::-1], devices) for stop in range(len(tails))]
    ends = np.array(after, dtype=np.int64).T.copy()
    best, result = 0, (0, 0)
    for position, v in enumerate(by_head):
        if position and heads[by_head[position - 1]] == heads[v]:
            continue
        budget.check()
        chosen = late >= heads[v]
        load = np.cumsum(np.where(chosen, area, 0))
        first = int(np.argmax(chosen))
        starts = _smallest(windows, heads, by_head[position:], devices)
        value = _least_over_devices(load[first:], starts, ends[:, first:])
        top = int(np.argmax(value))
        if value[top] > best:
            best = int(value[top])
            result = (heads[v], tails[by_tail[first + top]])
    units = frame.problem.units
    start, stop = (time_text(units, number * windows.tick) for number in result)
    return Bound(
        "head + work + tail",
        best * windows.tick,
        f"operators with head >= {start} and tail >= {stop} on {devices} devices",
    )


def _least_over_devices(load: Array, starts: Sequence[int], ends: Array) -> Array:
    value = np.full(load.shape, FAR, dtype=np.int64)
    for k, start in enumerate(starts, 1):
        if start >= FAR:
            break
        # Entries of ends that stand for "fewer groups" are FAR and drop out.
        total = np.minimum(FAR, load + start + ends[k - 1])
        np.minimum(value, np.where(ends[k - 1] >= FAR, FAR, -(-total // k)), out=value)
    return value


def _smallest(
    windows: Windows, times: Sequence[int], order: Sequence[int], devices: int
) -> list[int]:
    """Sum the 1, 2, .. ``devices`` smallest times of different groups, in ascending order.

    ``FAR`` where there are fewer.
    """
    sums: list[int] = []
    total = 0
    for time in _by_group(windows, times, order):
        total += time
        sums.append(total)
        if len(sums) == devices:
            return sums
    return sums + [FAR] * (devices - len(sums))


def _by_group(windows: Windows, times: Sequence[int], order: Sequence[int]) -> Iterator[int]:
    frame = windows.frame
    seen: set[int] = set()
    for v in order:
        if frame.unit[v] not in seen:
            seen.add(frame.unit[v])
            for _ in range(frame.most_gang[v]):
                yield times[v]
