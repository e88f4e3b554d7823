"""Classes that no payer can hold together when no load is above a limit, by minimum cuts.

Proof: a payer that holds both classes holds a set with both, whose load is at least that of the
cheapest such set (:mod:`.flow`). Classes that conflict with a class are out of its set, so
its cheapest set is searched among the rest; the results of one round sharpen the next. Where the
loads of the two passes count apart, no payer's whole load is above the objective either. Plans
in contiguous parts, or of one call per device, are covered as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from milp_plan.core.view import kept, view

from ..serial.graph import SerialGraph

if TYPE_CHECKING:
    from .flow import Network

RESOLUTION = 1 << 40
"""Integer units of all work together; costs and work are rounded down to units."""

ROUNDS = 4


@dataclass(frozen=True)
class Conflicts:
    """Implications of a limit on the loads.

    Parameters
    ----------
    apart
        Pairs of classes, ascending, that are never on one payer.
    follows
        (class, other): the other is on every payer that holds the class.
    off
        Classes that no payer can hold.
    """

    apart: tuple[tuple[int, int], ...]
    follows: tuple[tuple[int, int], ...]
    off: tuple[int, ...]


@dataclass(frozen=True)
class CutNetwork:
    """The network of a problem, and the conversion of ticks to its units."""

    graph: SerialGraph
    net: Network
    total: int

    def units(self, ticks: int) -> int:
        """Return ticks as units, rounded down."""
        return ticks * RESOLUTION // self.total

    def ticks(self, units: int) -> int:
        """Return units as ticks, rounded so that a bound stays one."""
        return -(-units * self.total // RESOLUTION) if units else 0

    def above(self, cutoff: int) -> int:
        """Return the least number of units that is surely above a cutoff."""
        return self.units(cutoff) + 1

    def single(self, number: int) -> int:
        """Return the units of the cheapest set that contains a class."""
        from .flow import FREE, cheapest

        barred = np.array([ticks is None for ticks in self.graph.work])
        return int(cheapest(self.net, np.array([number]), barred, FREE // 4))


@view
def cuts_of(graph: SerialGraph) -> CutNetwork:
    """Return the network of a problem."""
    from .flow import network

    work = [ticks or 0 for ticks in graph.work]
    total = max(1, sum(work))
    costs = {members: ticks * RESOLUTION // total for members, ticks in graph.merged_nets.items()}
    units = [ticks * RESOLUTION // total for ticks in work]
    small = [(members, min(cost, 64 * RESOLUTION)) for members, cost in costs.items() if cost]
    return CutNetwork(graph, network(units, small), total)


def conflicts(graph: SerialGraph, cutoff: int) -> Conflicts:
    """Return the implications of minimum cuts for plans with loads of at most ``cutoff`` ticks."""
    from .flow import probe

    cuts, count = cuts_of(graph), len(graph)
    limit = cuts.above(cutoff)
    nowhere = np.array([ticks is None for ticks in graph.work])
    least = np.array([cuts.single(number) for number in range(count)], dtype=np.int64)
    apart = np.zeros((count, count), dtype=np.bool_)
    follows: set[tuple[int, int]] = set()
    off = {number for number in range(count) if nowhere[number]}
    status = np.zeros(count, dtype=np.int8)
    for _ in range(ROUNDS):
        fresh = 0
        top = int(least.max(initial=0))
        for number in np.argsort(-least, kind="stable").tolist():
            if number in off or int(least[number]) + top < limit:
                continue  # costs of sets are submodular: two sets together cost no more
            barred = apart[number] | nowhere
            least[number] = probe(cuts.net, number, barred, limit, status)
            if least[number] >= limit:
                off.add(number)
                continue
            new = (status == 1) & ~apart[number]
            fresh += int(new.sum())
            apart[number] |= new
            apart[:, number] |= new
            follows |= {(number, int(other)) for other in np.flatnonzero(status == 2)}
        if not fresh:
            break
    pairs = np.argwhere(np.triu(apart, 1)).tolist()
    return Conflicts(
        tuple((one, two) for one, two in pairs), tuple(sorted(follows)), tuple(sorted(off))
    )


def conflicts_below(graph: SerialGraph, cutoff: int) -> Conflicts:
    """Return :func:`conflicts`, cached."""
    return kept(graph, ("conflicts", cutoff), lambda: conflicts(graph, cutoff))
