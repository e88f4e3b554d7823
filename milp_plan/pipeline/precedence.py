"""Precedence between steps on devices: closure, heads and tails."""

from __future__ import annotations

from collections.abc import Mapping

from .stash import StashShop


class Precedence:
    """What precedes what among the steps of a shop, and how early and late each can be.

    Parameters
    ----------
    shop
        Steps and arcs.

    Attributes
    ----------
    names
        Steps, topologically sorted.
    heads, tails
        Step -> least time before its start and after its stop, ticks.
    """

    def __init__(self, shop: StashShop) -> None:
        self.shop = shop
        self.into: dict[str, list[tuple[str, int]]] = {name: [] for name in shop.steps}
        self.out: dict[str, list[tuple[str, int]]] = {name: [] for name in shop.steps}
        for a, b, lag in shop.arcs:
            self.into[b].append((a, lag))
            self.out[a].append((b, lag))
        self.names = self._sorted()
        self.bit = {name: 1 << i for i, name in enumerate(self.names)}
        self.ancestors = self._closure(self.names, self.into)
        self.descendants = self._closure(self.names[::-1], self.out)
        self.heads = self._reach(self.names, self.into, self.ancestors)
        self.tails = self._reach(self.names[::-1], self.out, self.descendants)

    def _sorted(self) -> list[str]:
        missing = {name: len(arcs) for name, arcs in self.into.items()}
        found = [name for name, count in missing.items() if not count]
        for name in found:  # grows while it is read
            for b, _ in self.out[name]:
                missing[b] -= 1
                if not missing[b]:
                    found.append(b)
        return found

    def _closure(
        self, names: list[str], arcs: Mapping[str, list[tuple[str, int]]]
    ) -> dict[str, int]:
        masks: dict[str, int] = {}
        for name in names:
            masks[name] = 0
            for other, _ in arcs[name]:
                masks[name] |= masks[other] | self.bit[other]
        return masks

    def _reach(
        self, names: list[str], arcs: Mapping[str, list[tuple[str, int]]], masks: dict[str, int]
    ) -> dict[str, int]:
        """Least time before (or after) each step: chains, and what its own device must do."""
        steps = self.shop.steps
        found: dict[str, int] = {}
        for name in names:
            chain = max((found[o] + steps[o].ticks + lag for o, lag in arcs[name]), default=0)
            own = self.shop.on_device[steps[name].device]
            mates = [o for o in own if masks[name] & self.bit[o]]
            for least in {found[o] for o in mates}:
                work = sum(steps[o].ticks for o in mates if found[o] >= least)
                chain = max(chain, least + work)
            found[name] = chain
        return found

    def after(self, name: str) -> int:
        """Least time from the start of a step to the end of any plan, ticks."""
        return self.shop.steps[name].ticks + self.tails[name]

    def between(self, name: str) -> dict[str, int]:
        """Least time from the start of a step to the stop of each that it precedes, and its own."""
        steps = self.shop.steps
        found = {name: steps[name].ticks}
        for other in self.names[self.names.index(name) + 1 :]:
            waits = [found[b] + lag for b, lag in self.into[other] if b in found]
            if waits:
                found[other] = max(waits) + steps[other].ticks
        return found
