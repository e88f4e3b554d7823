"""Random tiny problems of address packing, and the lowest packing by every order of buffers."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from random import Random

from milp_plan.kinds.packing.problem import Buffer, PackingProblem


def tight_buffers(seed: int) -> PackingProblem:
    """Draw up to six buffers, sometimes aligned, sometimes with a capacity that may not do."""
    rng = Random(f"buffers {seed}")
    span, most = rng.choice((4, 7, 10**9)), rng.choice((3, 9, 10**10))
    buffers = []
    for number in range(rng.randint(1, 6)):
        lower, upper = sorted(rng.sample(range(-span, span), 2))
        size = rng.randint(1, rng.choice((3, most)))
        buffers.append(Buffer(f"b{number}", lower, upper, size, rng.choice((1, 1, 4, 6))))
    together = sum(buffer.size for buffer in buffers)
    capacity = rng.choice((None, None, together, together * 3 // 4))
    return PackingProblem(f"buffers-{seed}", tuple(buffers), capacity)


def aligned_buffers(seed: int) -> PackingProblem:
    """Draw up to seven buffers; sizes of one magnitude or of all, alignments alike or not."""
    rng = Random(f"packing {seed}")
    span = rng.choice((4, 8, 10**9))
    large, small = rng.choice(((1, 40), (512, 5), (2**20, 5), (10**9 + 7, 9), (10**9, 9)))
    grids = rng.choice(
        ((1,), (1, 2), (1, 2, 4), (3, 8, 1), (5, 3, 8), (256, 512), (512,), (64, 2**20), (4,))
    )
    buffers = []
    for number in range(rng.randint(2, 7)):
        lower, upper = sorted(rng.sample(range(10), 2))
        size = rng.randint(1, small) * large + rng.choice((0, 0, 0, -1, 1, rng.randint(0, 9)))
        if rng.random() < 0.15:
            size = rng.randint(1, 600)
        lower, upper = (time * span // 4 for time in (lower, upper))
        buffers.append(
            Buffer(f"b{number}", lower, max(upper, lower + 1), max(1, size), rng.choice(grids))
        )
    problem = PackingProblem(f"packing-{seed}", tuple(buffers))
    if rng.random() < 0.5:
        return problem
    best = lowest(problem)
    capacity = best + rng.choice((-1, 0, 0, 0, 1, best // 10, -(best // 100)))
    return replace(problem, capacity=max(1, capacity))


def lowest(problem: PackingProblem) -> int:
    """Return the least height over all orders of the buffers, whatever the capacity.

    The lowest packing is a first fit of one: put its buffers down in the order of their offsets,
    each as low as those before it allow, and none ends higher.
    """
    heights = []
    for order in permutations(problem.buffers):
        tops: list[tuple[Buffer, int]] = []
        for buffer in order:
            below = [t for b, t in tops if b.lower < buffer.upper and buffer.lower < b.upper]
            floor = max(below, default=0)
            floor += -floor % buffer.alignment
            tops.append((buffer, floor + buffer.size))
        heights.append(max(top for _, top in tops))
    return min(heights)


def least_height(problem: PackingProblem) -> int | None:
    """Return the least height; ``None`` where it is above the capacity."""
    best = lowest(problem)
    return None if problem.capacity is not None and best > problem.capacity else best
