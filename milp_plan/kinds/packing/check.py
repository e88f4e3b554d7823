"""The checker of packings: every rule of ``docs/laws.md``, in Python's integers."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate

from milp_plan.check.statement import misattributed, overclaimed
from milp_plan.core import Verdict, Violation

from .problem import Buffer, PackingPlan, PackingProblem

OBJECTIVE = "height"
"""The highest address in use, plus one."""

_Placed = list[tuple[Buffer, int]]


def verify_packing(problem: PackingProblem, plan: PackingPlan) -> Verdict:
    """Check a packing against its problem; never raises, however broken the plan is.

    Returns
    -------
    Verdict
        Value: largest offset + size of any buffer; ``None`` if a buffer has no place. Components:
        ``peak_load``, the largest sum of sizes at one instant, and ``waste``, what the value is
        above it.
    """
    broken = [*_identity(problem, plan), *_assignment(problem, plan)]
    placed = _placed(problem, plan)
    broken += [*_addresses(problem, placed), *_overlaps(placed)]
    missing = len(placed) < len(problem.buffers)
    value = None if missing else max(offset + buffer.size for buffer, offset in placed)
    broken += overclaimed(problem, plan, value, "a height")
    load = max(load_over_time(problem.buffers).values())
    figures = {"peak_load": load} | ({} if value is None else {"waste": value - load})
    return Verdict(tuple(broken), OBJECTIVE, value, figures)


def _identity(problem: PackingProblem, plan: PackingPlan) -> Iterator[Violation]:
    yield from misattributed(problem, plan)
    known = {buffer.name: buffer for buffer in problem.buffers}
    for place in plan.places:
        name = place.buffer.name
        if name not in known:
            text = f"the plan places {name!r}, which the problem does not have"
            yield Violation("identity", (name,), text)
        elif place.buffer != known[name]:
            text = f"buffer {name!r} has another lifetime, size or alignment in the plan"
            yield Violation("identity", (name,), text)


def _assignment(problem: PackingProblem, plan: PackingPlan) -> Iterator[Violation]:
    counts = Counter(place.buffer.name for place in plan.places)
    for buffer in problem.buffers:
        if counts[buffer.name] != 1:
            text = f"buffer {buffer.name!r} has {counts[buffer.name]} places, expected one"
            yield Violation("assignment", (buffer.name,), text)
    for place in plan.places:
        if type(place.offset) is not int:
            text = f"buffer {place.buffer.name!r} has the offset {place.offset!r}, no integer"
            yield Violation("assignment", (place.buffer.name,), text)


def _placed(problem: PackingProblem, plan: PackingPlan) -> _Placed:
    """Return the problem's buffers with their offsets: the first ones that are integers."""
    offsets: dict[str, int] = {}
    for place in plan.places:
        if type(place.offset) is int:
            offsets.setdefault(place.buffer.name, place.offset)
    return [(b, offsets[b.name]) for b in problem.buffers if b.name in offsets]


def _addresses(problem: PackingProblem, placed: _Placed) -> Iterator[Violation]:
    for buffer, offset in placed:
        name, top = buffer.name, offset + buffer.size
        if offset < 0:
            yield Violation("range", (name,), f"buffer {name!r} has the offset {offset}, below 0")
        if problem.capacity is not None and top > problem.capacity:
            text = f"buffer {name!r} ends at {top}, above the capacity"
            yield Violation("capacity", (name,), text, top, problem.capacity)
        if offset % buffer.alignment:
            text = f"buffer {name!r} has the offset {offset}, no multiple of {buffer.alignment}"
            yield Violation("alignment", (name,), text)


def _overlaps(placed: _Placed) -> Iterator[Violation]:
    """Yield pairs that are alive at one instant and share addresses.

    A sweep over time maintains the buffers alive by their offsets. Of those that share addresses
    with none of their neighbours, each ends where the next begins or before: so a new one is
    compared with those from its offset on, and with the ones before it while any reaches that far.
    """
    events = [(b.upper, 0, i) for i, (b, _) in enumerate(placed)]
    events += [(b.lower, 1, i) for i, (b, _) in enumerate(placed)]
    alive: list[tuple[int, int]] = []
    clean = True
    for _, begins, index in sorted(events):
        buffer, offset = placed[index]
        if not begins:
            del alive[bisect_left(alive, (offset, index))]
            continue
        at = bisect_left(alive, (offset, index))
        first = max(0, at - 1) if clean else 0  # of overlapping ones, an earlier may reach further
        for low, other in alive[first:]:
            if low >= offset + buffer.size:
                break
            rival = placed[other][0]
            if low + rival.size > offset:
                clean = False
                yield _overlap((rival, low), (buffer, offset))
        insort(alive, (offset, index))


def _overlap(first: tuple[Buffer, int], second: tuple[Buffer, int]) -> Violation:
    names = (first[0].name, second[0].name)
    low = max(first[1], second[1])
    high = min(first[1] + first[0].size, second[1] + second[0].size)
    start = max(first[0].lower, second[0].lower)
    stop = min(first[0].upper, second[0].upper)
    text = f"{names[0]!r} and {names[1]!r} both hold the addresses {low} to {high - 1}"
    return Violation("overlap", names, f"{text} from {start} to {stop}")


def load_over_time(buffers: Iterable[Buffer]) -> dict[int, int]:
    """Return the sum of sizes from each instant on at which it changes."""
    changes: dict[int, int] = {}
    for buffer in buffers:
        changes[buffer.lower] = changes.get(buffer.lower, 0) + buffer.size
        changes[buffer.upper] = changes.get(buffer.upper, 0) - buffer.size
    times = sorted(changes)
    return dict(zip(times, accumulate(changes[time] for time in times), strict=True))
