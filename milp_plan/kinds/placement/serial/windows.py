"""Possible stages of a block under the chain law, where no load is above a limit.

A chain has one stage per device, payers and hosts in some order. Blocks that come before a block
are in its stage or earlier. So the work on payers of a block and all before it is at most what
stages 1 to s can take, if the block is in stage s: with h hosts among them, (s - h) times the
limit and A(h), the most payer work that h hosts can take within the limit each (fractional
knapsack). Likewise for all that come after, from the other end.
"""

from __future__ import annotations

import numpy as np

from .graph import Floats
from .order import ChainGraph

MARGIN = 1e-9
"""Relative margin for rounding, by which windows are wider."""


def most_within(gain: Floats, cost: Floats, allowed: np.ndarray, room: float) -> float:
    """Return the fractional knapsack: most gain of allowed items whose cost fits into the room.

    Best ratio first, the last in part.
    """
    taken = float(gain[allowed & (cost <= 0)].sum())
    items = np.flatnonzero(allowed & (cost > 0) & (gain > 0))
    left = room
    for item in items[np.argsort(-gain[items] / cost[items], kind="stable")]:
        part = min(1.0, left / cost[item])
        taken += part * gain[item]
        left -= part * cost[item]
        if part < 1.0:
            break
    return taken * (1 + MARGIN)


def stage_windows(chain: ChainGraph, limit: float) -> list[tuple[int, int]] | None:
    """Return the first and the last stage, from 0, of each block; ``None`` if one has none."""
    payers, hosts = len(chain.graph.payers), len(chain.graph.hosts)
    stages = payers + hosts
    work, there = chain.work.sum(axis=1), chain.host_work.sum(axis=1)
    slack = MARGIN * float(work.sum())
    by_hosts = [0.0]
    by_hosts += [most_within(work, there, chain.on_host, n * limit) for n in range(1, hosts + 1)]
    rooms = [
        slack
        + max(
            (count - used) * limit + by_hosts[used]
            for used in range(max(0, count - payers), min(hosts, count) + 1)
        )
        for count in range(1, stages + 1)
    ]
    before, after = np.zeros(len(chain)), np.zeros(len(chain))
    for block in range(len(chain)):
        earlier = chain.ancestors[block]
        members = [other for other in range(block) if earlier >> other & 1]
        before[block] = work[members].sum() + work[block]
        after[block] += work[block]
        after[members] += work[block]
    windows = []
    for block in range(len(chain)):
        first = next((s for s, most in enumerate(rooms) if before[block] <= most), stages)
        last = next((s for s, most in enumerate(rooms) if after[block] <= most), stages)
        if first + last >= stages:
            return None
        windows.append((first, stages - 1 - last))
    return windows
