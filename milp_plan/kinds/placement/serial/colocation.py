"""Classes that share a device in some best plan (without contiguity).

Rule. Let classes a and b, in each pass that counts by itself, satisfy

    work of b + cost of b's nets without a  <=  cost of the nets that join a and b alone,

let b run on payers, let a be barred from hosts (it cannot run there, or takes longer there than
the cutoff), and let b have no bytes, or all bytes fit on one payer. Then among the plans whose
loads are at most the cutoff, if there are any, some best one has b on a's device.

Proof. Take a best plan and move b from D' to the payer D of a. Nets with a third class outside
both keep or lose their charges: a net of a and b is charged to D already, and at D' it can only
lose its charge, since D' never held a. So D pays at most b's work and its nets without a more, and
the nets of a and b alone less: not more than before. D', if it pays, is rid of b's work and of the
nets of a and b alone, and gains at most the charge of b's nets without a, which it may have held
whole: again not more than before, by the same inequality. Any other device holds what it held, and
never a whole net of b, before or after. The largest load, or the sum of the largest loads of two
passes, does not grow. A group of classes that share their device is a class again, with the nets
between its members gone; so the rule can be applied to groups until it finds no more.

Source: this project.
"""

from __future__ import annotations

from milp_plan.core import Passes

from .graph import SerialGraph

Costs = tuple[int, int]
"""Ticks of the two passes; where they count jointly, of both together, and 0."""


def colocated(graph: SerialGraph, cutoff: int | None = None) -> tuple[tuple[int, ...], ...]:
    """Return groups of two or more classes that share a device in some best plan.

    In a plan of value at most the cutoff all of a group can move to its first class; no load
    that counts grows.

    Parameters
    ----------
    graph
        A problem without contiguity.
    cutoff
        Value of a known plan: classes that take longer on a host are not on a host in plans that
        are as good.
    """
    groups = _Groups(graph, cutoff)
    while groups.join_once():
        pass
    return tuple(tuple(group) for group in groups.members.values() if len(group) > 1)


class _Groups:
    """Groups of classes, and nets between them; a group is named by its first class."""

    def __init__(self, graph: SerialGraph, cutoff: int | None) -> None:
        apart = graph.law.passes is Passes.SEPARATE
        count = range(len(graph))
        self.members: dict[int, list[int]] = {number: [number] for number in count}
        self.work: dict[int, Costs | None] = {}
        self.barred: dict[int, bool] = {}
        for number in count:
            whole, later = graph.work[number], graph.backward_work[number] if apart else 0
            self.work[number] = None if whole is None else (whole - later, later)
            ticks = graph.host_work[number]
            self.barred[number] = ticks is None or (cutoff is not None and ticks > cutoff)
        limit = graph.memory
        self.roomy = limit is None or sum(graph.size) <= limit
        self.size = dict(enumerate(graph.size))
        self.nets: dict[frozenset[int], Costs] = {}
        for net in graph.nets:
            cost = (0, net.ticks) if apart and net.backward else (net.ticks, 0)
            self.add(frozenset((net.source, *net.readers)), cost)

    def add(self, pins: frozenset[int], cost: Costs) -> None:
        """Add the cost of a net between groups."""
        if len(pins) > 1 and any(cost):
            known = self.nets.get(pins, (0, 0))
            self.nets[pins] = known[0] + cost[0], known[1] + cost[1]

    def join_once(self) -> bool:
        """Join all pairs that do not touch each other; return False if there is none."""
        around: dict[int, list[frozenset[int]]] = {number: [] for number in self.members}
        for pins in self.nets:
            for number in pins:
                around[number].append(pins)
        touched: set[int] = set()
        home: dict[int, int] = {}
        for number, nets in around.items():
            for pins in nets:
                other = next(iter(pins - {number})) if len(pins) == 2 else number
                if other == number or touched & {number, other}:
                    continue
                if self.follows(number, other, nets):
                    home[number] = other
                    touched |= frozenset({number}).union(*nets)
                    break
        self.join(home)
        return bool(home)

    def follows(self, number: int, other: int, nets: list[frozenset[int]]) -> bool:
        """Return whether a group may join another one."""
        work, pair = self.work[number], self.nets[frozenset((number, other))]
        if work is None or not self.barred[other] or (self.size[number] and not self.roomy):
            return False
        for turn in (0, 1):
            rest = sum(self.nets[pins][turn] for pins in nets if other not in pins)
            if work[turn] + rest > pair[turn]:
                return False
        return True

    def join(self, home: dict[int, int]) -> None:
        """Join groups to others; none of the others is joined to a third."""
        for number, other in home.items():
            self.members[other] += self.members.pop(number)
            self.size[other] += self.size[number]
            one, two = self.work[number], self.work[other]
            self.work[other] = (
                None if one is None or two is None else (one[0] + two[0], one[1] + two[1])
            )
        old, self.nets = self.nets, {}
        for pins, cost in old.items():
            self.add(frozenset(home.get(number, number) for number in pins), cost)
