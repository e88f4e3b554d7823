"""Possible stages of each block of a chain order, by work before and after it and minimum cuts.

Proof. Windows by work: :mod:`.windows`. Let no load be above the limit, and let e
be the first stage that block b can be in. Blocks that come before b are in its stage or earlier.
If b is in stage e, so are all of them that cannot be in an earlier stage. A payer with all these
has a load of at least the cheapest set that contains them and none of the blocks that cannot be in
stage e (:mod:`.flow`); a host has all their host time. If neither is possible, b is in stage
e + 1 or later. The same from the other end. Where the loads of the two passes count apart, no
payer's whole load is above the objective either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..serial.order import ChainGraph
from ..serial.windows import MARGIN, stage_windows
from .conflicts import RESOLUTION

if TYPE_CHECKING:
    from .flow import Network

MAX_UNITS = 64 * RESOLUTION
"""Units of a net that costs more than any device may take."""

ROUNDS = 3

Windows = list[tuple[int, int]]


def chain_windows(chain: ChainGraph, limit: float) -> Windows | None:
    """Return the first and the last stage, from 0, of each block where no load is above a limit.

    Parameters
    ----------
    chain
        Blocks and arcs.
    limit
        In units of the order's tables.

    Returns
    -------
    list or None
        ``None`` if some block has no stage: every plan has a load above the limit.
    """
    first = stage_windows(chain, limit)
    return None if first is None else _Narrowing(chain, limit, first).run()


class _Narrowing:
    """Windows of all blocks while they become narrower."""

    def __init__(self, chain: ChainGraph, limit: float, windows: Windows) -> None:
        self.chain, self.limit = chain, limit * (1 + MARGIN)
        self.first = np.array([window[0] for window in windows])
        self.last = np.array([window[1] for window in windows])
        self.stages = len(chain.graph.payers) + len(chain.graph.hosts)
        self.host_work = chain.host_work.sum(axis=1)
        self.net, self.enough = self._network()
        count = len(chain)
        self.earlier = [_members(bits, count) for bits in chain.ancestors]
        self.later: list[list[int]] = [[] for _ in range(count)]
        for block, others in enumerate(self.earlier):
            for other in others:
                self.later[other].append(block)

    def _network(self) -> tuple[Network, int]:
        """Return the flow network of the blocks, and the least number of units above the limit."""
        from .flow import network

        chain = self.chain
        work = chain.work.sum(axis=1)
        unit = (max(float(work.sum()), self.limit) or 1.0) / RESOLUTION
        forbidden = MAX_UNITS * unit
        nets = [
            (pins, int(min(cost, forbidden) / unit))
            for pins, cost in zip(chain.pins, chain.cost.sum(axis=1), strict=True)
        ]
        net = network([int(part / unit) for part in work], nets)
        return net, int(self.limit / unit) + 1

    def run(self) -> Windows | None:
        """Push first stages up and last stages down until nothing moves."""
        for _ in range(ROUNDS):
            before = self.first.sum() - self.last.sum()
            for block in range(len(self.chain)):
                if not self._push(block, self.earlier[block], self.first, 1):
                    return None
            for block in reversed(range(len(self.chain))):
                if not self._push(block, self.later[block], self.last, -1):
                    return None
            if self.first.sum() - self.last.sum() == before:
                break
        return [(int(a), int(b)) for a, b in zip(self.first, self.last, strict=True)]

    def _push(self, block: int, beyond: list[int], end: np.ndarray, step: int) -> bool:
        """Move one end of a block's window; return False when nothing is left of it."""
        others = end[beyond]
        if len(others):
            end[block] = (
                max(end[block], others.max()) if step > 0 else min(end[block], others.min())
            )
        while self.first[block] <= self.last[block]:
            stage = int(end[block])
            group = [block, *(other for other in beyond if end[other] == stage)]
            if self._possible(group, stage):
                return True
            end[block] += step
        return False

    def _possible(self, group: list[int], stage: int) -> bool:
        """Return whether a device can hold a group, with others that can be in that stage."""
        chain, graph = self.chain, self.chain.graph
        size = sum(chain.size[block] for block in group)
        if graph.hosts and chain.on_host[group].all():
            room = graph.host_memory is None or size <= graph.host_memory
            if room and self.host_work[group].sum() <= self.limit:
                return True
        if not chain.on_payer[group].all() or (graph.memory is not None and size > graph.memory):
            return False
        from .flow import cheapest

        barred = (self.first > stage) | (self.last < stage) | ~chain.on_payer
        if barred[group].any():
            return False
        members = np.array(group, dtype=np.int64)
        return int(cheapest(self.net, members, barred, self.enough)) < self.enough


def _members(bits: int, count: int) -> list[int]:
    return [block for block in range(count) if bits >> block & 1]
