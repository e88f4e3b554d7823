"""Ideals of a chain order as bit sets: all of them, or the prefixes of some orders.

A set of blocks is an ideal if it contains all predecessors of its blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import or_
from random import Random

import numpy as np

from .graph import depth_first_order
from .order import Bits, ChainGraph, bit_set


def all_ideals(chain: ChainGraph, cap: int) -> Bits | None:
    """Return every ideal as a row of bits, or ``None`` if there are more than ``cap``.

    Each ideal but the empty one arises once, from itself without its highest block: blocks are
    numbered along the arcs, so this is an ideal too.
    """
    from .ideal_loops import enumerate_ideals

    before = chain.bits(map(bit_set, chain.before))
    room = min(cap, 1 << 12)
    while True:
        rows = np.zeros((room, before.shape[1]), dtype=np.uint64)
        count = enumerate_ideals(before, len(chain), rows)
        if count >= 0:
            return rows[:count]
        if room >= cap:
            return None
        room = min(cap, 8 * room)


def prefixes(chain: ChainGraph, order: Sequence[int]) -> Bits:
    """Return the prefixes of an order of the blocks, which must respect the arcs."""
    sets = accumulate((1 << block for block in order), or_, initial=0)
    return chain.bits(sets)


def depth_first(chain: ChainGraph, rng: Random | None = None) -> list[int]:
    """Return an order that follows one path as long as the arcs allow.

    Source: the linearisation of Tarnawski et al. (NeurIPS 2020), section 5.1.3.

    Parameters
    ----------
    chain
        Blocks and arcs.
    rng
        Draws among the blocks that may come next; without it the latest free block comes
        first.
    """
    missing = [len(earlier) for earlier in chain.before]
    if rng is None:
        return depth_first_order(missing, chain.after)
    return depth_first_order(missing, chain.after, rng.shuffle)


def level_order(chain: ChainGraph) -> list[int]:
    """Return an order by the number of blocks on the longest path before each."""
    level: list[int] = []
    for earlier in chain.before:
        level.append(1 + max((level[other] for other in earlier), default=-1))
    return sorted(range(len(chain)), key=lambda block: (level[block], block))


def distinct(*parts: Bits) -> Bits:
    """Return the rows of all parts, each once, in a fixed order."""
    return np.unique(np.concatenate(parts), axis=0)
