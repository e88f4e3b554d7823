"""Lower bounds on the time of resharding."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import islice

from milp_plan.core import ceil_div
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget

from .problem import ReshardingProblem

MAX_SETS = 4_096
"""Largest number of sets of senders that are examined."""


def receiver_bound(problem: ReshardingProblem) -> Bound:
    """Time that the busiest card receives.

    Proof: a card receives one slice at a time, and each of its slices takes at least as long as
    from its fastest sender.
    """
    load = dict.fromkeys(problem.rates, 0)
    for entry in problem.slices:
        for name in entry.receivers:
            load[name] += problem.least_ticks(entry)
    name = max(load, key=load.__getitem__)
    return Bound("receiver", load[name], f"{name} receives one slice at a time")


def sender_bound(problem: ReshardingProblem) -> Bound:
    """Time that any set of cards has to send by itself.

    Proof: let S be a set of cards. A slice whose senders all lie in S is sent by one of S, one at a
    time each, and takes at least as long as from its fastest sender. So some card of S sends at
    least the sum of these times divided by the number of cards, and, since each of n slices is sent
    by one card whole, at least ``ceil(n / |S|)`` of them: the shortest ones at best. Sets that are
    no union of senders of slices say nothing more: without the cards that no such slice has, the
    same slices stay on fewer cards.
    """
    groups: dict[frozenset[str], list[int]] = {}
    for entry in problem.slices:
        if entry.senders:
            groups.setdefault(frozenset(entry.senders), []).append(problem.least_ticks(entry))
    for row in groups.values():
        row.sort()
    sums = {senders: sum(row) for senders, row in groups.items()}
    best = Bound("sender", 0, "nothing is sent")
    for chosen in _unions(set(groups)):
        inside = [senders for senders in groups if chosen.issuperset(senders)]
        number = sum(len(groups[senders]) for senders in inside)
        total, fewest = sum(sums[senders] for senders in inside), ceil_div(number, len(chosen))
        value = ceil_div(total, len(chosen))
        if fewest * total > best.value * number:  # the shortest ones are no longer than the mean
            lengths = merge(*(groups[senders] for senders in inside))
            value = max(value, sum(islice(lengths, fewest)))
        if value > best.value:
            names = ", ".join(sorted(chosen))
            best = Bound("sender", value, f"{number} slices have no sender but {names}")
    return best


def _unions(single: set[frozenset[str]]) -> set[frozenset[str]]:
    """Return unions of senders of slices, up to a limit; that of all of them is one."""
    unions = set(single)
    if single:
        unions.add(frozenset().union(*single))
    fresh = set(single)
    while fresh and len(unions) < MAX_SETS:
        fresh = {a | b for a in fresh for b in single} - unions
        unions |= fresh
    return unions


def resharding_bounds(problem: ReshardingProblem, budget: Budget) -> Iterator[Bound]:
    """Yield bounds that every plan obeys."""
    yield receiver_bound(problem)
    if not budget.over:
        yield sender_bound(problem)


def resharding_obstacle(problem: ReshardingProblem) -> str | None:
    """Return a proof in words that there is no plan; ``None`` without one."""
    lost = [entry for entry in problem.slices if not entry.senders]
    if not lost:
        return None
    size = sum(entry.size for entry in lost)
    return f"no host has {len(lost)} slices of {size} bytes, among them {lost[0].name!r}"
