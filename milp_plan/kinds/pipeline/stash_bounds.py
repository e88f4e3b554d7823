"""Lower bound on the makespan from how long stashes must lie in a device's memory.

Proof. Cut a device's memory into slots of one byte. What lies there at any instant fits, so every
byte of every copy can be given a slot of its own for its whole time (intervals are a perfect
graph). Let T be the makespan, and f, r, l the maker, the first and the last reader of a value; f
takes F ticks, its ways to the host and back O and R, ``t`` is a step's time, ``between`` the least
time from the start of a step to the stop of a later one, ``after`` from the start of a step to T.
All copies of the value together lie there for at least ``least``:

- one copy serves r and l: between(f, l), if it is that of the first run;
- l reads what came back: the copy that left lay there for F + O, and this one for R + t(l), and
  for t(r) more if r reads it, too. If r does not, it reads the first copy, which then lies there
  for max(F + O, between(f, r)), or a third one, which lies there for min(F, R) + t(r);
- l reads what was made again: the same with F for R and nothing for O.

In a slot nothing lies before some f can start (``head``). After its last copy nothing lies until T.
Beside the least times of values the slot loses, with the kind of copy it is,

- the only copy of its value: it and the rest take after(f) at least;
- the one that l reads, of several: it and the rest take R (or F) + after(r) if r reads it, too,
  else + after(l); the others of its value lie as long as said above;
- one that l does not read: the rest is at least R + after of a reader, if it left; the tail of r,
  if r read it last; and the tail of f, if it was dropped as soon as it was made.

With ``after`` the least of these over all values, sum of bytes * least <= memory * (T - head -
after). Readers run once, else the bound is not asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .stash import Stash, StashShop, StashValue


@dataclass(frozen=True, slots=True)
class _Stay:
    """Ticks a value must lie there, and what its slot loses if it is the last one there."""

    bytes: int
    least: int
    after: int
    head: int


def stash_bound(shop: StashShop) -> int:
    """Largest bound over the devices with a memory limit, ticks; 0 where there is none."""
    graph = shop.problem.graph
    readers = {reader for kept in shop.kept for reader in graph.value(kept.value).consumers}
    if any(graph.operator(reader).recomputable for reader in readers):
        return 0
    order = Precedence(shop)
    stash_of = {kept.value: stash for stash in shop.stashes for kept in stash.values}
    by_device: dict[str, list[_Stay]] = {}
    for kept in shop.kept:
        stay = _stay(shop, order, kept, stash_of.get(kept.value))
        by_device.setdefault(shop.steps[kept.maker].device, []).append(stay)
    return max(
        (_device(by_device.get(d, []), limit) for d, limit in shop.limits.items()), default=0
    )


def _device(stays: list[_Stay], limit: int) -> int:
    if not stays or limit <= 0:
        return 0
    total = sum(stay.bytes * stay.least for stay in stays)
    return min(s.head for s in stays) + min(s.after for s in stays) + -(-total // limit)


def _stay(shop: StashShop, order: Precedence, kept: StashValue, stash: Stash | None) -> _Stay:
    made, head = kept.maker, order.heads[kept.maker]
    between = order.between(made)
    whole, begun = between[kept.last], order.after(made)
    if stash is None:
        return _Stay(kept.bytes, whole, begun - whole, head)
    first = _first(shop, order, kept)
    ticks = shop.steps[made].ticks
    ways = [(0, ticks)] if stash.again else []
    if stash.host is not None and kept.out_ticks is not None and kept.back_ticks is not None:
        ways.append((kept.out_ticks, kept.back_ticks))
    third = min(back for _, back in [(0, ticks), *ways])
    t_first, t_last = shop.steps[first].ticks, shop.steps[kept.last].ticks
    alone = first == kept.last
    cases = [(whole, begun)]  # lies there; lies there with the rest
    rests = [] if alone else [order.tails[first]]
    for out, back in ways:
        gone = ticks + out
        if alone:
            cases.append((gone + back + t_first, gone + back + order.after(first)))
        else:
            cases.append((gone + back + t_first + t_last, gone + back + order.after(first)))
            others = min(max(gone, between[first]), gone + third + t_first)
            cases.append((others + back + t_last, others + back + order.after(kept.last)))
        left = min(order.after(first), order.after(kept.last))
        rests.append(back + left if out else order.tails[made])
    least = min(lies for lies, _ in cases)
    after = min([until - least for _, until in cases] + rests)
    return _Stay(kept.bytes, least, after, head)


def _first(shop: StashShop, order: Precedence, kept: StashValue) -> str:
    """The reader of a value that all its others follow."""
    readers = shop.problem.graph.value(kept.value).consumers
    return min(readers, key=order.names.index)


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
