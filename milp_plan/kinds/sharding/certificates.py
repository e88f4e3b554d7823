"""Proofs from prices and messages, in integers only: a bound, and labels that no good plan takes.

**Proof.** Let prices p (at least 0) be given per row, and any numbers per label of both ends of
every edge (messages). A plan's cost is at least its cost plus what its memory costs less what all
of the rows cost, since what it holds in a row is at most the capacity. Messages are taken from the
entries of an edge and added to its operators' labels; an operator spreads what it then has over its
edges to larger numbers in equal integers and keeps the remainder. Neither changes the sum for any
choice. What is left is a sum of independent minima, one per operator and one per edge: their sum
bounds every plan. A plan with label x of operator i has at least the entry of x in the operator's
own term and the least of x's line in each of its edges, the other terms at their minima; where this
*excess* lifts the bound to a target, no plan below the target takes x (reduced cost fixing).

Prices are rounded to multiples of a power of two first and any prices will do; what a label's
memory costs is rounded down, what the rows cost up.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log2
from typing import TYPE_CHECKING

import numpy as np

from milp_plan.core.compiled import compiled

from .labelling import BAN, Flags, Integers

if TYPE_CHECKING:
    from .messages import Dual, Floats, Messages, MessageTables

_FIRM_BITS = 61
"""Bits of sums of integers in the exact bound."""
_FINEST = 40
"""Largest number of fractional bits of prices."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """A proved bound, and what it implies for labels.

    Parameters
    ----------
    bound
        Lower bound on the cost of all plans.
    total, scale
        The bound without the constant, in units of ``1 / scale``, before it is rounded up.
    excess
        Per label: a plan that takes it costs at least ``(total + excess) / scale + constant``.
    constant
        Constant of the labelling.
    """

    bound: int
    total: int
    scale: int
    excess: Integers
    constant: int

    def possible(self, target: int) -> Flags:
        """Return the labels that a plan of cost below the target may take."""
        room = (target - 1 - self.constant) * self.scale - self.total  # costs are whole
        return np.asarray(self.excess <= min(max(room, -1), BAN - 1))

    def with_label(self, label: int) -> int:
        """Return a bound on plans that take a label (numbered over all operators)."""
        return self.constant - (-(self.total + int(self.excess[label])) // self.scale)


def certify(dual: Dual, prices: Floats) -> Certificate:
    """Return the certificate of a dual's messages at these prices; see the module."""
    b, t = dual.labelling, dual.tables
    memory = float(np.abs(dual.priced(prices) - b.cost).max(initial=0.0))
    if min(_bits(4 * memory), _bits(4 * float(prices.sum()))) < 0:  # any prices will do
        prices, memory = np.zeros(len(prices)), 0.0
    costs = dual.priced(prices)
    real = np.where(np.isfinite(dual.table), np.abs(dual.table), 0.0)
    largest = max(np.abs(dual.forward).max(initial=0.0), np.abs(dual.backward).max(initial=0.0))
    degree = int(np.diff(t.starts).max(initial=1))
    reach = np.abs(costs).max(initial=1.0) + real.max(initial=0.0)
    reach += max(8, degree) * (largest if np.isfinite(largest) else 0.0)
    fine = min(_FINEST, _bits(4 * memory), _bits(4 * float(prices.sum())))
    shift = min(20, fine, max(0, _bits(64 * float(reach))))
    scale = 1 << shift
    grid = np.floor(prices * float(1 << fine)).astype(np.int64)
    whole = b.cost * scale
    _add_memory(t, np.concatenate([[0], np.cumsum(grid)]).astype(np.int64), fine - shift, whole)
    messages = dual.messages._replace(
        forward=_rounded(dual.forward, scale), backward=_rounded(dual.backward, scale)
    )
    excess = np.zeros(len(b.cost), dtype=np.int64)
    high, low = _integer_bound(t._replace(table=b.table), messages, whole, scale, excess)
    paid = sum(p * c for p, c in zip(grid.tolist(), b.capacity.tolist(), strict=True) if p)
    total = int(high) * 2**32 + int(low) + ((-paid) >> (fine - shift))
    return Certificate(b.constant - (-total // scale), total, scale, excess, b.constant)


def _bits(reach: float) -> int:
    """Return the number of fractional bits with which numbers of that size stay exact."""
    return floor(_FIRM_BITS - 1 - log2(max(reach, 1e-300))) if reach < np.inf else 0


def _rounded(messages: Floats, scale: int) -> Integers:
    """Round messages to the grid; any integers are messages, so infinite ones may become 0."""
    rounded = np.rint(np.nan_to_num(messages * scale, nan=0.0, posinf=0.0, neginf=0.0))
    return np.asarray(np.clip(rounded, -(2.0**58), 2.0**58).astype(np.int64))


@compiled
def _add_memory(t: MessageTables, sums: Integers, bits: int, costs: Integers) -> None:
    """Add the costs of the labels' memory, rounded down; ``sums`` are running sums of prices."""
    for i in range(len(t.offsets) - 1):
        width = t.part_offsets[i + 1] - t.part_offsets[i]
        if width == 0:
            continue
        for x in range(t.offsets[i + 1] - t.offsets[i]):
            total = 0
            for p in range(width):
                lo, hi = t.parts[t.part_offsets[i] + p]
                total += t.usage[t.use_offsets[i] + x * width + p] * (sums[hi] - sums[lo])
            costs[t.offsets[i] + x] += total >> bits


@compiled
def _integer_bound(
    t: MessageTables, m: Messages, costs: Integers, scale: int, excess: Integers
) -> tuple[int, int]:
    """Return high and low 32 bits of the sum of minima, in units of 1 / scale; fill the excess.

    Each operator spreads its costs evenly over the edges to larger numbers.
    """
    high, low = 0, 0
    count = len(t.offsets) - 1
    shares = np.zeros(len(costs), dtype=np.int64)
    for i in range(count):
        first, labels = t.offsets[i], t.offsets[i + 1] - t.offsets[i]
        belief = costs[first : first + labels].copy()
        up = 0
        for q in range(t.starts[i], t.starts[i + 1]):
            e = t.edges[q]
            if t.ends[e, 0] == i:
                up += 1
                for x in range(labels):
                    belief[x] += m.backward[m.backward_offsets[e] + x]
            else:
                for x in range(labels):
                    belief[x] += m.forward[m.forward_offsets[e] + x]
        weight = max(1, up, t.starts[i + 1] - t.starts[i] - up)
        for x in range(labels):
            shares[first + x] = belief[x] // weight
            belief[x] -= up * shares[first + x]
        least = belief.min()
        for x in range(labels):
            excess[first + x] += belief[x] - least
        high += least >> 32
        low += least & 0xFFFFFFFF
    for e in range(len(t.ends)):
        a, b = t.ends[e]
        rows, width = t.offsets[a + 1] - t.offsets[a], t.offsets[b + 1] - t.offsets[b]
        by_row = np.full(rows, BAN, dtype=np.int64)
        by_column = np.full(width, BAN, dtype=np.int64)
        for x in range(rows):
            own = shares[t.offsets[a] + x] - m.backward[m.backward_offsets[e] + x]
            for y in range(width):
                entry = t.table[t.table_offsets[e] + x * width + y]
                if entry < BAN:
                    cost = entry * scale + own - m.forward[m.forward_offsets[e] + y]
                    by_row[x] = min(by_row[x], cost)
                    by_column[y] = min(by_column[y], cost)
        least = by_row.min()
        _exceed(by_row, least, excess[t.offsets[a] : t.offsets[a] + rows])
        _exceed(by_column, least, excess[t.offsets[b] : t.offsets[b] + width])
        high += least >> 32
        low += least & 0xFFFFFFFF
    return high, low


@compiled
def _exceed(lines: Integers, least: int, excess: Integers) -> None:
    """Add each line's least entry less the least of all; a line without any is impossible."""
    for x in range(len(lines)):
        if lines[x] >= BAN or excess[x] >= BAN:
            excess[x] = BAN
        else:
            excess[x] += lines[x] - least
