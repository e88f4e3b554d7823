"""Published heuristics: least loaded senders in the given order; random rounds without conflicts.

Source: Zhuang et al., arXiv 2211.05322, section 3 (load-balance-only and randomised greedy); here
for slices of any lengths, so a round begins whenever a card is free again.
"""

from __future__ import annotations

from random import Random

from ..problem import ReshardingPlan, ReshardingProblem
from .indexed import IndexedResharding, Send

LOAD_ONLY, RANDOMISED = "load only", "randomised greedy"

DRAWS, PLANS = 100, 8
"""Number of random conflict-free sets per round, and of plans made of such rounds."""


def load_only(problem: ReshardingProblem, seed: int = 0) -> ReshardingPlan | None:  # noqa: ARG001
    """Send slices in the order of the file, each from the sender with least to send so far."""
    if any(not entry.senders for entry in problem.slices):
        return None
    indexed = IndexedResharding(problem)
    load = [0] * len(problem.cards)
    order: list[Send] = []
    for number, row in enumerate(indexed.sends):
        ticks, sender = min((load[card] + ticks, card) for card, ticks in row)
        load[sender] = ticks
        order.append((number, sender))
    return indexed.plan(order, LOAD_ONLY)


def randomised(problem: ReshardingProblem, seed: int = 0) -> ReshardingPlan | None:
    """Whenever a card is free, send the best of a hundred random conflict-free sets.

    The best one has most slices; of these, one after which no card has much left to do. Of several
    plans made in this way the shortest one is returned.
    """
    if any(not entry.senders for entry in problem.slices):
        return None
    indexed, rng = IndexedResharding(problem), Random(seed)
    best: ReshardingPlan | None = None
    for _ in range(PLANS):
        plan = indexed.plan(_rounds(indexed, rng), RANDOMISED)
        assert plan.value is not None
        if best is None or best.value is None or plan.value < best.value:
            best = plan
    return best


def _rounds(indexed: IndexedResharding, rng: Random) -> list[Send]:
    """Return deliveries in the order in which they leave."""
    waiting = list(range(len(indexed.sends)))
    free = [0] * (2 * len(indexed.cards))
    order: list[Send] = []
    now = 0
    while waiting:
        ready = [
            (number, card)
            for number in waiting
            if all(free[port] <= now for port in indexed.receives[number])
            for card, _ in indexed.sends[number]
            if free[card] <= now
        ]
        for send in _round(indexed, rng, ready, waiting):
            order.append(send)
            waiting.remove(send[0])
            for port in indexed.ports(send):
                free[port] = now + indexed.ticks(send)
        now = min((time for time in free if time > now), default=now)
    return order


def _round(
    indexed: IndexedResharding, rng: Random, ready: list[Send], waiting: list[int]
) -> list[Send]:
    """Draw maximal conflict-free sets of the ready deliveries; return the best."""
    if not ready:
        return []
    load = [0.0] * (2 * len(indexed.cards))
    for number in waiting:
        for port in indexed.receives[number]:
            load[port] += indexed.least[number]
        for card, ticks in indexed.sends[number]:
            load[card] += ticks / len(indexed.sends[number])
    best: list[Send] = []
    key: tuple[float, ...] = (1.0,)
    held_by = [(send, (*indexed.ports(send), -1 - send[0])) for send in ready]
    for _ in range(DRAWS):
        rng.shuffle(held_by)
        taken: set[int] = set()
        chosen: list[Send] = []
        for send, ports in held_by:
            if taken.isdisjoint(ports):
                taken.update(ports)
                chosen.append(send)
        idle = max((load[port] for port in range(len(load)) if port not in taken), default=0.0)
        trial = (-float(len(chosen)), idle)
        if trial < key:
            best, key = chosen, trial
    return best
