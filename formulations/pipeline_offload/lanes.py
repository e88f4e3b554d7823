"""Plans with offload lanes in a canonical form: nothing is lost by looking for those alone.

Two values of one device are *interchangeable on the lanes* when they take equal bytes and equal
times there. Write out(a), back(a) for the starts of the journeys of value a, and let a be made
before b. Whatever the order in which they are read (the one read first must be back first):

- If the outbound journeys stand in the wrong order and both are gone before either starts back,
  swapping them keeps every rule: a was ready before b, and both still start back later.
- If the inbound journeys stand in the wrong order and both are gone before either starts back,
  swapping them keeps every rule: each is back before it is read, since the one that gets the
  later place is read later than the one that had it.
- If one starts back before the other is gone, the two are away one after the other. When a is
  read first, swapping both journeys puts both lanes right. When b is read first, one lane is
  wrong, and a alone can be away from the first departure to the last return, while b stays: no
  less memory is free at any instant.

Each move shrinks (number of journeys, inversions). So some best plan has, on each device, the
journeys of interchangeable values out in the order in which they are made, and back in the order
in which they are first read. Identical micro-batches may be renamed as wholes; kind by kind they
may not: who leaves must come back before its own reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from milp_plan.api import Plan
from milp_plan.kinds.pipeline.holds import Held, OffloadShop

Trips = Mapping[str, tuple[int, int]]
"""Held value -> start of its outbound and of its inbound journey; a value that stays has none."""


def interchangeable(shop: OffloadShop, one: Held, two: Held) -> bool:
    """Whether two values may change places on the lanes, whatever the order of steps.

    Their holds have no other value; where steps read them before the hold, the order of these
    steps is that of the producers by precedence.
    """
    alone = shop.alone
    if one.value not in alone or two.value not in alone:
        return False
    same = (one.bytes, one.out_ns, one.back_ns, one.lanes)
    if same != (two.bytes, two.out_ns, two.back_ns, two.lanes):
        return False
    if None in (shop.first_reader(one), shop.first_reader(two)):
        return False
    if not one.near and not two.near:
        return True
    before = shop.before
    if two.producer in before[one.producer]:
        one, two = two, one
    if one.producer not in before[two.producer]:
        return False
    later = set(two.near) or {two.producer}
    return all(any(n == o or n in before[o] for o in later) for n in one.near)


def canonical(shop: OffloadShop, plan: Plan, *, rename: bool = True, kinds: bool = False) -> Plan:
    """Return a plan no worse, in canonical form.

    Parameters
    ----------
    shop, plan
        A valid plan of the shop's problem.
    rename
        Also rename identical micro-batches so that they begin in order.
    kinds
        Also rename the steps of each kind by start, where nothing travels: memory then only
        counts steps, and precedence survives.
    """
    starts = {r.operator: r.start_ns or 0 for r in plan.runs if r.operator in shop.steps}
    trips = shop.trips_of(plan)
    if rename:
        starts, trips = _renamed(shop, starts, trips)
    if kinds and not trips:
        starts = _sorted_by_kind(shop, starts)
    return shop.plan(starts, in_order(shop, starts, trips), plan.planner)


def _renamed(
    shop: OffloadShop, starts: Mapping[str, int], trips: Trips
) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
    new: dict[int, int] = {}
    for members, first in zip(shop.alike, shop.beginnings, strict=True):
        base = first.removesuffix(f"@{members[0]}")
        ranked = [b for _, b in sorted((starts[f"{base}@{b}"], b) for b in members)]
        new.update(zip(ranked, members, strict=True))

    def name(old: str) -> str:
        base, _, batch = old.rpartition("@")
        return f"{base}@{new[int(batch)]}" if batch.isdigit() and int(batch) in new else old

    return {name(n): t for n, t in starts.items()}, {name(v): t for v, t in trips.items()}


def _sorted_by_kind(shop: OffloadShop, starts: Mapping[str, int]) -> dict[str, int]:
    found = dict(starts)
    for members in shop.alike:
        suffix = f"@{members[0]}"
        for name, step in shop.steps.items():
            if step.micro_batch == members[0]:
                names = [name.removesuffix(suffix) + f"@{batch}" for batch in members]
                found.update(zip(names, sorted(starts[n] for n in names), strict=True))
    return found


def in_order(
    shop: OffloadShop, starts: Mapping[str, int], trips: Trips
) -> dict[str, tuple[int, int]]:
    """Journeys in canonical order, by the exchanges of the module.

    A value that starts back while a step before the hold still reads it was never away: it stays.
    """
    lanes = _Lanes(shop, starts, trips)
    names = sorted(lanes.trips, key=lanes.made.__getitem__)
    pairs = [
        (a, b) for a, b in combinations(names, 2)
        if interchangeable(shop, shop.held[a], shop.held[b])
    ]  # fmt: skip
    changed = True
    while changed:
        changed = False
        for a, b in pairs:
            if a in lanes.trips and b in lanes.trips:
                changed |= lanes.exchange(a, b)
    return lanes.trips


class _Lanes:
    """Journeys that change places."""

    def __init__(self, shop: OffloadShop, starts: Mapping[str, int], trips: Trips) -> None:
        self.held = shop.held
        self.made = {v: starts[shop.held[v].producer] for v in trips}
        self.read = {v: min(starts[r] for r in shop.held[v].readers) for v in trips}
        self.near = {
            v: max((starts[n] + shop.steps[n].ticks for n in shop.held[v].near), default=0)
            for v in trips
        }
        self.trips = {v: trip for v, trip in trips.items() if trip[1] >= self.near[v]}

    def exchange(self, a: str, b: str) -> bool:
        """One exchange between a and b, a made first; whether anything changed."""
        trips = self.trips
        (out_a, back_a), (out_b, back_b) = trips[a], trips[b]
        nested = self.read[b] < self.read[a]
        if out_a < out_b and (back_b < back_a) == nested:
            return False
        first, last = sorted((out_a, out_b))
        returns = sorted((back_a, back_b))
        gone = last + self.held[a].out_ns
        if nested and returns[0] < max(gone, self.near[b]):
            trips[a] = (first, returns[1])
            del trips[b]
        elif nested:
            trips[a], trips[b] = (first, returns[1]), (last, returns[0])
        else:  # also where one is back before the other is gone: then both lanes were wrong
            trips[a], trips[b] = (first, returns[0]), (last, returns[1])
        return True
