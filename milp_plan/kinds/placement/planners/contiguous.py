"""Contiguous throughput: heuristics on a few ideals, and the exact programme on all of them.

Source: Tarnawski et al. (NeurIPS 2020), sections 5.1.1 (ideals) and 5.1.3 (linearisation); the
union of several linear orders and the walks around a plan's ideals are this project's.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from random import Random

from ..serial.contraction import contracted
from ..serial.graph import SerialGraph
from ..serial.ideals import all_ideals, depth_first, distinct, level_order, prefixes
from ..serial.order import Bits, ChainGraph, chain_graph
from ..serial.value import bottleneck
from ..serial.windows import MARGIN
from .chains import ChainResult, best_chain

MAX_IDEALS = 400_000
"""Largest number of ideals for which the exact programme is tried."""

ORDERS = 8
"""Number of random orders whose prefixes are searched together."""

WALKS, STEPS = 24, 12
"""Number of random walks from each ideal of the best plan, and their length."""

STALE = 30
"""``ContiguousSearch.wide`` gives up after this many rounds without a better plan."""


class ContiguousSearch:
    """Best plan so far of a problem under the chain law, and its proved bound.

    Parameters
    ----------
    graph
        The problem, with objective bottleneck.
    seed
        Seed of the random orders.
    go_on
        Called regularly; ``False`` ends the current search.

    Attributes
    ----------
    places, value
        Device of each class in the best plan, and its exact value in ticks; ``None`` without one.
    bound
        Lower bound in ticks; 0 while nothing is proved.
    proved_infeasible
        Whether it is proved that there is no plan.
    """

    def __init__(
        self, graph: SerialGraph, seed: int = 0, go_on: Callable[[], bool] = lambda: True
    ) -> None:
        self.graph, self.go_on = graph, go_on
        self.chain: ChainGraph = contracted(chain_graph(graph))
        self.rng = Random(seed)
        self.places: list[int] | None = None
        self.value: int | None = None
        self.bound = 0
        self.proved_infeasible = False
        self.devices: list[int] | None = None

    @property
    def below(self) -> float | None:
        """Value to undercut, in units of the order's tables."""
        return None if self.value is None else float(Fraction(self.value, self.chain.unit))

    def linear(self) -> bool:
        """Search the prefixes of one depth-first order; return whether that gave a better plan.

        This is quick, so it is never cut short.
        """
        ideals = prefixes(self.chain, depth_first(self.chain))
        return self._take(best_chain(self.chain, ideals, self.below))

    def wide(self, rounds: int) -> bool:
        """Search prefixes of several random orders and ideals around those of the best plan.

        Ends early after some rounds without a better plan; returns whether there was one.
        """
        improved, stale = False, 0
        parts = [prefixes(self.chain, level_order(self.chain))]
        for _ in range(rounds):
            if not self.go_on() or stale >= STALE:
                break
            parts += [
                prefixes(self.chain, depth_first(self.chain, self.rng)) for _ in range(ORDERS)
            ]
            if self.devices is not None:
                parts.append(around(self.chain, self.devices, self.rng))
            better = self._take(self._search(distinct(*parts)))
            improved, stale = improved or better, 0 if better else stale + 1
            parts = []
        return improved

    def exact(self) -> bool:
        """Search all ideals; return whether everything was covered, so that ``bound`` is proved."""
        ideals = all_ideals(self.chain, MAX_IDEALS)
        if ideals is None or not self.go_on():
            return False
        answer = self._search(ideals)
        self._take(answer)
        if not answer.complete:
            return False
        if self.value is None:
            self.proved_infeasible = True
        else:
            self.bound = proved_bound(self.value, exact=self.chain.exact)
        return True

    def start(self, places: list[int]) -> None:
        """Accept a valid plan from elsewhere, if it is better."""
        value = bottleneck(self.graph, places)
        if self.value is None or value < self.value:
            self.places, self.value, self.devices = places, value, None

    def _search(self, ideals: Bits) -> ChainResult:
        return best_chain(self.chain, ideals, self.below, self.go_on)

    def _take(self, answer: ChainResult) -> bool:
        if answer.devices is None:
            return False
        places = self.chain.places(answer.devices)
        value = bottleneck(self.graph, places)
        if self.value is not None and value >= self.value:
            return False  # better by rounding only
        self.places, self.value, self.devices = places, value, answer.devices
        return True


def proved_bound(value: int, *, exact: bool) -> int:
    """Return the proved bound when a complete search in floats has nothing below ``value``.

    A plan that is better by less than the margin of the floats may have been missed.
    """
    return value if exact else max(0, value - 1 - int(value * Fraction(MARGIN)))


def around(chain: ChainGraph, devices: list[int], rng: Random) -> Bits:
    """Return ideals on random walks from those of a plan: each step adds or removes one block."""
    ideals = set()
    for ideal in plan_ideals(chain, devices):
        ideals.add(ideal)
        for _ in range(WALKS):
            now = ideal
            for _ in range(STEPS):
                now = _step(chain, now, rng)
                ideals.add(now)
    return chain.bits(sorted(ideals))


def plan_ideals(chain: ChainGraph, devices: list[int]) -> list[int]:
    """Return the ideals of a plan, as bits: the unions of its first devices in some order."""
    blocks_of: dict[int, int] = {}
    needs: dict[int, int] = {}
    for block, device in enumerate(devices):
        blocks_of[device] = blocks_of.get(device, 0) | 1 << block
        needs[device] = needs.get(device, 0) | chain.ancestors[block]
    ideals = [0]
    left = sorted(blocks_of)
    while left:
        ready = [d for d in left if not needs[d] & ~(ideals[-1] | blocks_of[d])]
        assert ready, "the plan does not keep the chain law"
        ideals.append(ideals[-1] | blocks_of[ready[0]])
        left.remove(ready[0])
    return ideals


def _step(chain: ChainGraph, ideal: int, rng: Random) -> int:
    """Return a neighbour of an ideal, by the first block that can move, from a random one on."""
    count = len(chain)
    first = rng.randrange(count)
    adding = rng.random() < 0.5
    for offset in range(count):
        block = (first + offset) % count
        if adding and not ideal >> block & 1 and not chain.ancestors[block] & ~ideal:
            return ideal | 1 << block
        after = chain.after[block]
        if not adding and ideal >> block & 1 and not any(ideal >> i & 1 for i in after):
            return ideal & ~(1 << block)
    return ideal
