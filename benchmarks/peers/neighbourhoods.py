"""Which operators a small model may move: windows of a plan, of several kinds."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from typing import NamedTuple

from reader import Instance, Plan

KINDS = ("window", "critical", "devices", "graph", "order")
"""Near in time; on the longest chain; near in time on two devices; near in the graph; and near in
time without a change of place."""


class Neighbourhood(NamedTuple):
    """Operators that may move, and further ones that may only change their turn."""

    moving: set[int]
    turning: set[int]


def critical(instance: Instance, plan: Plan) -> list[int]:
    """Operators from which a chain without slack leads to the end of a plan."""
    stops = [start + mode.length for start, mode in zip(plan.starts, plan.modes, strict=True)]
    by_stop: dict[int, list[int]] = defaultdict(list)
    for number, stop in enumerate(stops):
        by_stop[stop].append(number)
    sites = [set(instance.sites[mode.site]) for mode in plan.modes]
    ends = {
        copy: start + one.length
        for copy, (one, _) in (instance.supplies(plan.modes) or {}).items()
        if (start := plan.sends.get(copy)) is not None
    }
    arriving: dict[tuple[int, int], list[int]] = defaultdict(list)
    for copy, end in ends.items():
        arriving[copy.value, end].append(instance.made[copy.value].producer)
    found: set[int] = set()
    stack = list(by_stop[max(stops)])
    while stack:
        number = stack.pop()
        if number in found:
            continue
        found.add(number)
        start = plan.starts[number]
        for place in instance.operators[number].reads:
            stack += arriving.get((place, start), ())
            producer = instance.made[place].producer
            if stops[producer] == start:
                stack.append(producer)
        stack += [other for other in by_stop.get(start, ()) if sites[other] & sites[number]]
    return sorted(found)


def neighbourhood(
    instance: Instance, plan: Plan, kind: str, size: int, rng: random.Random
) -> Neighbourhood:
    """Return about ``size`` operators, whole colocation classes."""
    starts, everyone = plan.starts, range(len(plan.starts))
    chain = critical(instance, plan)
    pivot = rng.choice(chain)
    members = {o: ms for ms in instance.classes_of_operators for o in ms}

    def near(moment: int, among: list[int] | range = everyone) -> list[int]:
        return sorted(among, key=lambda number: abs(starts[number] - moment))

    if kind == "order":
        return Neighbourhood(set(), set(near(starts[pivot])[:size]))
    if kind == "critical":
        sequence = list(chain)
        rng.shuffle(sequence)
    elif kind == "devices":
        own = instance.sites[plan.modes[pivot].site][0]
        chosen = {own, rng.randrange(len(instance.devices))}
        here = [o for o in everyone if chosen & set(instance.sites[plan.modes[o].site])]
        sequence = near(starts[pivot], here)
    elif kind == "graph":
        sequence = _around(instance, pivot, size, members, rng)
    else:
        sequence = near(starts[pivot])
    moving: set[int] = set()
    for number in sequence:
        if len(moving) >= size:
            break
        moving.update(members[number])
    turning = set()
    if moving and rng.random() < 0.5:
        times = sorted(starts[number] for number in moving)
        turning = set(near(times[len(times) // 2])[:size])
    return Neighbourhood(moving, turning | moving)


def _around(
    instance: Instance, pivot: int, size: int, members: dict[int, list[int]], rng: random.Random
) -> list[int]:
    """Operators by their distance in the graph of classes."""
    found, seen, queue = [], {id(members[pivot])}, deque([pivot])
    while queue and len(found) < 2 * size:
        own = members[queue.popleft()]
        found += own
        around = [other for o in own for other in (*instance.before[o], *instance.after[o])]
        rng.shuffle(around)
        for other in around:
            if id(members[other]) not in seen:
                seen.add(id(members[other]))
                queue.append(other)
    return found
