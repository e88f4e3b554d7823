"""Enumeration for problems of resharding; it shares no code with planners, models and bounds."""

from __future__ import annotations

from itertools import permutations, product

from milp_plan.core import ceil_div
from milp_plan.kinds.resharding.problem import ReshardingProblem


def least(problem: ReshardingProblem) -> int | None:
    """Return the least makespan over all senders and all orders; ``None`` where nobody sends."""
    if any(not entry.senders for entry in problem.slices):
        return None
    rates = {card.name: card.bytes_per_s for card in problem.cards}
    best = None
    for senders in product(*(entry.senders for entry in problem.slices)):
        tasks = []
        for entry, sender in zip(problem.slices, senders, strict=True):
            rate = min(rates[name] for name in (sender, *entry.receivers))
            held = {(sender, "out"), *((name, "in") for name in entry.receivers)}
            tasks.append((ceil_div(entry.size * 10**9, rate), held))
        for order in permutations(tasks):
            free: dict[tuple[str, str], int] = {}
            for length, held in order:
                stop = max(free.get(port, 0) for port in held) + length
                free.update(dict.fromkeys(held, stop))
            end = max(free.values(), default=0)
            best = end if best is None else min(best, end)
    return best
