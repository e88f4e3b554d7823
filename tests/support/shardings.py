"""Random small sharding problems, and their optimum by trying all choices."""

from __future__ import annotations

import itertools
import random

from milp_plan.core.sharding import ShardingProblem, sharding_problem


def random_sharding(
    seed: int, *, operators: int = 6, strategies: int = 3, density: float = 0.5, masks: float = 0.1
) -> ShardingProblem:
    """Costs may be negative; edges may be parallel in both directions; usages overlap."""
    draw = random.Random(seed)

    def entry() -> int | None:
        return None if draw.random() < masks else draw.randint(-20, 60)

    sizes = [draw.randint(1, strategies) for _ in range(operators)]
    pairs = itertools.permutations(range(operators), 2)
    chosen = [pair for pair in pairs if draw.random() < density / 2]
    starts = [draw.randint(0, 4) for _ in sizes]
    return sharding_problem(
        f"random-{seed}",
        [[entry() for _ in range(size)] for size in sizes],
        usages=[[draw.randint(0, 9) for _ in range(size)] for size in sizes],
        intervals=[(start, start + draw.randint(0, 3)) for start in starts],
        edges={
            (a, b): [[entry() for _ in range(sizes[b])] for _ in range(sizes[a])] for a, b in chosen
        },
    )


def optimum(problem: ShardingProblem) -> int | None:
    """Smallest cost within the masks, whatever the limit; ``None`` if nothing is allowed."""
    s = problem.strategies
    tables = [problem.table(edge) for edge in range(len(problem.transitions))]
    best = None
    for chosen in itertools.product(*(range(count) for count in s.counts.tolist())):
        rows = [int(s.offsets[number]) + pick for number, pick in enumerate(chosen)]
        allowed = all(s.allowed[row] for row in rows)
        cost = sum(int(s.cost[row]) for row in rows)
        for (first, second), (table, mask) in zip(
            problem.transitions.ends.tolist(), tables, strict=True
        ):
            allowed = allowed and bool(mask[chosen[first], chosen[second]])
            cost += int(table[chosen[first], chosen[second]])
        if allowed and (best is None or cost < best):
            best = cost
    return best
