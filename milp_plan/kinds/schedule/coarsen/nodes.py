"""Parts of a quotient: clusters, components that colocation forms, and caps on merges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate


@dataclass
class Node:
    """A cluster of operators.

    Parameters
    ----------
    members
        Positions of its operators in topological order.
    mask, above, below
        Bit sets over operators: its members, everything before them, everything after.
    work
        Device time of its members with their best options, in ticks.
    span
        Time its members take one after the other, in ticks: in the guide, or at best.
    before, after
        Neighbour -> values that flow from or to it.
    sites
        Bit set over sites that admit some choice of it.
    gangs
        Gangs of its choices.
    held_bytes
        At most this lies on its device because of it, besides persistent values.
    group
        One of the colocation groups of its members, all of which are joined.
    batches
        Micro-batches of its members.
    site
        Where the guide runs it; ``None`` without a guide.
    recomputable
        Whether its members may run again.
    """

    members: list[int]
    mask: int
    above: int
    below: int
    work: float
    span: float
    before: dict[int, set[str]]
    after: dict[int, set[str]]
    sites: int
    gangs: frozenset[int]
    held_bytes: int
    group: str | None
    batches: frozenset[int]
    site: tuple[str, ...] | None
    recomputable: bool


@dataclass
class Component:
    """All clusters that colocation puts on one site: groups joined by clusters, or one cluster.

    Parameters
    ----------
    work
        Device time of its operators, in ticks.
    persistent_bytes
        What they keep there for good.
    sites
        Bit set over sites that admit all of them.
    lives
        (first, last, bytes) of each value they make: positions of its maker and last reader.
    """

    work: float
    persistent_bytes: int
    sites: int
    lives: tuple[tuple[int, int, int], ...] = ()

    @classmethod
    def joined(cls, parts: Iterable[Component], sites: int) -> Component:
        """Return several components as one, on one of their common sites."""
        ends = list(parts)
        return cls(
            sum(part.work for part in ends),
            sum(part.persistent_bytes for part in ends),
            sites,
            tuple(life for part in ends for life in part.lives),
        )

    def stash_bytes(self) -> int:
        """Return the largest sum of live values when operators run in topological order."""
        events = [(first, size) for first, _, size in self.lives]
        events += [(last + 1, -size) for _, last, size in self.lives]
        return max(accumulate(size for _, size in sorted(events)), default=0)


@dataclass(frozen=True)
class Caps:
    """Upper limits on the size of a merged cluster.

    Parameters
    ----------
    work, component_work
        Largest device time of a cluster, and of all that is tied to one site, in ticks.
    path
        Longest path through the merged cluster, in ticks.
    memory_bytes
        Largest need of a cluster with all that is tied to its site; ``None`` for no limit.
    strict
        Whether every gang that one of the clusters offers must still be offered, and
        micro-batches stay apart.
    """

    work: float
    component_work: float
    path: float
    memory_bytes: int | None
    strict: bool
