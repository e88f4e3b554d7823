"""Planted tiny sharding problems: each comes with a plan that proves it can be solved.

The plan comes first: strategies are drawn, masks spare them, and the limit is just what they use,
mostly. Edges may be parallel, in both directions, and allow few pairs; costs may be negative.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from milp_plan.core.sharding import ShardingPlan, ShardingProblem, sharding_problem
from milp_plan.kinds.sharding.check import verify_sharding


def planted_sharding(seed: int, stretch: int = 1) -> tuple[ShardingProblem, ShardingPlan]:
    """Return the instance of a seed and a valid plan of it, which claims its value.

    Parameters
    ----------
    seed
        Equal seeds give equal instances: three to six operators of up to four strategies.
    stretch
        Power of which costs are drawn: with 10 they span ten orders of magnitude.
    """
    rng = Random(seed)
    counts = [rng.randint(1, 4) for _ in range(rng.randint(3, 6))]
    chosen = tuple(rng.randrange(count) for count in counts)
    costs = [
        [_entry(rng, stretch, place == picked) for place in range(count)]
        for count, picked in zip(counts, chosen, strict=True)
    ]
    starts = [rng.randint(0, 4) for _ in counts]
    intervals = [(start, start + rng.randint(0, 3)) for start in starts]
    intervals[0] = (starts[0], starts[0] + 1)  # so that without memory there is no plan
    edges = {}
    for _ in range(rng.randint(1, 2 * len(counts))):
        a, b = rng.sample(range(len(counts)), 2)
        edges[a, b] = [
            [_entry(rng, stretch, (s, t) == (chosen[a], chosen[b])) for t in range(counts[b])]
            for s in range(counts[a])
        ]
    problem = sharding_problem(
        f"planted-sharding-{seed}",
        costs,
        usages=[[rng.randint(1, 9) for _ in range(count)] for count in counts],
        intervals=intervals,
        edges=edges,
    )
    verdict = verify_sharding(problem, ShardingPlan(problem.name, chosen))
    if rng.random() < 0.8:
        problem = replace(problem, limit=verdict.components["peak_usage"])
    return problem, ShardingPlan(
        problem.name, chosen, problem.fingerprint, verdict.value, "planted"
    )


def _entry(rng: Random, stretch: int, spared: bool) -> int | None:
    """Draw a cost, or a mask where it does not hit the plan."""
    if not spared and rng.random() < 0.2:
        return None
    return rng.choice([0, 1, 1, 1, -1]) * int(rng.randint(1, 9) ** rng.randint(1, stretch))
