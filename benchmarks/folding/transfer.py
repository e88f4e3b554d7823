"""Powers of a block's transfer matrix in the (min, +) algebra.

``T[x, y, h...]`` is the least cost inside a block whose cut variables take x and y while hubs take
h. Joining blocks is a (min, +) product; m equal blocks need about 2 log2(m) of them.
"""

from __future__ import annotations

from milp_plan.core.sharding import Integers
from milp_plan.elimination.buckets import smallest
from milp_plan.elimination.factors import Scope


class Transfer:
    """Runs of a block, joined by halves.

    Parameters
    ----------
    table
        Costs of one block, axes left, right, hubs.
    wall
        See :class:`~milp_plan.elimination.factors.FactorGraph`; ``None`` without masks.
    """

    def __init__(self, table: Integers, wall: int | None) -> None:
        self._tables = {1: table}
        self._splits: dict[tuple[int, Scope], tuple[int, ...]] = {}
        self._wall = wall
        self.computed = 0

    def power(self, count: int) -> Integers:
        """Costs of this many blocks in a row."""
        if count not in self._tables:
            first, second = self.power(count // 2), self.power(count - count // 2)
            hubs = tuple(range(3, 1 + first.ndim))
            shape = (first.shape[1], first.shape[0], second.shape[1], *first.shape[2:])
            parts = [(first, (1, 0, *hubs)), (second, (0, 2, *hubs))]
            self._tables[count] = smallest(parts, shape, self._wall)
            self.computed += first.size * second.shape[1]
        return self._tables[count]

    def split(self, count: int, ends: Scope) -> tuple[int, ...]:
        """Best values of the cut variables between blocks, given left, right and hubs."""
        if count == 1:
            return ()
        found = self._splits.get((count, ends))
        if found is None:
            half, left, right, hubs = count // 2, ends[0], ends[1], ends[2:]
            first, second = self.power(half)[left], self.power(count - half)[:, right]
            for hub in hubs:
                first, second = first[:, hub], second[:, hub]
            middle = int((first + second).argmin())
            found = (
                *self.split(half, (left, middle, *hubs)),
                middle,
                *self.split(count - half, (middle, right, *hubs)),
            )
            self._splits[count, ends] = found
        return found


def products(count: int) -> int:
    """Number of products that :meth:`Transfer.power` needs."""
    needed, waiting = set(), {count}
    while waiting:
        found = waiting.pop()
        if found > 1 and found not in needed:
            needed.add(found)
            waiting |= {found // 2, found - found // 2}
    return len(needed)
