"""Groups of nodes of an acyclic graph that can run as one: no path leaves one and returns."""

from __future__ import annotations

from collections.abc import Iterable


class Groups:
    """Groups that grow while nodes come in topological order.

    Group ``g`` may take a node unless another group that the node reads from comes after ``g``:
    then ``g`` would wait for itself. Every cycle that a new member could close contains one
    of those groups, since nothing reads from the node yet; so this test is exact.

    Parameters
    ----------
    count
        Number of nodes.
    """

    def __init__(self, count: int) -> None:
        self.of: list[int] = [-1] * count
        """Node -> its group."""
        self.members: list[list[int]] = []
        self._above: list[int] = []  # group -> groups before it, as bits

    def may_join(self, group: int, before: Iterable[int]) -> bool:
        """Return whether a node that reads from the nodes ``before`` can join a group."""
        sources = {self.of[node] for node in before} - {group}
        return all(not self._above[source] >> group & 1 for source in sources)

    def join(self, node: int, group: int, before: Iterable[int]) -> None:
        """Put the next node into a group."""
        self.of[node] = group
        self.members[group].append(node)
        new = self._behind(before, group) & ~self._above[group]
        if not new:
            return
        self._above[group] |= new
        for other, above in enumerate(self._above):
            if above >> group & 1:
                self._above[other] = above | new

    def open(self, node: int, before: Iterable[int]) -> int:
        """Start a group with the next node; return its number."""
        self.members.append([])
        self._above.append(0)
        group = len(self.members) - 1
        self.join(node, group, before)
        return group

    def _behind(self, before: Iterable[int], group: int) -> int:
        """Return the groups of a node's sources and those before them, without its own."""
        bits = 0
        for source in {self.of[node] for node in before} - {group}:
            bits |= self._above[source] | 1 << source
        return bits
