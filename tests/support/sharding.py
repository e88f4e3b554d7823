"""Random sharding problems, and their optimum by looking at every plan."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from milp_plan.core.sharding import ShardingPlan, ShardingProblem, sharding_problem
from milp_plan.kinds.sharding.check import verify_sharding


def random_problem(seed: int, operators: int = 6, most: int = 4) -> ShardingProblem:
    """Draw a problem with masks, memory, parallel, separable and functional tables."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, operators + 1))
    labels = [int(rng.integers(1, most + 1)) for _ in range(count)]
    costs = [[_maybe(rng, 0.05, 20) for _ in range(n)] for n in labels]
    usages = [[int(rng.integers(0, 10)) for _ in range(n)] for n in labels]
    intervals = []
    for _ in range(count):
        start = int(rng.integers(0, 8))
        intervals.append((start, start + int(rng.integers(-1, 6))))
    edges = {}
    for _ in range(int(rng.integers(0, 2 * count))):
        a, b = (int(x) for x in rng.choice(count, 2, replace=False))
        edges[a, b] = _table(rng, labels[a], labels[b])
    limit = None if rng.random() < 0.15 else int(rng.integers(3, 9 * count))
    return sharding_problem(
        f"random-{seed}", costs, usages=usages, intervals=intervals, edges=edges, limit=limit
    )


def _maybe(rng: np.random.Generator, ban: float, top: int) -> int | None:
    return None if rng.random() < ban else int(rng.integers(0, top))


def _table(rng: np.random.Generator, rows: int, width: int) -> list[list[int | None]]:
    kind = rng.random()
    if kind < 0.25:
        own, other = rng.integers(0, 9, rows), rng.integers(0, 9, width)
        return [[int(x + y) for y in other] for x in own]
    if kind < 0.55:
        partner = rng.integers(0, rows, width)
        return [
            [int(rng.integers(0, 9)) if partner[y] == x else None for y in range(width)]
            for x in range(rows)
        ]
    return [[_maybe(rng, 0.25, 12) for _ in range(width)] for _ in range(rows)]


def optimum(problem: ShardingProblem) -> int | None:
    """Return the least cost of any plan, ``None`` if there is none."""
    best: int | None = None
    for chosen in itertools.product(*(range(int(n)) for n in problem.strategies.counts)):
        verdict = verify_sharding(problem, ShardingPlan(problem.name, tuple(chosen)))
        if verdict.ok and verdict.value is not None:
            best = verdict.value if best is None else min(best, verdict.value)
    return best


def tense_problem(seed: int) -> ShardingProblem:
    """Draw a problem whose cheap strategies use more; costs of either sign and of any size."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 8))
    labels = [int(rng.integers(1, 5)) for _ in range(count)]
    unit = 10 ** int(rng.choice([0, 0, 3, 9, 15]))
    low, high = -20 * unit, int(rng.choice([0, 2, 20 * unit]))
    costs = [np.sort(rng.integers(low, high + 1, n)).tolist() for n in labels]
    usages = [np.sort(rng.integers(0, 10, n))[::-1].tolist() for n in labels]
    starts = [int(rng.integers(0, 4)) for _ in labels]
    edges = {}
    for _ in range(int(rng.integers(0, 2 * count))):
        a, b = (int(x) for x in rng.choice(count, 2, replace=False))
        least = low if rng.random() < 0.5 else 0
        pairs = rng.integers(least, 20 * unit + 1, (labels[a], labels[b]))
        banned = rng.random(pairs.shape) < rng.choice([0.1, 0.5])
        if rng.random() < 0.3:  # partners
            banned = rng.permuted(np.eye(*pairs.shape), axis=0) == 0
        edges[a, b] = [
            [None if ban else cost for cost, ban in zip(*row, strict=True)]
            for row in zip(pairs.tolist(), banned.tolist(), strict=True)
        ]
    return sharding_problem(
        f"tense-{seed}",
        costs,
        usages=usages,
        intervals=[(start, start + int(rng.integers(1, 6))) for start in starts],
        edges=edges,
        limit=int(rng.integers(2 * count, 6 * count)),
    )


def with_large_sizes(problem: ShardingProblem, seed: int) -> ShardingProblem:
    """Return the problem with usages up to 10^10, some a little more, and a limit like them."""
    rng = np.random.default_rng(seed)
    size = int(rng.choice([4096, 10**9 + 7]))
    usage = problem.strategies.usage * size
    usage += np.where(usage > 0, rng.integers(0, 3, len(usage)), 0)
    limit = None if problem.limit is None else problem.limit * size + int(rng.integers(0, 4))
    strategies = replace(problem.strategies, usage=usage)
    return replace(problem, name=f"large-{problem.name}", strategies=strategies, limit=limit)


def least_cost(problem: ShardingProblem) -> int | None:
    """Return the least cost of any plan by tables over all choices; shares no code with others."""
    s, counts = problem.strategies, problem.strategies.counts.tolist()
    chosen = np.indices(counts).reshape(len(counts), -1)
    rows = chosen + s.offsets[:-1, None]
    cost, fits = s.cost[rows].sum(axis=0), s.allowed[rows].all(axis=0)
    for edge, (a, b) in enumerate(problem.transitions.ends.tolist()):
        table, mask = problem.table(edge)
        cost = cost + table[chosen[a], chosen[b]]
        fits &= mask[chosen[a], chosen[b]]
    for instant in range(int(problem.intervals.max())):
        held = [start <= instant < stop for start, stop in problem.intervals.tolist()]
        if problem.limit is not None:
            fits &= s.usage[rows][held].sum(axis=0) <= problem.limit
    return int(cost[fits].min()) if fits.any() else None


def layered(
    seed: int, layers: int, width: int = 4, strategies: int = 4, slack: float = 0.3
) -> ShardingProblem:
    """Draw a layered graph of repeated blocks, as the compiler's graphs are, with a tight limit."""
    rng = np.random.default_rng(seed)
    block = [rng.integers(0, 1000, strategies).tolist() for _ in range(width)]
    used = [np.sort(rng.integers(1, 100, strategies))[::-1].tolist() for _ in range(width)]
    tables = [_reshard(rng, strategies) for _ in range(width)]
    costs, usages, intervals, edges = [], [], [], {}
    for layer in range(layers):
        for place in range(width):
            number = layer * width + place
            costs.append(block[place])
            usages.append(used[place])
            long = place == 0 and layer % 5 == 0
            intervals.append((number, number + (3 * width if long else width)))
            if place:
                edges[number - 1, number] = tables[place]
            if layer:
                edges[number - width, number] = tables[0]
    least = _peak(intervals, [min(row) for row in usages])
    most = _peak(intervals, [max(row) for row in usages])
    limit = int(least + slack * (most - least))
    return sharding_problem(
        f"layered-{seed}-{layers}",
        costs,
        usages=usages,
        intervals=intervals,
        edges=edges,
        limit=limit,
    )


def _reshard(rng: np.random.Generator, size: int) -> list[list[int | None]]:
    table: list[list[int | None]] = [
        [0 if x == y else int(rng.integers(100, 900)) for y in range(size)] for x in range(size)
    ]
    table[size - 1][0] = None
    return table


def _peak(intervals: list[tuple[int, int]], usages: list[int]) -> int:
    change = np.zeros(max(stop for _, stop in intervals) + 1, dtype=np.int64)
    for (start, stop), used in zip(intervals, usages, strict=True):
        change[start] += used
        change[stop] -= used
    return int(change.cumsum().max())
