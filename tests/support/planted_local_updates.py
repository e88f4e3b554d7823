"""Planted tiny problems of local updates: each comes with a plan."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from milp_plan.kinds.local_updates.check import verify_local_updates
from milp_plan.kinds.local_updates.problem import LocalUpdatesPlan, LocalUpdatesProblem, Stage


def planted_local_updates(
    seed: int, most: int = 5, stretch: int | None = None
) -> tuple[LocalUpdatesProblem, LocalUpdatesPlan]:
    """Return the instance of a seed and a valid plan of it, which claims its value.

    Parameters
    ----------
    seed
        Equal seeds give equal instances: two to ``most`` stages, one to six micro-batches, a budget
        that pays for the planted cuts and sometimes for more, memory that they may fill.
    stretch
        Power of ten up to which times go; by default 1 for even seeds and 9 for odd ones.
    """
    rng = Random(seed)
    digits = (9 if seed % 2 else 1) if stretch is None else stretch
    top = 10**digits
    names = [f"s{place}" for place in range(rng.randint(2, most))]
    cuts = [name for name in names[:-1] if rng.random() < 0.5]
    batches = rng.randint(1, 6)
    stages = [
        Stage(name, rng.randint(1, top), rng.randint(1, top), rng.randint(0, top // 3), price)
        for name in names
        for price in (rng.randint(0, 3),)
    ]
    if rng.random() < 0.5:
        for place in rng.sample(range(len(names)), rng.randint(1, len(names))):
            end = next((p for p in range(place, len(names)) if names[p] in cuts), len(names) - 1)
            held = min(batches, end - place + 1) + rng.randint(0, 1)
            stages[place] = replace(stages[place], most=held)
    spent = sum(stage.price for stage in stages[:-1] if stage.name in cuts)
    budget = rng.choice([None, spent, spent + rng.randint(0, 3)])
    transfer = rng.choice([0, rng.randint(0, top)])
    name = f"planted-local-updates-{seed}"
    problem = LocalUpdatesProblem(name, tuple(stages), batches, transfer, budget)
    plan = LocalUpdatesPlan(name, tuple(cuts), problem.fingerprint, planner="planted")
    return problem, replace(plan, value=verify_local_updates(problem, plan).value)
