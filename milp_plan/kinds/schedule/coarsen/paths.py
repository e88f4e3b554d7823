"""Longest paths of a quotient, updated while clusters merge."""

from __future__ import annotations

from collections import deque

from .quotient import Quotient


class Paths:
    """Longest path before and after each cluster, without itself, in ticks.

    Parameters
    ----------
    quotient
        Merged clusters; :meth:`lengthen` is called after each merge.
    """

    def __init__(self, quotient: Quotient) -> None:
        self.quotient = quotient
        self.heads, self.tails = quotient.paths()

    @property
    def longest(self) -> float:
        """Longest path of all, in ticks."""
        return max(self.through(i) for i in self.quotient.nodes)

    def through(self, i: int) -> float:
        """Return the longest path through a cluster, in ticks."""
        return self.heads[i] + self.quotient.nodes[i].span + self.tails[i]

    def lengthen(self, merged: int) -> None:
        """Carry longer paths through a merged cluster on to everything after and before it."""
        quotient, heads, tails = self.quotient, self.heads, self.tails
        queue = deque([merged])
        heads[merged] = max(
            (heads[j] + quotient.way_ticks(j, merged) for j in quotient.nodes[merged].before),
            default=0.0,
        )
        while queue:
            i = queue.popleft()
            for j in quotient.nodes[i].after:
                if heads[i] + quotient.way_ticks(i, j) > heads[j]:
                    heads[j] = heads[i] + quotient.way_ticks(i, j)
                    queue.append(j)
        queue = deque([merged])
        tails[merged] = max(
            (quotient.back_ticks(merged, j) + tails[j] for j in quotient.nodes[merged].after),
            default=0.0,
        )
        while queue:
            i = queue.popleft()
            for j in quotient.nodes[i].before:
                if quotient.back_ticks(j, i) + tails[i] > tails[j]:
                    tails[j] = quotient.back_ticks(j, i) + tails[i]
                    queue.append(j)
