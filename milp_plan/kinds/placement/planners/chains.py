r"""Best chain of given ideals: exact where all ideals are given.

A plan under the chain law is a chain of ideals {} = I_0 < I_1 < ... < I_m = everything; device j
runs I_j without I_(j-1). What that takes follows from the two ideals alone: with w the work and
X(I) the nets with pins on both sides of I,

    load = w(J) - w(I) + c(X(I)) + c(X(J)) - sum of (1 + [no pin in J without I]) c_e over the
           nets e in both X(I) and X(J).

Proof. A paying device is charged c_e for each net with a pin in S = J \ I and a pin outside S,
once: outgoing if the producer is inside, incoming if not. Such a net has pins on both sides of I
or of J. One that is in X(I) only has all its pins in J, so some in S; one that is in X(J) only has
no pin in I, so its pins in J are in S: both are charged, and counted once. One in both has a pin
in I and one outside J; it is charged if it has a pin in S, and the formula leaves 2 - 1 or 2 - 2.

Labels of an ideal, by number of payers and of hosts used, are pairs (largest forward load, largest
backward load); those that others are as good as in both are dropped, which is exact since a chain
from there on adds maxima. With one pass for all (``Passes.JOINT``) there is one label.

Windows: let v be the value of a known plan. In a better one no device has a load of v or more, so
after j payers and h hosts the ideal's work on payers is at most j v + A(h v), where A(t) is the
most payer work that hosts can take in time t (fractional knapsack by the ratio), and what is left
at most (K - j) v + A((H - h) v); bytes likewise with the memory.

Source: dynamic programming over ideals is Tarnawski et al. (NeurIPS 2020), section 5.1.1; the
windows, the incremental loads and the pairs of maxima are this project's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import Passes
from milp_plan.core.budget import now

from ..serial.order import Bits, ChainGraph, bit_set, unpacked
from ..serial.windows import MARGIN, most_within

if TYPE_CHECKING:
    from .chain_loops import Devices, Labels, Lattice

Floats = NDArray[np.float64]

STEPS = 2**40
"""Whole steps that all work is divided into, for sorting."""

ROWS = 8192
"""Number of ideals that are unpacked at a time."""

FEW_LABELS, MAX_LABELS = 1 << 16, 4_000_000
TURN_S = 0.2
"""Seconds between two readings of the clock."""


@dataclass(frozen=True)
class ChainResult:
    """Result of a search over chains.

    Parameters
    ----------
    devices
        Device of each block, payers first; ``None`` if there is nothing below the limit.
    value
        Value in units of the order's tables.
    complete
        Whether every chain of the given ideals was covered.
    ideals
        Number of ideals inside the windows.
    """

    devices: list[int] | None
    value: float | None
    complete: bool
    ideals: int


def best_chain(
    chain: ChainGraph,
    ideals: Bits,
    below: float | None = None,
    go_on: Callable[[], bool] = lambda: True,
) -> ChainResult:
    """Return the best plan whose ideals are among the given ones.

    Parameters
    ----------
    chain
        Blocks, arcs and nets.
    ideals
        Rows of bits, distinct, the empty set and the set of all blocks among them.
    below
        Limit: only values below it are searched.
    go_on
        Called regularly; ``False`` ends the search early.
    """
    return _ChainSearch(chain, ideals, below).run(go_on)


class _ChainSearch:
    """Tables of one search."""

    def __init__(self, chain: ChainGraph, ideals: Bits, below: float | None) -> None:
        self.chain = chain
        self.payers, self.hosts = len(chain.graph.payers), len(chain.graph.hosts)
        joint = chain.graph.law.passes is Passes.JOINT
        self.work, self.host_work = _passes(chain.work, joint), _passes(chain.host_work, joint)
        self.cost = _passes(chain.cost, joint)
        most = self.work.sum() + self.host_work.sum() + 2 * self.cost.sum() * (self.payers + 1)
        self.limit = most + 1.0 if below is None else below
        self.sizes = np.array(chain.size, dtype=np.int64)
        self.windows = self._windows()
        self._sort(ideals)
        states = (self.payers + 1) * (self.hosts + 1)
        self.labels = _first_label(len(self.bits), states, self.limit)

    def _windows(self) -> Floats:
        """Return least and most work and bytes of an ideal, by payers and hosts before it."""
        work = self.work.sum(axis=1)
        total, size = work.sum(), float(self.sizes.sum())
        memory = self.chain.graph.memory
        each = size if memory is None else float(memory)
        rows = []
        for payers in range(self.payers + 1):
            for hosts in range(self.hosts + 1):
                rest = self.hosts - hosts
                room = payers * self.limit + self._taken(work, hosts)
                left = (self.payers - payers) * self.limit + self._taken(work, rest)
                held = payers * each + self._taken(self.sizes.astype(float), hosts)
                other = (self.payers - payers) * each + self._taken(self.sizes.astype(float), rest)
                slack = MARGIN * total
                rows.append(
                    (
                        total - left - slack,
                        room + slack,
                        size - other - MARGIN * size,
                        held + MARGIN * size,
                    )
                )
        return np.array(rows, dtype=np.float64)

    def _taken(self, amount: Floats, hosts: int) -> float:
        """Return the most of an amount that ``hosts`` hosts can take."""
        if not hosts:
            return 0.0
        there = self.host_work.sum(axis=1)
        return most_within(amount, there, self.chain.on_host, hosts * self.limit)

    def _sort(self, ideals: Bits) -> None:
        """Select the ideals that some window admits, in order of their work."""
        chain = self.chain
        work = self.work.sum(axis=1)
        self.step = float(work.sum()) / STEPS or 1.0
        steps = np.floor(work / self.step).astype(np.int64)
        columns = np.column_stack(
            (self.work, self.host_work, ~chain.on_payer, ~chain.on_host, np.ones(len(chain)))
        ).astype(np.float64)
        low, high, least, most = self.windows.T
        parts = []
        for first in range(0, len(ideals), ROWS):
            rows = ideals[first : first + ROWS]
            member = unpacked(rows, len(chain)).astype(np.int64)
            table = member.astype(np.float64) @ columns
            size = member @ self.sizes
            amount = (table[:, 0] + table[:, 1])[:, None]
            inside = (amount >= low) & (amount <= high)
            inside &= (size[:, None] >= least) & (size[:, None] <= most)
            ends = (table[:, 6] == 0) | (table[:, 6] == len(chain))
            admitted = inside.any(axis=1) | ends
            parts.append(
                (rows[admitted], (member @ steps)[admitted], size[admitted], table[admitted])
            )
        bits, key, size, table = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.lexsort((table[:, 6], key))  # the set of all blocks comes last
        self.bits, self.key, self.size = bits[order], key[order], size[order]
        self.table = np.ascontiguousarray(table[order, :6])

    def run(self, go_on: Callable[[], bool]) -> ChainResult:
        """Extend labels from the empty set up, until all are done or ``go_on`` is false."""
        from .chain_loops import extend_chains

        lattice, devices, count = self._lattice(), self._devices(), len(self.bits)
        at, turn = 0, 64
        while at < count and go_on():
            began = now()
            reached = int(extend_chains(lattice, devices, self.labels, at, min(count, at + turn)))
            if reached < 0:
                at = -1 - reached
                if len(self.labels.values) >= MAX_LABELS:
                    break
                self.labels = _with_room(self.labels, 4 * len(self.labels.values))
                continue
            at = reached
            turn = 2 * turn if now() - began < TURN_S else max(1, turn // 2)
        return self._answer(at >= count)

    def _lattice(self) -> Lattice:
        """Return the ideals with the nets that cross them."""
        from ..serial.ideal_loops import crossing_nets
        from .chain_loops import Lattice

        count = len(self.bits)
        start = np.zeros(count + 1, dtype=np.int64)
        pins = self.chain.bits(map(bit_set, self.chain.pins))
        nets = np.zeros(64 * count, dtype=np.int32)
        found = crossing_nets(self.bits, pins, start, nets)
        if found > len(nets):
            nets = np.zeros(found, dtype=np.int32)
            crossing_nets(self.bits, pins, start, nets)
        owner = np.repeat(np.arange(count), np.diff(start))
        costs = [np.bincount(owner, self.cost[nets[:found], i], minlength=count) for i in (0, 1)]
        crossing = np.column_stack(costs).astype(np.float64)
        return Lattice(
            self.bits, self.key, self.table, self.size, crossing, start, nets, pins, self.cost
        )

    def _devices(self) -> Devices:
        """Return numbers of devices, memories, windows, and steps of work no device can take."""
        from .chain_loops import Devices

        graph = self.chain.graph
        work, there = self.work.sum(axis=1), self.host_work.sum(axis=1)
        most = self.limit
        if self.hosts:
            most = max(most, self._taken_by_one(work, there))
        total = int(self.sizes.sum()) + 1
        memory = (
            total if graph.memory is None else graph.memory,
            total if graph.host_memory is None else graph.host_memory,
        )
        steps = int(min(most / self.step + len(work) + 2, 2.0**62))
        return Devices((self.payers, self.hosts), memory, self.windows, steps)

    def _taken_by_one(self, work: Floats, there: Floats) -> float:
        """Return the most payer work of a set that one host takes in less than the limit."""
        can = self.chain.on_host
        free = float(work[can & (there <= 0)].sum())
        busy = can & (there > 0)
        ratio = float((work[busy] / there[busy]).max(initial=0.0))
        return (free + ratio * self.limit) * (1 + MARGIN)

    def _answer(self, complete: bool) -> ChainResult:
        count = len(self.bits)
        best: tuple[float, int, int] | None = None
        for state in range(self.labels.head.shape[1]):
            label = int(self.labels.head[count - 1, state])
            while label >= 0:
                value = float(self.labels.values[label].sum())
                if count > 1 and (best is None or value < best[0]):
                    best = value, label, state
                label = int(self.labels.following[label])
        if best is None:
            return ChainResult(None, None, complete, count)
        return ChainResult(self._device_of_each(best[1], best[2]), best[0], complete, count)

    def _device_of_each(self, label: int, state: int) -> list[int]:
        """Return the devices of the blocks along the chain that ends with a label."""
        devices = [0] * len(self.chain)
        now = len(self.bits) - 1
        while self.labels.origin[label, 0] >= 0:
            old, before, earlier = (int(entry) for entry in self.labels.origin[label])
            host = state - before == 1 and self.hosts > 0
            at_payers, at_hosts = divmod(before, self.hosts + 1)
            device = self.payers + at_hosts if host else at_payers
            difference = self.bits[now] & ~self.bits[old]
            for block in np.flatnonzero(unpacked(difference[None], len(self.chain))[0]):
                devices[block] = device
            label, state, now = earlier, before, old
        return devices


def _first_label(ideals: int, states: int, limit: float) -> Labels:
    """Return one label: nothing on no device."""
    from .chain_loops import Labels

    head = np.full((ideals, states), -1, dtype=np.int32)
    head[0, 0] = 0
    labels = Labels(
        head,
        np.zeros((1, 2)),
        np.full(1, -1, dtype=np.int32),
        np.full((1, 3), -1, dtype=np.int64),
        np.ones(1, dtype=np.int64),
        np.array([limit]),
    )
    return _with_room(labels, FEW_LABELS)


def _with_room(labels: Labels, room: int) -> Labels:
    """Return the labels with a larger capacity, at most ``MAX_LABELS``."""
    more = min(room, MAX_LABELS) - len(labels.values)
    return labels._replace(
        values=np.concatenate((labels.values, np.zeros((more, 2)))),
        following=np.concatenate((labels.following, np.full(more, -1, dtype=np.int32))),
        origin=np.concatenate((labels.origin, np.zeros((more, 3), dtype=np.int64))),
    )


def _passes(table: Floats, joint: bool) -> Floats:
    """Return both passes apart, or together in the first column."""
    if not joint:
        return np.ascontiguousarray(table)
    return np.column_stack((table.sum(axis=1), np.zeros(len(table))))
