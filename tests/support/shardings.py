"""Random small sharding problems, and their optimum by trying all choices."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np

from milp_plan.core.sharding import ShardingProblem, sharding_problem
from milp_plan.elimination.repeated import CostTable, RepeatedProblem


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


def block_chain(
    seed: int, *, copies: int, hubs: int = 1, masks: float = 0.0, shuffle: bool = True
) -> RepeatedProblem:
    """Equal random blocks in a row between cut operators, with hubs that every block touches.

    Operators are numbered at random, so that nothing but tables and edges shows the blocks.
    """
    draw = random.Random(seed)
    sizes = {kind: draw.randint(2, 3) for kind in ("cut", "hub", "end", "a", "b", "c")}
    inside = [draw.choice("abc") for _ in range(draw.randint(1, 4))]
    kinds = [*["hub"] * hubs, "end"]
    pattern = _pattern(draw, len(inside), hubs)
    edges: list[tuple[int, int, str]] = []
    left = _appended(kinds, "cut")
    edges.append((hubs, left, "end-cut"))
    for _ in range(copies):
        inner = [_appended(kinds, kind) for kind in inside]
        right = _appended(kinds, "cut")
        places = [*range(hubs), left, right, *inner]
        edges += [(places[a], places[b], link) for a, b, link in pattern]
        left = right
    tables = {kind: _table(draw, (size,), masks) for kind, size in sizes.items()}
    links = {}
    for first, second, link in edges:
        shape = (sizes[kinds[first]], sizes[kinds[second]])
        links.setdefault(link, _table(draw, shape, masks))
    order = list(range(len(kinds)))
    if shuffle:
        draw.shuffle(order)
    new = {old: number for number, old in enumerate(order)}
    return RepeatedProblem(
        f"blocks-{seed}",
        tuple(f"{kinds[old]}{old}" for old in order),
        tuple(list(tables).index(kinds[old]) for old in order),
        tuple(tables.values()),
        tuple((new[first], new[second]) for first, second, _ in edges),
        tuple(list(links).index(link) for _, _, link in edges),
        tuple(links.values()),
    )


def _pattern(draw: random.Random, inner: int, hubs: int) -> list[tuple[int, int, str]]:
    """Edges of a block over hubs, left, right and inner ones; a path keeps it connected."""
    left, right = hubs, hubs + 1
    path = [left, *range(hubs + 2, hubs + 2 + inner), right]
    pairs = list(itertools.pairwise(path))
    for first in path:
        for second in [*path, *range(hubs)]:
            if first != second and draw.random() < 0.3:
                pairs.append((first, second))
    return [(a, b, f"{number}") for number, (a, b) in enumerate(pairs)]


def _appended(kinds: list[str], kind: str) -> int:
    kinds.append(kind)
    return len(kinds) - 1


def _table(draw: random.Random, shape: tuple[int, ...], masks: float) -> CostTable:
    count = math.prod(shape)
    cost = np.array([draw.randint(-20, 60) for _ in range(count)], dtype=np.int64).reshape(shape)
    allowed = np.array([draw.random() >= masks for _ in range(count)]).reshape(shape)
    return CostTable(cost, None if allowed.all() else allowed)
