"""Lower bounds on the height of packings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

from milp_plan.core import ceil_div
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget

from .problem import Buffer, PackingProblem


@dataclass(frozen=True, slots=True)
class Instant:
    """Buffers at one instant, and the least height that they need."""

    time: int
    buffers: tuple[Buffer, ...]
    height: int


def fullest_instant(problem: PackingProblem) -> Instant:
    """Return the instant whose buffers need the greatest height.

    Proof: buffers that are alive at one instant hold disjoint ranges of addresses from 0 on. Let
    all their alignments be multiples of g. Then their offsets are, so from the offset of one to
    that of the next above it there are at least as many addresses as its size rounded up to a
    multiple of g; only the topmost one ends where its size does. So the height is at least the sum
    of the sizes rounded up, less the most that rounding added to a single one. (Without
    alignments g is 1, and this is the sum of the sizes.)
    """
    best = Instant(problem.buffers[0].lower, (), 0)
    ends = sorted(problem.buffers, key=lambda buffer: buffer.upper)
    alive: dict[str, Buffer] = {}
    gone = most = 0  # most: upper bound of the height, with every size rounded up
    for buffer in sorted(problem.buffers, key=lambda buffer: buffer.lower):
        while ends[gone].upper <= buffer.lower:
            del alive[ends[gone].name]
            most -= ends[gone].size + ends[gone].alignment - 1
            gone += 1
        alive[buffer.name] = buffer
        most += buffer.size + buffer.alignment - 1
        if most > best.height:
            height = _height(alive)
            if height > best.height:
                best = Instant(buffer.lower, tuple(alive.values()), height)
    return best


def packing_bounds(problem: PackingProblem, budget: Budget) -> Iterator[Bound]:
    """Yield bounds that every packing obeys, simple ones first."""
    if budget.over:
        return
    full = fullest_instant(problem)
    detail = f"{len(full.buffers)} buffers are alive at {full.time}"
    yield Bound("load", full.height, detail)


def packing_obstacle(problem: PackingProblem) -> str | None:
    """Return a proof in words that no packing fits the capacity; ``None`` when none was found."""
    full = fullest_instant(problem)
    if problem.capacity is None or full.height <= problem.capacity:
        return None
    return (
        f"the {len(full.buffers)} buffers that are alive at {full.time} need at least "
        f"{full.height} addresses, the capacity is {problem.capacity}"
    )


def _height(alive: dict[str, Buffer]) -> int:
    """Return the addresses that buffers need at one instant; see :func:`fullest_instant`."""
    grain = gcd(*(buffer.alignment for buffer in alive.values()))
    rounded = [grain * ceil_div(buffer.size, grain) for buffer in alive.values()]
    added = (high - buffer.size for high, buffer in zip(rounded, alive.values(), strict=True))
    return sum(rounded) - max(added)
