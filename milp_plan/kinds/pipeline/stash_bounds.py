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
  else + after(l); the others of its value lie as long as stated above;
- one that l does not read: the rest is at least R + after of a reader, if it left; the tail of r,
  if r read it last; and the tail of f, if it was dropped as soon as it was made.

With ``after`` the least of these over all values, sum of bytes * least <= memory * (T - head -
after). The bound requires readers that run once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .stash import Stash, StashShop, StashValue


@dataclass(frozen=True, slots=True)
class _Stay:
    """Ticks that a value must be in memory, and what its slot loses if it is the last one there."""

    bytes: int
    least: int
    after: int
    head: int


def stash_bound(shop: StashShop) -> int:
    """Return the largest bound over the devices with a memory limit, ticks; 0 without one."""
    graph = shop.problem.graph
    readers = {reader for value in shop.values for reader in graph.value(value.value).consumers}
    if any(graph.operator(reader).recomputable for reader in readers):
        return 0
    order = Precedence(shop)
    stash_of = {value.value: stash for stash in shop.stashes for value in stash.values}
    by_device: dict[str, list[_Stay]] = {}
    for value in shop.values:
        stay = _stay(shop, order, value, stash_of.get(value.value))
        by_device.setdefault(shop.steps[value.maker].device, []).append(stay)
    return max(
        (_device(by_device.get(d, []), limit) for d, limit in shop.limits.items()), default=0
    )


def _device(stays: list[_Stay], limit: int) -> int:
    if not stays or limit <= 0:
        return 0
    total = sum(stay.bytes * stay.least for stay in stays)
    return min(s.head for s in stays) + min(s.after for s in stays) + -(-total // limit)


def _stay(shop: StashShop, order: Precedence, value: StashValue, stash: Stash | None) -> _Stay:
    made, head = value.maker, order.heads[value.maker]
    between = order.between(made)
    whole, begun = between[value.last], order.after(made)
    if stash is None:
        return _Stay(value.bytes, whole, begun - whole, head)
    first = _first(shop, order, value)
    ticks = shop.steps[made].ticks
    ways = [(0, ticks)] if stash.again else []
    if stash.host is not None and value.out_ticks is not None and value.back_ticks is not None:
        ways.append((value.out_ticks, value.back_ticks))
    third = min(back for _, back in [(0, ticks), *ways])
    t_first, t_last = shop.steps[first].ticks, shop.steps[value.last].ticks
    alone = first == value.last
    cases = [(whole, begun)]  # in memory; in memory with the rest
    rests = [] if alone else [order.tails[first]]
    for out, back in ways:
        gone = ticks + out
        if alone:
            cases.append((gone + back + t_first, gone + back + order.after(first)))
        else:
            cases.append((gone + back + t_first + t_last, gone + back + order.after(first)))
            others = min(max(gone, between[first]), gone + third + t_first)
            cases.append((others + back + t_last, others + back + order.after(value.last)))
        left = min(order.after(first), order.after(value.last))
        rests.append(back + left if out else order.tails[made])
    least = min(lies for lies, _ in cases)
    after = min([until - least for _, until in cases] + rests)
    return _Stay(value.bytes, least, after, head)


def _first(shop: StashShop, order: Precedence, value: StashValue) -> str:
    """Return the reader of a value that all its others follow."""
    readers = shop.problem.graph.value(value.value).consumers
    return min(readers, key=order.names.index)


class Precedence:
    """Precedence among the steps of a shop, and how early and late each can be.

    Parameters
    ----------
    shop
        Shop with steps and arcs.

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
        names = [name for name, count in missing.items() if not count]
        for name in names:  # grows while it is read
            for b, _ in self.out[name]:
                missing[b] -= 1
                if not missing[b]:
                    names.append(b)
        return names

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
        """Return the least time before (or after) each step: chains, and work of its device."""
        steps = self.shop.steps
        times: dict[str, int] = {}
        for name in names:
            chain = max((times[o] + steps[o].ticks + lag for o, lag in arcs[name]), default=0)
            own = self.shop.on_device[steps[name].device]
            mates = [o for o in own if masks[name] & self.bit[o]]
            for least in {times[o] for o in mates}:
                work = sum(steps[o].ticks for o in mates if times[o] >= least)
                chain = max(chain, least + work)
            times[name] = chain
        return times

    def after(self, name: str) -> int:
        """Return the least time from the start of a step to the end of any plan, ticks."""
        return self.shop.steps[name].ticks + self.tails[name]

    def between(self, name: str) -> dict[str, int]:
        """Return the least time from a step's start to its own stop and to those after it."""
        steps = self.shop.steps
        times = {name: steps[name].ticks}
        for other in self.names[self.names.index(name) + 1 :]:
            waits = [times[b] + lag for b, lag in self.into[other] if b in times]
            if waits:
                times[other] = max(waits) + steps[other].ticks
        return times
