"""Search over placements: compiled loops, and why what they leave out is no better.

Proof. While some operators are open they take their least time, and edges their least lag over the
open ends; what is placed on one device takes turns, predecessors before, and so do the transfers of
placed operators on channels and ports. Heads and tails are raised along edges and by predecessors
and followers on the same device, and nothing that takes turns is done before Jackson's preemptive
schedule of it; nor do all devices together, as one machine that does the units times devices of all
operators so many times faster: whatever the set, its first head, its work and its last tail pass
one after the other. None of this asks in which order operators were placed. Each of these only
grows as more is placed, so a placement that is no better than the best plan known can be left with
all that follow it. Persistent values lie on a device at every instant, and with each operator that
takes time all it reads and makes: where that does not fit, nothing that follows does. Of devices
that may change places and hold nothing yet, the first ones are taken first: swapping two of them
turns any plan into one just as long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from milp_plan.core.compiled import compiled, copy_into

from ...bounds.region_search import insert, one_by_one, preemptive
from ..decoder import layout as at
from ..decoder.decoder import decode
from ..decoder.holding import static_excess, weigh
from ..decoder.layout import NEVER, Ints
from ..decoder.legs import find_legs, persistent_bytes
from .choices import ENDLESS, Choices
from .sequencing import sequenced

BEST, LEAST_OPEN, DEPTH, FRESH, TRIED, SEQUENCED = range(6)
"""Numbers of a search: value of the best plan known; least value of what was left undecided;
operators placed; whether choices of the next are still to be listed; choices tried;
schedules tried for complete placements."""


class Stack(NamedTuple):
    """State of the search.

    Parameters
    ----------
    numbers
        See above.
    chosen
        Operator -> choice, counted from its first; -1 where it is open.
    members
        Unit -> operators placed, then where.
    used
        Device -> operators placed there.
    counts, where, bound
        By depth: choices left, which, and no plan with them is shorter than this; worst first.
    values
        By depth: no plan with what is placed is shorter.
    site, option, start
        The best plan: of each operator, and start of each task.
    work
        Room for numbers.
    """

    numbers: Ints
    chosen: Ints
    members: Ints
    used: Ints
    counts: Ints
    where: Ints
    bound: Ints
    values: Ints
    site: Ints
    option: Ints
    start: Ints
    work: Ints


def empty_stack(choices: Choices, sizes: tuple[int, int, int]) -> Stack:
    """Return a state in which nothing is placed.

    Parameters
    ----------
    choices
        Choices of the problem.
    sizes
        Devices; operators and legs; units.
    """
    devices, tasks, units = sizes
    operators, widest = len(choices.first) - 1, int(np.diff(choices.first).max())

    def room(*shape: int) -> Ints:
        return np.zeros(shape, dtype=np.int64)

    return Stack(
        np.array([NEVER, NEVER, 0, 1, 0, 0], dtype=np.int64),
        np.full(operators, -1, dtype=np.int64),
        np.stack([np.zeros(units, dtype=np.int64), np.full(units, -1, dtype=np.int64)]),
        room(devices),
        room(operators),
        room(operators, widest),
        room(operators, widest),
        room(operators + 1),
        room(operators),
        room(operators),
        room(tasks),
        room(8, tasks + 1),
    )


@compiled
def _holds(a: Ints, t: Ints, site: int, device: int) -> bool:
    return bool(a[t[at.PLACE] + site * t[at.DEVICES] + device] >= 0)


@compiled
def _rest(c: Choices, v: int, k: int) -> int:
    """Return the least time after an operator, by its choice."""
    if k >= 0:
        return int(c.rest[c.first[v] + k])
    least = ENDLESS
    for choice in range(c.first[v], c.first[v + 1]):
        least = min(least, c.rest[choice])
    return least


@compiled
def _one_by_one(a: Ints, t: Ints, c: Choices, s: Stack, way: tuple[int, bool]) -> int:
    """Return the time until operators before one on its devices are done; after it, backward."""
    v, backward = way
    count, site = len(s.chosen), c.site[c.first[v] + s.chosen[v]]
    times, ticks, some, lengths = s.work[1 if backward else 0], s.work[2], s.work[3], s.work[4]
    low, high = (v + 1, count) if backward else (0, v)
    worst = 0
    for i in range(a[t[at.SITE_PTR] + site], a[t[at.SITE_PTR] + site + 1]):
        device = a[t[at.SITE_DEVICE] + i]
        result = 0
        for u in range(low, high):
            follows = c.after[v, u] if backward else c.after[u, v]
            at_all = follows == 1 and s.chosen[u] >= 0
            if at_all and _holds(a, t, c.site[c.first[u] + s.chosen[u]], device):
                insert(some, lengths, result, times[u], ticks[u])
                result += 1
        worst = max(worst, one_by_one(some, lengths, result))
    return int(worst)


@compiled
def _lag(c: Choices, s: Stack, e: int, v: int) -> int:
    """Return the least time of an edge that ends in v, by the choices of its ends."""
    width = c.first[v + 1] - c.first[v] + 1
    return int(c.lag[c.lag_at[e] + (s.chosen[c.edge_from[e]] + 1) * width + s.chosen[v] + 1])


@compiled
def _set_heads(a: Ints, t: Ints, c: Choices, s: Stack, since: int) -> int:
    """Fill heads of an operator and all behind it; return the longest path through one of these.

    At least ``ENDLESS`` where there is no way for a value. Heads before it stay as they are: what
    comes before an operator comes before it in their order.
    """
    head, ticks, worst = s.work[0], s.work[2], 0
    for v in range(since, len(s.chosen)):
        head[v] = _one_by_one(a, t, c, s, (v, False)) if s.chosen[v] >= 0 else 0
        for e in range(c.edge_at[v], c.edge_at[v + 1]):
            u, lag = c.edge_from[e], _lag(c, s, e, v)
            if lag >= ENDLESS:
                return ENDLESS
            head[v] = max(head[v], head[u] + ticks[u] + lag)
        worst = max(worst, head[v] + ticks[v] + _rest(c, v, s.chosen[v]))
        if worst >= s.numbers[BEST]:
            break
    return int(worst)


@compiled
def _set_tails(a: Ints, t: Ints, c: Choices, s: Stack) -> int:
    """Fill tails from the heads; return the longest path through an operator, or a too long one."""
    head, tail, ticks, worst = s.work[0], s.work[1], s.work[2], 0
    tail[: len(s.chosen)] = 0
    for v in range(len(s.chosen) - 1, -1, -1):
        tail[v] = max(tail[v], _rest(c, v, s.chosen[v]))
        if s.chosen[v] >= 0:
            tail[v] = max(tail[v], _one_by_one(a, t, c, s, (v, True)))
        worst = max(worst, head[v] + ticks[v] + tail[v])
        if worst >= s.numbers[BEST]:
            break
        for e in range(c.edge_at[v], c.edge_at[v + 1]):
            u = c.edge_from[e]
            tail[u] = max(tail[u], tail[v] + ticks[v] + _lag(c, s, e, v))
    return int(worst)


@compiled
def _set_ticks(a: Ints, t: Ints, c: Choices, s: Stack) -> None:
    """Fill duration and device-time of each operator; the least ones where it is open."""
    for v in range(len(s.chosen)):
        s.work[2][v], s.work[7][v] = c.least[v], c.area[v]
        if s.chosen[v] >= 0:
            choice = c.first[v] + s.chosen[v]
            gang = a[t[at.SITE_PTR] + c.site[choice] + 1] - a[t[at.SITE_PTR] + c.site[choice]]
            s.work[2][v], s.work[7][v] = c.ticks[choice], c.ticks[choice] * gang


@compiled
def least_time(a: Ints, t: Ints, c: Choices, s: Stack, since: int) -> int:
    """Return a lower bound for the partial placement; heads before ``since`` are up to date."""
    count = len(s.chosen)
    head, tail, ticks = s.work[0], s.work[1], s.work[2]
    _set_ticks(a, t, c, s)
    worst = _set_heads(a, t, c, s, since)
    if worst < s.numbers[BEST]:
        worst = max(worst, _set_tails(a, t, c, s))
    if worst >= s.numbers[BEST] or worst > ENDLESS // (t[at.DEVICES] + 1):
        return int(worst)
    for device in range(t[at.DEVICES]):
        result = 0
        for v in range(count):
            if s.chosen[v] >= 0 and _holds(a, t, c.site[c.first[v] + s.chosen[v]], device):
                s.work[3][result], s.work[4][result], s.work[5][result] = head[v], ticks[v], tail[v]
                result += 1
        if result > 1:
            number = preemptive(s.work[3], s.work[4], s.work[5], result, s.work[6])
            worst = max(worst, number)
    if worst >= s.numbers[BEST]:
        return int(worst)
    for v in range(count):
        s.work[3][v], s.work[5][v] = head[v] * t[at.DEVICES], tail[v] * t[at.DEVICES]
    pooled = preemptive(s.work[3], s.work[7], s.work[5], count, s.work[6])
    worst = max(worst, -(-pooled // t[at.DEVICES]))
    if t[at.COMMUNICATION] == 0 or worst >= s.numbers[BEST]:
        return int(worst)
    return max(int(worst), _least_with_legs(a, t, s))


@compiled
def _least_with_legs(a: Ints, t: Ints, s: Stack) -> int:
    """Return the longest busy time of a channel or port with the current legs."""
    if not find_legs(a, t):
        return ENDLESS
    head, tail, ticks = s.work[0], s.work[1], s.work[2]
    legs = a[t[at.LEG_COUNT]]
    follow = s.work[7]
    for leg in range(legs):
        follow[leg] = 0
        link = a[t[at.LEG_HEAD] + leg]
        while link >= 0:
            reader = a[t[at.LINK_READER] + link]
            follow[leg] = max(follow[leg], ticks[reader] + tail[reader])
            link = a[t[at.NEXT_OF_LEG] + link]
    worst = 0
    for resource in range(t[at.RESOURCES] - t[at.DEVICES]):
        count = 0
        for leg in range(legs):
            for i in range(a[t[at.LEG_HELD_PTR] + leg], a[t[at.LEG_HELD_PTR] + leg + 1]):
                if a[t[at.LEG_HELD] + i] == resource:
                    maker = a[t[at.PRODUCER] + a[t[at.LEG_VALUE] + leg]]
                    s.work[3][count] = head[maker] + ticks[maker]
                    s.work[4][count] = a[t[at.LEG_UNITS] + leg]
                    s.work[5][count] = follow[leg]
                    count += 1
                    break
        if count > 1:
            number = preemptive(s.work[3], s.work[4], s.work[5], count, s.work[6])
            worst = max(worst, number)
    return int(worst)


@compiled
def _set(a: Ints, t: Ints, c: Choices, s: Stack, way: tuple[int, int]) -> None:
    """Place an operator, or undo its placement (-1)."""
    v, k = way
    old = s.chosen[v]
    if old >= 0:
        site = c.site[c.first[v] + old]
        for i in range(a[t[at.SITE_PTR] + site], a[t[at.SITE_PTR] + site + 1]):
            s.used[a[t[at.SITE_DEVICE] + i]] -= 1
        s.members[0, c.unit[v]] -= 1
    s.chosen[v] = k
    a[t[at.SITE] + v] = a[t[at.OPTION] + v] = -1
    if k >= 0:
        site = c.site[c.first[v] + k]
        a[t[at.SITE] + v], a[t[at.OPTION] + v] = site, c.option[c.first[v] + k]
        for i in range(a[t[at.SITE_PTR] + site], a[t[at.SITE_PTR] + site + 1]):
            s.used[a[t[at.SITE_DEVICE] + i]] += 1
        s.members[0, c.unit[v]] += 1
        s.members[1, c.unit[v]] = site


@compiled
def _worth(a: Ints, t: Ints, c: Choices, s: Stack, way: tuple[int, int]) -> bool:
    """Return whether a choice keeps its group together and uses the first of alike free devices."""
    v, k = way
    site = c.site[c.first[v] + k]
    unit = c.unit[v]
    if s.members[0, unit] > 0:
        return bool(s.members[1, unit] == site)
    for i in range(a[t[at.SITE_PTR] + site], a[t[at.SITE_PTR] + site + 1]):
        device = a[t[at.SITE_DEVICE] + i]
        if s.used[device] == 0 and c.twins[device] >= 0:
            for other in range(device):
                alike = s.used[other] == 0 and c.twins[other] == c.twins[device]
                if alike and not _holds(a, t, site, other):
                    return False
    return True


@compiled
def _too_much(a: Ints, t: Ints, c: Choices, s: Stack) -> bool:
    """Return whether persistent values of placed operators do not fit along with what runs."""
    if not t[at.LIMITED]:
        return False
    persistent_bytes(a, t)
    for device in range(t[at.DEVICES]):
        beside = 0
        for v in range(len(s.chosen)):
            choice = c.first[v] + s.chosen[v]
            if s.chosen[v] >= 0 and _holds(a, t, c.site[choice], device):
                beside = max(beside, c.bytes[choice])
        if a[t[at.BASE] + device] + beside > a[t[at.MEMORY] + device]:
            return True
    return False


@compiled
def _since(c: Choices, depth: int) -> int:
    """Return the first operator whose head may be out of date when that of a depth is placed.

    As long as operators are placed in topological order, heads before them stay as they are.
    """
    for i in range(depth + 1):
        if c.turn[i] != i:
            return 0
    return max(0, depth - 1)


@compiled
def _look(a: Ints, t: Ints, c: Choices, s: Stack) -> None:
    """Evaluate every choice of the next operator; the most promising comes last."""
    depth = s.numbers[DEPTH]
    v, since, found = c.turn[depth], _since(c, depth), 0
    for k in range(c.first[v + 1] - c.first[v]):
        if not _worth(a, t, c, s, (v, k)):
            continue
        _set(a, t, c, s, (v, k))
        s.numbers[TRIED] += 1
        if not _too_much(a, t, c, s):
            number = max(s.values[depth], least_time(a, t, c, s, since))
            if number < s.numbers[BEST]:
                b = found
                while b > 0 and s.bound[depth, b - 1] < number:
                    s.bound[depth, b] = s.bound[depth, b - 1]
                    s.where[depth, b] = s.where[depth, b - 1]
                    b -= 1
                s.bound[depth, b], s.where[depth, b] = number, k
                found += 1
        _set(a, t, c, s, (v, -1))
    s.counts[depth] = found


@compiled
def _finish(a: Ints, t: Ints, c: Choices, s: Stack, most: int) -> None:
    """Schedule a complete placement: first by a rule, then over all orders."""
    count = len(s.chosen)
    least = max(s.values[count], least_time(a, t, c, s, _since(c, count - 1)))
    if least >= s.numbers[BEST]:  # then not all tails are set
        return
    for v in range(count):
        a[t[at.RANK] + v] = -s.work[1][v] - s.work[2][v]
    result = decode(a, t, (True, False, False), 1.0, s.numbers[BEST])
    if result < s.numbers[BEST]:
        _keep(a, t, s, result)
    if not find_legs(a, t) or least >= s.numbers[BEST]:
        return
    fits = True
    if t[at.LIMITED]:
        weigh(a, t)
        persistent_bytes(a, t)
        fits = static_excess(a, t) <= 0
    result, tried = sequenced(a, t, s.numbers[BEST], most)
    s.numbers[SEQUENCED] += tried
    if tried > most:
        s.numbers[LEAST_OPEN] = min(s.numbers[LEAST_OPEN], least)
    if not fits:  # what is in time may not be in memory
        s.numbers[LEAST_OPEN] = min(s.numbers[LEAST_OPEN], result)
    elif result < s.numbers[BEST]:
        _keep(a, t, s, result)


@compiled
def _keep(a: Ints, t: Ints, s: Stack, value: int) -> None:
    """Save the current schedule as the best one."""
    count = len(s.chosen)
    s.numbers[BEST] = value
    tasks = count + a[t[at.LEG_COUNT]]
    copy_into(a[t[at.SITE] : t[at.SITE] + count], s.site)
    copy_into(a[t[at.OPTION] : t[at.OPTION] + count], s.option)
    copy_into(a[t[at.START] : t[at.START] + tasks], s.start)


@compiled
def advance(a: Ints, t: Ints, c: Choices, s: Stack, most: tuple[int, int]) -> bool:
    """Continue the search; return whether it is complete.

    ``most`` are choices to look at now, and schedules of each complete placement.
    """
    until, size = s.numbers[TRIED] + s.numbers[SEQUENCED] + most[0], len(s.chosen)
    while s.numbers[DEPTH] >= 0:
        depth = s.numbers[DEPTH]
        if depth == size:
            _finish(a, t, c, s, most[1])
            s.numbers[DEPTH] -= 1
            s.numbers[FRESH] = 0
            continue
        if s.numbers[FRESH]:
            if s.numbers[TRIED] + s.numbers[SEQUENCED] > until:
                return False
            _look(a, t, c, s)
            s.numbers[FRESH] = 0
        else:
            _set(a, t, c, s, (c.turn[depth], -1))
        while s.counts[depth] > 0 and s.bound[depth, s.counts[depth] - 1] >= s.numbers[BEST]:
            s.counts[depth] -= 1
        if s.counts[depth] == 0:
            s.numbers[DEPTH] -= 1
        else:
            s.counts[depth] -= 1
            _set(a, t, c, s, (c.turn[depth], s.where[depth, s.counts[depth]]))
            s.values[depth + 1] = s.bound[depth, s.counts[depth]]
            s.numbers[DEPTH] += 1
            s.numbers[FRESH] = 1
    return True


@compiled
def least_open(s: Stack) -> int:
    """Return a value below which there is no plan, except perhaps the best known one."""
    result = min(s.numbers[BEST], s.numbers[LEAST_OPEN])
    depth = s.numbers[DEPTH]
    for d in range(min(depth + 1, len(s.chosen))):
        if d < depth or not s.numbers[FRESH]:
            for b in range(s.counts[d]):
                result = min(result, s.bound[d, b])
    if depth >= 0 and s.numbers[FRESH]:
        result = min(result, s.values[depth])
    return int(result)
