"""Converts sharding problems to labellings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from milp_plan.core import UnsupportedProblemError
from milp_plan.core.sharding import ShardingProblem, offsets_of

from ..labelling import BAN, Integers, Labelling
from .contraction import summed

LARGEST_SUM = 2**61
"""Limit of sums of costs, so that 64 bits suffice everywhere."""


def labelling_of(problem: ShardingProblem) -> Labelling:
    """Return a sharding problem as a labelling: labels are strategies, rows are all its instants.

    Raises
    ------
    UnsupportedProblemError
        Sums of its costs or usages may exceed 64 bits.
    """
    s, t = problem.strategies, problem.transitions
    _refuse_large(problem)
    cost = np.where(s.allowed, s.cost, BAN)
    pairs = np.where(t.allowed, t.cost, BAN)
    parts, part_offsets, rows = _parts(problem)
    lasting = np.diff(part_offsets) > 0
    owner = np.repeat(np.arange(len(s)), s.counts)
    plain = Labelling(
        s.offsets,
        cost,
        t.ends,
        t.offsets,
        pairs,
        part_offsets,
        parts,
        offsets_of(s.counts * lasting),
        s.usage[lasting[owner]],
        np.full(rows, min(problem.limit or 0, LARGEST_SUM), dtype=np.int64),
    )
    return summed(plain)


def _parts(problem: ShardingProblem) -> tuple[Integers, Integers, int]:
    """Return the rows of each interval: rows lie between the times at which anything changes."""
    intervals = problem.intervals
    lasting = intervals[:, 0] < intervals[:, 1]
    if problem.limit is None:
        lasting = np.zeros_like(lasting)
    times = np.unique(intervals[lasting])
    parts = np.searchsorted(times, intervals[lasting]).astype(np.int64).reshape(-1, 2)
    return parts, offsets_of(lasting.astype(np.int64)), max(0, len(times) - 1)


def _refuse_large(problem: ShardingProblem) -> None:
    s, t = problem.strategies, problem.transitions
    largest = 0.0
    for offsets, cost, allowed in (
        (s.offsets, s.cost, s.allowed),
        (t.offsets, t.cost, t.allowed),
    ):
        if len(offsets) > 1:
            size = np.where(allowed, np.abs(cost), 0).astype(float)
            largest += float(np.maximum.reduceat(size, offsets[:-1]).sum())
    used = 0.0
    if len(s):
        used = float(np.maximum.reduceat(s.usage.astype(float), s.offsets[:-1]).sum())
    for what, total in (("costs", largest), ("usages", used)):
        if total >= LARGEST_SUM:
            text = f"{problem.name}: {what} may add up to {total:.3g}, more than 2^61"
            raise UnsupportedProblemError(f"{text}; scale them down")


def without_constant(labelling: Labelling) -> Labelling:
    """Move the smallest cost of every operator into the constant."""
    b = labelling
    least = np.minimum.reduceat(b.cost, b.offsets[:-1]) if len(b) else b.cost
    return replace(
        b, cost=b.cost - np.repeat(least, b.counts), constant=b.constant + int(least.sum())
    )
