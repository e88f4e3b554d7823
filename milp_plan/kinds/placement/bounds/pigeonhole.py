"""A bound on the largest load by the pigeonhole principle and minimum cuts.

Take classes that are slow on the hosts, more of them than ``q - 1`` for each payer. Either a host
runs one of them, or some payer holds at least q of them, and then no less than the cheapest set
with q of them. Classes that are costly to separate from their neighbours, one for each large
layer of a network, make this sharp: with more layers than devices some device has several.
"""

from __future__ import annotations

import numpy as np

from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget

from ..serial.graph import SerialGraph
from .conflicts import CutNetwork, cuts_of

MAX_CHOICES = 40
"""Largest number of classes considered."""

MAX_FLOWS = 200_000
"""Largest number of flows for one number of classes per payer."""

MAX_EACH = 6
"""Largest number of classes per payer that is tried."""

STEP = 1.02
"""Least host time of a considered class, as a multiple of the best bound so far."""


def pigeonhole_bound(
    graph: SerialGraph, lower: int, budget: Budget, upper: int | None = None
) -> Bound | None:
    """Return the best of these bounds over the number q of classes per payer.

    Proof: let A have more than k (q - 1) classes, k payers. A plan that runs a class of A on a
    host has a load of at least the least host time in A. In any other plan the payers hold A, so
    one of them holds at least q of its classes; its load is at least the cost of the cheapest set
    with q of A (:mod:`.flow`). The bound is the smaller of the two.

    Parameters
    ----------
    lower
        A known bound, which this one should beat.
    upper
        Value of a known plan; classes slower than that on a host are considered.

    Returns
    -------
    Bound or None
        ``None`` when no choice of classes beats ``lower``.

    Raises
    ------
    OutOfTime
        The budget passed.
    """
    slow = max(int(lower * STEP), lower + 1) if upper is None else max(upper, lower + 1)
    cuts = cuts_of(graph)
    chosen = _distant(graph, cuts, slow, budget)
    payers, best = len(graph.payers), None
    for each in range(2, MAX_EACH + 1):
        many = payers * (each - 1) + 1
        if many > len(chosen):
            break
        budget.check()
        cost = _least(cuts, chosen[:many], each)
        hosts = [graph.host_work[number] for number in chosen[:many]]
        slowest = min((ticks for ticks in hosts if ticks is not None), default=None)
        value = cost if slowest is None else min(cost, slowest)
        if value > lower:
            lower = value
            detail = f"one of {payers} payers holds {each} of {many} classes that are slow on hosts"
            best = Bound("pigeonhole", value, detail)
    return best


def _least(cuts: CutNetwork, choice: list[int], each: int) -> int:
    """Return the ticks of the cheapest set with ``each`` classes of the choice; 0 if given up."""
    from .flow import FREE, cheapest_choice

    numbers = np.array(choice, dtype=np.int64)
    units = cheapest_choice(cuts.net, numbers, each, _barred(cuts), FREE // 4, MAX_FLOWS)
    return 0 if units < 0 else cuts.ticks(int(units))


def _barred(cuts: CutNetwork) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array([ticks is None for ticks in cuts.graph.work])


def _distant(graph: SerialGraph, cuts: CutNetwork, slow: int, budget: Budget) -> list[int]:
    """Return classes that hosts run no faster than ``slow``, each far from those before it.

    Far means that the cheapest set with both costs much; the first is the costliest alone. Classes
    that come along with an earlier one at no cost are left out.
    """
    from .flow import FREE, cheapest

    hosts = graph.host_work
    slower = [
        number
        for number, work in enumerate(graph.work)
        if work is not None and (hosts[number] is None or (hosts[number] or 0) >= slow)
    ]
    slower = sorted(slower, key=lambda number: -(graph.work[number] or 0))[:MAX_CHOICES]
    single = {number: cuts.single(number) for number in slower}
    if not slower:
        return []
    chosen = [max(slower, key=single.__getitem__)]
    distance: dict[int, int] = dict.fromkeys(slower, FREE)
    barred = _barred(cuts)
    while True:
        budget.check()
        last = chosen[-1]
        distance.pop(last)
        for number, known in distance.items():
            pair = np.array([last, number], dtype=np.int64)
            cost = int(cheapest(cuts.net, pair, barred, FREE // 4))
            distance[number] = min(known, cost)
        far = [number for number in distance if distance[number] > single[number] * (1 + 1e-6)]
        if not far:
            return chosen
        chosen.append(max(far, key=lambda number: (distance[number], single[number])))
