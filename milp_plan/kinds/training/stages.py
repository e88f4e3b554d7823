"""Which blocks lie on which pipeline stage: the partition with the shortest slowest stage.

The time of a step of the 1F1B family is that of filling and draining plus the number of
micro-batches times the slowest stage, so that stage is what a partition should make short.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from .stages_problem import TrainingStagesProblem

Counts = tuple[int, ...]
"""Numbers of consecutive blocks of each stage."""


def balanced_layers(
    times: Sequence[Sequence[int]], opens: Sequence[int], ends: Sequence[int]
) -> tuple[Counts, ...]:
    """Return up to three partitions of blocks into stages, all with the shortest slowest stage.

    A threshold is kept if stages, from the last to the first, each take as many blocks as it
    allows and none is left over: taking more never hurts the stages before. The least threshold
    is found by bisection. Several partitions attain it:

    1. the one with the fewest blocks on the first stages, where most micro-batches wait for their
       backward pass;
    2. stages of about equal time, the long ones last: the least memory under 1F1B;
    3. stages of about equal time, the long ones first: a pipeline fills and drains around its last
       slowest stage, so that this is the fastest where memory suffices.

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
    low = -(-sum(map(min, zip(*times, strict=True))) // len(times))
    high = max(extra) + max(row[-1] for row in sums)
    while low < high:
        middle = (low + high) // 2
        if _filled(sums, extra, middle) is None:
            low = middle + 1
        else:
            high = middle
    found = _filled(sums, extra, low)
    assert found is not None
    spread = (_spread(sums, extra, low, long_last=last) for last in (True, False))
    return tuple(dict.fromkeys((found, *spread)))


def _spread(sums: list[list[int]], extra: list[int], most: int, *, long_last: bool) -> Counts:
    """Blocks of each stage in at most a time, each near the mean of those up to it.

    From the last to the first, a stage takes what its mean allows, one more block if the long ones
    are last, and at least what the stages before it cannot take.
    """
    stop, latest, counts = len(sums[0]) - 1, _latest(sums, extra, most), list[int]()
    for stage in reversed(range(len(sums))):
        row, own, start, number = sums[stage], extra[stage], stop, stage + 1
        mean = sum(extra[:number]) + row[stop]
        while start and row[stop] - row[start - 1] + own <= most:
            time = row[stop] - row[start] + own
            more = row[stop] - row[start - 1] + own
            enough = number * time >= mean if long_last else number * more > mean
            if enough and start <= latest[stage]:
                break
            start -= 1
        counts.append(stop - start)
        stop = start
    return tuple(reversed(counts))


def _latest(sums: list[list[int]], extra: list[int], most: int) -> list[int]:
    """Most blocks that the stages before each can take in at most a time."""
    start, starts = 0, list[int]()
    for row, own in zip(sums, extra, strict=True):
        starts.append(start)
        while start < len(row) - 1 and row[start + 1] - row[starts[-1]] + own <= most:
            start += 1
    return starts


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


def layers_within_memory(problem: TrainingStagesProblem) -> tuple[int, ...] | None:
    """Return numbers of layers whose slowest device is the shortest, within memory.

    Of two ways, to keep activations or to recompute them, layers take the second only where memory
    asks for it. The threshold is found as in :func:`balanced_layers`, to a part in 4000. ``None``
    where no threshold works. With several runs on a device those that save most for their time
    recompute first, which may be one layer more than needed.

    Parameters
    ----------
    problem
        With one chunk on each device and these two ways.
    """
    devices = [_Segments(problem, number) for number in range(len(problem.devices))]
    low, high = 0, sum(device.longest for device in devices)
    found = _filled_within(problem.layers, devices, high)
    if found is None:
        return None
    while high - low > high // 4000:
        middle = (low + high) // 2
        counts = _filled_within(problem.layers, devices, middle)
        if counts is None:
            low = middle + 1
        else:
            found, high = counts, middle
    return found


def _filled_within(layers: int, devices: Sequence[_Segments], most: int) -> tuple[int, ...] | None:
    """Layers of each device, the last devices filled first up to a time; none if some are left."""
    stop, counts = layers, []
    for device in reversed(devices):
        start = stop
        if not device.fits(start, stop, most):
            return None
        while start and device.fits(start - 1, stop, most):
            start -= 1
        counts.append(stop - start)
        stop = start
    return None if stop else tuple(reversed(counts))


class _Segments:
    """Times of consecutive layers on one device, with as little recomputation as fits."""

    def __init__(self, problem: TrainingStagesProblem, number: int) -> None:
        device = problem.devices[number]
        ((chunk,),) = (problem.chunks_of[number],)
        self.beside = beside = problem.chunks[chunk].beside
        self.limit, waiting = device.limit, max(row[0] for row in device.waiting)
        times, sizes, self.savings = [0], [0], []
        first = 0
        for run in problem.runs:
            kept, again = run.ways[device.kind]
            for _ in range(run.count):
                times.append(times[-1] + kept.time)
                sizes.append(sizes[-1] + kept.resident + waiting * kept.kept)
            saved = waiting * (kept.kept - again.kept) + kept.resident - again.resident
            if saved > 0:
                more = max(0, again.workspace - beside.workspace)
                added = max(0, again.time - kept.time)
                self.savings.append((added / saved, first, first + run.count, added, saved, more))
            first += run.count
        self.savings.sort()
        self.times, self.sizes = times, sizes
        self.fixed = beside.resident + beside.workspace + waiting * beside.kept
        self.longest = beside.time + sum(
            run.count * max(load.time for load in run.ways[device.kind]) for run in problem.runs
        )

    def fits(self, start: int, stop: int, most: int) -> bool:
        """Whether layers from start to stop fit into memory within a time."""
        time = self.beside.time + self.times[stop] - self.times[start]
        if time > most or self.limit is None:
            return time <= most
        over = self.fixed + self.sizes[stop] - self.sizes[start] - self.limit
        workspace = 0
        for _, first, last, added, saved, more in self.savings:
            if over + workspace <= 0:
                break
            there = min(stop, last) - max(start, first)
            if there > 0:
                workspace = max(workspace, more)
                count = min(there, -(-(over + workspace) // saved))
                over, time = over - count * saved, time + count * added
        return over + workspace <= 0 and time <= most
