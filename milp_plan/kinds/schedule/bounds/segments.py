"""Work between two operators, on all devices.

Everything that is both after u and before v runs between the stop of u and the start of v, so
load bounds apply to each such segment, and segments in series add up: a layer with parallel
branches between two layers, experts between router and combination.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.budget import Budget

from .load import usable_devices
from .view import FAR, Array, Separations, View

LARGEST = 2500
"""Most operators for which the product of reachability matrices is fast enough."""
_EXACT = 2**52


def segment_times(forward: Separations, backward: Separations, budget: Budget) -> Array:
    """Return the least time from the stop of u to the start of v that their segment's work takes.

    Proof: suppose the operators between u and v use k devices. Each of these is idle after the
    stop of u until the first of them may start there, and after the last until v may start. The
    devices of u and those of v may do so by separation alone, and so may devices whose first
    (last) operator holds several; on any other device the first operator shares nothing with u,
    so a value has crossed before (separation *around* u, on the way back), and likewise around v.
    First operators on different devices belong to different groups. So k t >= work + the sum of
    the k least such idle times on either side, over different groups; the bound is the least
    over k. (The idle times are taken over everything after u, or before v, which can only make
    them smaller.)

    Parameters
    ----------
    forward, backward
        Separations in both directions of one frame.
    budget
        Gives up with :class:`OutOfTime`.

    Returns
    -------
    array
        Entry (u, v) in forward order; negative where nothing lies between.
    """
    view = forward.view
    frame = view.frame
    devices = usable_devices(frame)
    area = np.array([number // view.tick for number in frame.least_area], dtype=np.int64)
    work = _work_between(forward.through >= 0, area)
    budget.check()
    starts = _idle(backward, devices, budget)[::-1]
    stops = _idle(forward, devices, budget)
    result = np.full(work.shape, FAR, dtype=np.int64)
    for k in range(1, devices + 1):
        budget.check()
        idle = starts[:, k - 1, None] + stops[None, :, k - 1]
        total = -(-(work + idle) // k)
        np.minimum(result, np.where(idle >= FAR // 2, FAR, total), out=result)
    result[work < 0] = -FAR
    return result


def _work_between(reach: NDArray[np.bool_], area: Array) -> Array:
    """Device-ticks between each pair, rounded down where doubles would; -1 where there are none."""
    strict = reach.astype(np.float64)
    np.fill_diagonal(strict, 0.0)
    unit = 1
    while int(area.sum()) // unit >= _EXACT:
        unit *= 2
    between = strict @ strict
    load = (strict * (area // unit).astype(np.float64)) @ strict
    work: Array = load.astype(np.int64) * unit
    work[between < 0.5] = -1
    return work


def _idle(side: Separations, devices: int, budget: Budget) -> Array:
    """Return the sums of the 1 .. ``devices`` least idle times before each operator of a view.

    From the stop of the last operator on a device to the start of v: near (as many as v has
    devices) by separation, elsewhere around v. ``FAR`` where there are fewer groups.
    """
    view = side.view
    through, around = side.through, side.around(-1)
    gangs = np.array([view.frame.most_gang[view.flip(v)] for v in range(view.size)])
    sums = np.full((view.size, devices), FAR, dtype=np.int64)
    for v in range(view.size):
        budget.check()
        before = np.flatnonzero(through[:v, v] >= 0)
        if len(before) == 0:
            continue
        near = through[before, v] - view.durations[before]
        far = np.minimum(around[before, v], FAR) - view.durations[before]
        gang = int(gangs[v])
        times = [int(near.min())] * gang
        far = np.where(gangs[before] > 1, near, far)
        times += _least_of_groups(view, before, far, devices - gang)
        total = 0
        for k, time in enumerate(times[:devices]):
            total += time
            sums[v, k] = total
    return sums


def _least_of_groups(
    view: View, operators: NDArray[np.intp], times: Array, count: int
) -> list[int]:
    """Return the ``count`` least times of different groups, once per device of the operator."""
    result: list[int] = []
    seen: set[int] = set()
    for position in np.argsort(times, kind="stable"):
        if len(result) >= count or times[position] >= FAR // 2:
            break
        operator = int(operators[position])
        unit = int(view.unit[operator])
        if unit not in seen:
            seen.add(unit)
            result += [int(times[position])] * view.frame.most_gang[view.flip(operator)]
    return result
