"""Planted tiny problems of resharding: each comes with a plan."""

from __future__ import annotations

from random import Random

from milp_plan.kinds.resharding.problem import (
    Card,
    Delivery,
    ReshardingPlan,
    ReshardingProblem,
    Slice,
)


def planted_resharding(
    seed: int, most: int = 5, stretch: int | None = None
) -> tuple[ReshardingProblem, ReshardingPlan]:
    """Return the instance of a seed and a valid plan of it, which claims its value.

    Parameters
    ----------
    seed
        Equal seeds give equal instances: one to ``most`` slices, two or three cards on each side,
        of which one may stand on both.
    stretch
        Power of ten up to which sizes go; by default 1 for even seeds and 9 for odd ones. Cards
        are equally fast in half of the problems.
    """
    rng = Random(seed)
    digits = (9 if seed % 2 else 1) if stretch is None else stretch
    before = [f"a{i}" for i in range(rng.randint(2, 3))]
    after = [f"b{i}" for i in range(rng.randint(2, 3))]
    rates = [10**9] if rng.random() < 0.5 else [10**9, 3 * 10**9 // 2, 10**10]
    if rng.random() < 0.3:
        after[0] = before[0]
    names = list(dict.fromkeys((*before, *after)))
    cards = tuple(Card(name, rng.choice(rates)) for name in names)
    slices, deliveries, now = [], [], 0
    for number in range(rng.randint(1, most)):
        receivers = tuple(rng.sample(after, rng.randint(1, 2)))
        holders = [name for name in before if name not in receivers]
        senders = tuple(rng.sample(holders, rng.randint(1, len(holders))))
        size = rng.randint(1, 4) if digits == 1 else rng.randint(1, 10 ** rng.randint(1, digits))
        slices.append(Slice(f"s{number}", size, senders, receivers))
    problem = ReshardingProblem(f"planted-resharding-{seed}", cards, tuple(slices))
    for entry in slices:
        sender = rng.choice(entry.senders)
        stop = now + problem.ticks(entry, sender)
        deliveries.append(Delivery(entry.name, sender, now, stop))
        now = stop
    plan = ReshardingPlan(problem.name, tuple(deliveries), problem.fingerprint, now, "planted")
    return problem, plan
