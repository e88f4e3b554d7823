"""Cuts of layers, in the order of depth, into consecutive stages by dynamic programming.

A stage costs its load, what crosses the cut before it, and, with a weight, how long its device must
wait for its first work: load plus head is a lower bound of the makespan, for all of its work and
for the part behind the forward pass alone. The sum of a high power of these costs is close to the
largest and, unlike it, distinguishes cuts whose largest costs are equal. Memory is a condition:
persistent bytes, what every micro-batch in flight keeps, and the widest operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled

from .loads import LayerLoads

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FEW_LAYERS, SLACK = 128, 1.6
"""Above so many layers a stage may have this many times the mean load beside the largest layer, if
that leaves a cut; up to so many, cuts are the best there are."""

MOST_LAYERS = 768
"""Longer sequences are cut between bundles of layers of about equal work."""


class Balance(NamedTuple):
    """Weights in the cost of a stage.

    Parameters
    ----------
    doublings
        The power is 2 to this.
    waiting
        Weight of the time until the first work of a stage can start.
    crossing
        Weight of the transfers over the cut before it.
    """

    doublings: int = 3
    waiting: float = 0.0
    crossing: float = 1.0


class Memory(NamedTuple):
    """Memory limits of stages.

    Parameters
    ----------
    flights
        Micro-batches that each stage holds at once; of one, parts.
    parted
        Whether a site with several stages gives each of them an equal part of its memory, or all
        of it: whether they do not need it at one time is then for the schedule to say.
    """

    flights: Sequence[float]
    parted: bool = True


def cut(
    loads: LayerLoads,
    sites: Sequence[int],
    memory: Memory,
    balance: Balance,
    *,
    extra: Sequence[float] | None = None,
    count: int | None = None,
) -> list[int] | None:
    """Cut layers into stages.

    Parameters
    ----------
    loads
        Loads of the problem.
    sites
        Site of each stage.
    memory, balance
        Memory limits and cost weights of a stage.
    extra
        Ticks that each stage's site has to do besides.
    count
        Only the first layers are cut.

    Returns
    -------
    list or None
        First layer of each stage, and the number of layers; stages may be empty. ``None`` if no
        cut fits.
    """
    count = len(loads.structure.layers) if count is None else count
    rows = [loads.rows(site) for site in sites]
    bundles = _bundles(rows[0].work[:count])
    starts = bundles[:-1]

    def summed(row: Floats) -> Floats:
        return np.add.reduceat(row[:count], starts)

    work = np.array([summed(row.work) for row in rows])
    finite = np.where(np.isfinite(work), work, 0.0)
    mean = max(1.0, float(finite.sum()) / len(sites) ** 2)
    forward, returning = loads.heads
    last = bundles[1:] - 1
    tables = (
        work,
        np.array([summed(row.returning) for row in rows]),
        np.array([summed(row.fixed) for row in rows]),
        summed(loads.flying),
        np.maximum.reduceat(loads.working[:count], starts),
        loads.crossing[starts] * balance.crossing,
        forward[starts] * balance.waiting,
        returning[last] * balance.waiting,
        np.array(extra if extra is not None else [0.0] * len(sites), dtype=float),
    )
    room = np.array([loads.room(site) for site in sites])
    scale = max(mean, float(forward.max()), float(returning.max())) if balance.waiting else mean
    if memory.parted:
        room /= [sites.count(site) for site in sites]
    for widen in (1.0, 4.0, float(len(sites))):
        many = len(starts) > FEW_LAYERS
        most = (SLACK * mean + float(finite.max())) * widen if many else np.inf
        held = (room, np.array(memory.flights, dtype=float))
        cost, origin = _best_cuts(*tables, *held, scale, most, balance.doublings)
        if np.isfinite(cost[-1, -1]):
            return _traced(origin, bundles)
    return None


def _bundles(work: Floats) -> Ints:
    """Return the positions where cuts are allowed, both ends included."""
    if len(work) <= MOST_LAYERS:
        return np.arange(len(work) + 1)
    before = np.cumsum(np.where(np.isfinite(work), work, 0.0))
    share = (before - before[0]) / max(1.0, before[-1] - before[0]) * (MOST_LAYERS - 1)
    opens = np.flatnonzero(np.diff(share.astype(np.int64)) > 0) + 1
    return np.unique(np.concatenate(([0], opens, [len(work)])))


def _traced(origin: Ints, bundles: Ints) -> list[int]:
    at = origin.shape[1] - 1
    bounds = [at]
    for stage in range(origin.shape[0] - 1, 0, -1):
        at = int(origin[stage, at])
        bounds.append(at)
    return [int(bundles[at]) for at in reversed(bounds)]


@compiled
def _best_cuts(  # noqa: PLR0917 (compiled)
    work: Floats,
    returning: Floats,
    fixed: Floats,
    flying: Floats,
    working: Floats,
    crossing: Floats,
    forward_head: Floats,
    returning_head: Floats,
    extra: Floats,
    room: Floats,
    flights: Floats,
    scale: float,
    most: float,
    doublings: int,
) -> tuple[Floats, Ints]:
    stages, layers = work.shape
    cost = np.full((stages + 1, layers + 1), np.inf)
    origin = np.zeros((stages + 1, layers + 1), dtype=np.int64)
    cost[0, 0] = 0.0
    for stage in range(stages):
        for stop in range(layers + 1):
            best, start_of_best = cost[stage, stop], stop  # an empty stage
            load, late, held, kept, widest = extra[stage], 0.0, 0.0, 0.0, 0.0
            for start in range(stop - 1, -1, -1):
                load += work[stage, start]
                late += returning[stage, start]
                held += fixed[stage, start]
                kept += flying[start]
                widest = max(widest, working[start])
                if load > most or held + flights[stage] * kept + widest > room[stage]:
                    break
                if cost[stage, start] >= best:
                    continue
                power = load + crossing[start] + forward_head[start]
                if returning_head[stop - 1] > 0:
                    power = max(power, late + returning_head[stop - 1])
                power /= scale
                for _ in range(doublings):
                    power *= power
                if cost[stage, start] + power < best:
                    best, start_of_best = cost[stage, start] + power, start
            cost[stage + 1, stop], origin[stage + 1, stop] = best, start_of_best
    return cost, origin
