"""Down-sets of the layers: the possible first parts of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..problem import HybridProblem

_WORD = 64


@dataclass(frozen=True)
class Lattice:
    """A family of down-sets, the largest first, with all layers and the empty set.

    Parameters
    ----------
    sets
        Masks over the layers in ``problem.order``.
    complete
        Whether it contains every down-set.
    """

    sets: tuple[int, ...]
    complete: bool

    def words(self, layers: int) -> npt.NDArray[np.uint64]:
        """Return masks as rows of 64-bit words, the lowest layers first."""
        count = max(1, -(-layers // _WORD))
        mask = (1 << _WORD) - 1
        rows = [[(entry >> (_WORD * i)) & mask for i in range(count)] for entry in self.sets]
        return np.array(rows, np.uint64)


def all_down_sets(problem: HybridProblem, most: int) -> Lattice | None:
    """Return every down-set, or ``None`` when there are more than ``most``."""
    before = _predecessors(problem)
    masks = {0}
    level = {0}
    for _ in before:
        following = set()
        for entry in level:
            for v, needed in enumerate(before):
                if not entry >> v & 1 and needed & ~entry == 0:
                    following.add(entry | 1 << v)
        masks |= following
        if len(masks) > most:
            return None
        level = following
    return Lattice(tuple(sorted(masks, key=lambda s: (-s.bit_count(), s))), True)


def prefixes(problem: HybridProblem) -> Lattice:
    """Return the down-sets along one order that finishes a branch before the next."""
    before = _predecessors(problem)
    order: list[int] = []
    done = 0
    ready = [v for v, needed in enumerate(before) if not needed][::-1]
    while ready:
        v = ready.pop()
        order.append(v)
        done |= 1 << v
        ready += [
            w
            for w, needed in reversed(list(enumerate(before)))
            if needed >> v & 1 and needed & ~done == 0
        ]
    sets = [0]
    for v in order:
        sets.append(sets[-1] | 1 << v)
    return Lattice(tuple(sets[::-1]), len(before) <= 1)


def _predecessors(problem: HybridProblem) -> list[int]:
    """Return masks of the direct predecessors, in ``problem.order``."""
    index = {name: v for v, name in enumerate(problem.order)}
    masks = [0] * len(index)
    for flow in problem.flows:
        masks[index[flow.target]] |= 1 << index[flow.source]
    return masks
