"""Bounds on the largest load under the serial law: all the work, and the costliest class.

They hold with and without contiguity, and where passes count apart: the largest forward plus the
largest backward load is at least the whole load of each device.
"""

from __future__ import annotations

from fractions import Fraction

from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget

from ..serial.graph import SerialGraph
from .conflicts import cuts_of


def work_bound(graph: SerialGraph) -> Bound:
    """All the work over all devices, with classes split at will and transfers left out.

    Proof: under a limit T the hosts take classes whose time there adds up to at most their number
    times T. The work this takes off the payers is at most that of the fractional knapsack, which
    takes classes in the order of work saved per host time; what is left must fit on the payers.
    The least such T, found by bisection on whole ticks, is a bound.
    """
    most = sum(work if work is not None else host or 0 for work, host in _times(graph))
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        if _left(graph, middle * len(graph.hosts)) <= middle * len(graph.payers):
            high = middle
        else:
            low = middle + 1
    detail = f"{len(graph)} classes on {len(graph.payers)} payers and {len(graph.hosts)} hosts"
    return Bound("work", low, detail)


def _times(graph: SerialGraph) -> list[tuple[int | None, int | None]]:
    return list(zip(graph.work, graph.host_work, strict=True))


def _left(graph: SerialGraph, room: int) -> Fraction:
    """Return the least work of payers when hosts have ``room`` ticks; more than all if too few."""
    left = Fraction(sum(work or 0 for work in graph.work))
    room -= sum(host or 0 for work, host in _times(graph) if work is None)
    if room < 0:
        return left + 1 + sum(host or 0 for host in graph.host_work) * max(1, len(graph.payers))
    offers = [(work, host) for work, host in _times(graph) if work and host is not None]
    offers.sort(key=lambda pair: Fraction(pair[0], pair[1]) if pair[1] else pair[0] * 10**9)
    while offers and (room > 0 or not offers[-1][1]):
        work, host = offers.pop()
        if host <= room:
            left -= work
            room -= host
        else:
            left -= Fraction(work * room, host)
            room = 0
    return left


def class_bound(graph: SerialGraph, budget: Budget) -> Bound:
    """The class that costs most wherever it is placed.

    Proof: it is on a host, or on a payer that holds a set with it; the cheapest such set is a
    minimum cut (:mod:`.flow`).

    Raises
    ------
    OutOfTime
        The budget passed.
    """
    cuts = cuts_of(graph)
    best, name = 0, ""
    order = sorted(range(len(graph)), key=lambda number: -(graph.work[number] or 0))
    for number in order:
        host = graph.host_work[number]
        if host is not None and host <= best:
            continue
        budget.check()
        value = host or 0
        if graph.work[number] is not None:
            cost = cuts.ticks(cuts.single(number))
            value = cost if host is None else min(host, cost)
        if value > best:
            best, name = value, graph.members[number][0]
    return Bound("cheapest set", best, f"wherever {name!r} goes, with all that is cheaper along")
