"""Placements, pairs of placements and transfers that a plan by a horizon can use.

Every placement gets a *head*, the least time before it starts, and a *tail*, the least time after
it stops: longest paths in which each step takes the cheapest pair of placements, its operators and
its longest journey. What does not fit between head and tail into the horizon is in no plan that
ends by it, and goes. That makes heads and tails longer, so it is done again until nothing changes.

All of it in exact integers. What remains is short beside the horizon, however much longer
journeys the problem has: a model that counts in parts of the horizon keeps its numbers together.
"""

from __future__ import annotations

from collections.abc import Mapping

from milp_plan.core import Placement
from milp_plan.cost.routes import Route

Pair = tuple[str, str]
Combination = tuple[Placement, Placement]
Spot = tuple[str, Placement]
Ways = Mapping[str, tuple[Route, ...]]


def longest_way(needed: Ways) -> int:
    """Return the ticks of the longest journey that a pair of placements calls for."""
    return max((route.duration_ticks for ways in needed.values() for route in ways), default=0)


class Windows:
    """Heads and tails of placements, and what they leave of the placements.

    Parameters
    ----------
    duration
        (operator, placement) -> ticks, operators in topological order.
    combinations
        (producer, consumer) -> allowed pairs of placements -> value -> routes.
    sites
        Members of each colocation group.
    horizon
        Ticks by which a plan must end.
    """

    def __init__(
        self,
        duration: Mapping[Spot, int],
        combinations: Mapping[Pair, Mapping[Combination, Ways]],
        sites: Mapping[str, tuple[str, ...]],
        horizon: int,
    ) -> None:
        self.duration, self.sites, self.horizon = duration, sites, horizon
        self.order = list(dict.fromkeys(name for name, _ in duration))
        self.open = {
            pair: {both: longest_way(needed) for both, needed in entry.items()}
            for pair, entry in combinations.items()
        }
        self.into: dict[str, list[Pair]] = {name: [] for name in self.order}
        self.out: dict[str, list[Pair]] = {name: [] for name in self.order}
        for pair in self.open:
            self.out[pair[0]].append(pair)
            self.into[pair[1]].append(pair)
        self.head = self.tail = dict.fromkeys(duration, 0)
        self.left = set(duration)
        while self._narrow():
            pass

    @property
    def empty(self) -> bool:
        """Whether no plan at all ends by the horizon."""
        return len({name for name, _ in self.left}) < len(self.order)

    def fits(self, pair: Pair, both: Combination, ticks: int) -> bool:
        """Return whether a plan may use two placements with a journey between them."""
        made, read = (pair[0], both[0]), (pair[1], both[1])
        if made not in self.left or read not in self.left:
            return False
        return self._span(made, ticks, read) <= self.horizon

    def _span(self, made: Spot, ticks: int, read: Spot) -> int:
        duration = self.duration[made] + ticks + self.duration[read]
        return self.head[made] + duration + self.tail[read]

    def _narrow(self) -> bool:
        """One round; whether a placement or a pair went."""
        self.head = self._reach(self.order, self.into, forward=True)
        self.tail = self._reach(self.order[::-1], self.out, forward=False)
        spots = {
            spot
            for spot in self.left
            if spot in self.head
            and spot in self.tail
            and self.head[spot] + self.duration[spot] + self.tail[spot] <= self.horizon
        }
        self._agree(spots)
        changed = len(spots) < len(self.left)
        self.left = spots
        for pair, entry in self.open.items():
            kept = {both: ticks for both, ticks in entry.items() if self.fits(pair, both, ticks)}
            changed = changed or len(kept) < len(entry)
            self.open[pair] = kept
        return changed

    def _reach(
        self, order: list[str], steps: Mapping[str, list[Pair]], *, forward: bool
    ) -> dict[Spot, int]:
        """Least ticks before (or after) each placement; placements that nothing leads to lack."""
        result: dict[Spot, int] = {}
        spots: dict[str, list[Spot]] = {}
        for spot in self.duration:
            if spot in self.left:
                spots.setdefault(spot[0], []).append(spot)
        for name in order:
            least = dict.fromkeys(spots.get(name, []), 0)
            for pair in steps[name]:
                here: dict[Spot, int] = {}
                for (made, read), way in self.open[pair].items():
                    ends = (pair[1], read), (pair[0], made)
                    spot, other = ends if forward else ends[::-1]
                    if other in result and spot in least:
                        ticks = result[other] + self.duration[other] + way
                        here[spot] = min(ticks, here.get(spot, ticks))
                least = {
                    spot: max(most, here[spot]) for spot, most in least.items() if spot in here
                }
            result.update(least)
        return result

    def _agree(self, spots: set[Spot]) -> None:
        """Members of a group keep only the sites that all of them keep."""
        for members in self.sites.values():
            sites = [{p.devices for name, p in spots if name == member} for member in members]
            common = set.intersection(*sites)
            spots -= {(name, p) for name, p in spots if name in members and p.devices not in common}
