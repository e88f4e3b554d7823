"""Least memory that is taken when a task of a shop starts, given what may lie before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from milp_plan.kinds.pipeline.shop import Shop

_TOO_MUCH = 1 << 62


class MachineMemory:
    """Memory of one machine.

    The tasks of a micro-batch on a machine that come before a moment are closed under precedence.
    Each such set needs these bytes; micro-batches do not restrict each other here, so the sum of
    their least amounts is a lower bound on what is held.
    """

    def __init__(self, shop: Shop, machine: int) -> None:
        limit = shop.limits[machine]
        assert limit is not None
        self.shop, self.limit = shop, limit
        self.net = {k: shop.kinds[k].alloc - shop.kinds[k].free for k in shop.on_machine[machine]}
        routes: dict[int, list[int]] = {}
        for k in shop.on_machine[machine]:
            routes.setdefault(shop.kinds[k].route, []).append(k)
        self.blocks = [(kinds, _closed(kinds, shop.above)) for kinds in routes.values()]
        self.known: dict[tuple[int, int, int], int] = {}

    def fits(self, kind: int, low: Mapping[int, int], high: Mapping[int, int]) -> bool:
        """Whether a task of a kind may start with between ``low`` and ``high`` tasks before it."""
        held = self.shop.kinds[kind].alloc
        for block, (kinds, _) in enumerate(self.blocks):
            steps = sorted({0, *(low[k] for k in kinds), *(high[k] for k in kinds)})
            for first, after in pairwise(steps):
                must = _mask(first < low[k] for k in kinds)
                if must:
                    can = _mask(first < high[k] for k in kinds)
                    held += (after - first) * self.least(block, must, can)
            if held > self.limit:
                return False
        return True

    def least(self, block: int, must: int, can: int) -> int:
        """Least bytes that one micro-batch holds when it has done at least ``must``."""
        key = (block, must, can)
        if key not in self.known:
            kinds, closed = self.blocks[block]
            held = [
                sum(self.net[k] for n, k in enumerate(kinds) if done >> n & 1)
                for done in closed
                if done & must == must and not done & ~can
            ]
            self.known[key] = min(held, default=_TOO_MUCH)
        return self.known[key]


def _mask(bits: Iterable[bool]) -> int:
    return sum(1 << n for n, bit in enumerate(bits) if bit)


def _closed(kinds: list[int], above: Sequence[int]) -> list[int]:
    """Sets of kinds, as bits, that hold the ancestors of each member; kinds are sorted."""
    found = [0]
    for n, kind in enumerate(kinds):
        wanted = _mask(bool(above[kind] >> a & 1) for a in kinds)
        found += [done | 1 << n for done in found if not wanted & ~done]
    return found
