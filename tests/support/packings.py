"""Packing problems with a known least height: a memory over time, cut into buffers at random."""

from __future__ import annotations

from random import Random

from milp_plan.kinds.packing.problem import Buffer, PackingProblem

GRAIN = 1024
"""Addresses that sizes are multiples of."""

Rectangle = tuple[int, int, int, int]
"""First and last-plus-one instant, first and last-plus-one address in grains."""


def dissection(
    seed: int, count: int = 300, instants: int = 200, grains: int = 1024, whole: float = 1.0
) -> PackingProblem:
    """Cut a memory of ``grains`` x ``GRAIN`` addresses over ``instants`` into buffers.

    The pieces fill it, so the capacity is the least height as long as one instant stays full.
    Cuts are straight across a piece, or a pinwheel of five pieces that no straight cut takes apart.
    Like the public instances of MiniMalloc, and harder: there few instants are full.

    Parameters
    ----------
    seed
        Of all choices.
    count
        Buffers, about.
    instants, grains
        Size of what is cut.
    whole
        Part of the buffers that keep their size; the others, unless they are alive at the middle
        instant, end earlier or are smaller. With 1 no address is ever free.

    Raises
    ------
    ValueError
        There are fewer cells than buffers.
    """
    if count > instants * grains:
        raise ValueError(f"{count} buffers, but only {instants * grains} cells")
    rng = Random(seed)
    pieces: list[Rectangle] = [(0, instants, 0, grains)]
    while len(pieces) < count:
        at = max(
            rng.sample(range(len(pieces)), min(3, len(pieces))), key=lambda i: _area(pieces[i])
        )
        parts = _cut(rng, pieces[at])
        pieces[at : at + 1] = parts
    rng.shuffle(pieces)
    middle = instants // 2
    buffers = []
    for number, (lower, upper, bottom, top) in enumerate(pieces):
        end, size = upper, top - bottom
        if rng.random() >= whole and not lower <= middle < upper:
            end, size = rng.randint(lower + 1, upper), rng.randint((size + 1) // 2, size)
        buffers.append(Buffer(f"b{number}", lower, end, size * GRAIN))
    name = f"dissection-{count}-{instants}-{round(100 * whole)}-{seed}"
    reported = {"generator": "milp_plan.zoo.packings.dissection", "seed": str(seed)}
    return PackingProblem(name, tuple(buffers), grains * GRAIN, reported)


def _area(piece: Rectangle) -> int:
    lower, upper, bottom, top = piece
    return (upper - lower) * (top - bottom)


def _cut(rng: Random, piece: Rectangle) -> list[Rectangle]:
    """Cut a piece in two or five; a single cell stays."""
    lower, upper, bottom, top = piece
    if upper - lower > 2 and top - bottom > 2 and rng.random() < 0.2:
        a, b = sorted(rng.sample(range(lower + 1, upper), 2))
        c, d = sorted(rng.sample(range(bottom + 1, top), 2))
        return [(lower, b, bottom, c), (b, upper, bottom, d), (a, upper, d, top),
                (lower, a, c, top), (a, b, c, d)]  # fmt: skip
    across = [(upper - lower > 1, True), (top - bottom > 1, False)]
    ways = [in_time for possible, in_time in across if possible]
    if not ways:
        return [piece]
    if rng.choice(ways):
        at = rng.randint(lower + 1, upper - 1)
        return [(lower, at, bottom, top), (at, upper, bottom, top)]
    at = rng.randint(bottom + 1, top - 1)
    return [(lower, upper, bottom, at), (lower, upper, at, top)]
