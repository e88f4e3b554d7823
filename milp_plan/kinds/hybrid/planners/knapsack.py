"""Chooses one configuration for each layer of a stage: least cost within a memory, exact."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from milp_plan.core.compiled import compiled

NONE, FOUND, UNKNOWN = 0, 1, 2
"""Status: no choice within memory and target; one was found; given up."""

MAX_STATES = 300_000
"""Largest number of partial choices of one exact search."""

_TINY = 1e-12
_Floats = npt.NDArray[np.float64]
_Integers = npt.NDArray[np.int64]


class Menu(NamedTuple):
    """Options of item i are numbered ``start[i]`` to ``start[i + 1] - 1``; amounts from 0 on."""

    start: _Integers
    cost: _Floats
    memory: _Floats


@compiled
def select(menu: Menu, rate: float, pick: _Integers) -> tuple[float, float]:
    """Pick the least cost + rate * memory for each item; return total cost and memory.

    Ties go to the smaller memory. An infinite rate minimises memory, then cost.
    """
    total, used = 0.0, 0.0
    for i in range(len(pick)):
        best = menu.start[i]
        for c in range(best + 1, menu.start[i + 1]):
            more_cost = menu.cost[c] - menu.cost[best]
            more_memory = menu.memory[c] - menu.memory[best]
            if rate == np.inf:
                ahead, tie = more_memory, more_cost
            else:
                ahead, tie = more_cost + rate * more_memory, more_memory
            if ahead < 0.0 or (ahead == 0.0 and tie < 0.0):
                best = c
        pick[i] = best
        total += menu.cost[best]
        used += menu.memory[best]
    return total, used


@compiled
def copy(source: _Integers, target: _Integers) -> None:
    """Copy all entries (assigning slices compiles for seconds)."""
    for i in range(len(source)):
        target[i] = source[i]


@compiled
def choose(
    menu: Menu, capacity: float, target: float, early: bool, pick: _Integers
) -> tuple[int, float]:
    """Choose one option for each item, so that memory fits and the cost is least.

    Parameters
    ----------
    menu
        The options; there are as many items as ``pick`` is long.
    capacity
        Memory limit.
    target
        Largest cost that is searched.
    early
        Whether any choice within the target suffices.
    pick
        Receives the option of each item.

    Returns
    -------
    tuple
        ``NONE``, ``FOUND`` or ``UNKNOWN``, and the cost of the choice.

    Notes
    -----
    Lagrangian bound on the memory row (its best multiplier is the slope of a line that approaches
    the lower hull of cost over memory at the capacity), then dynamic programming over undominated
    partial choices, restricted to those whose reduced cost fits between that bound and a limit,
    which starts close to the bound: a choice within a limit is found if there is one.
    """
    over_cost, over = select(menu, 0.0, pick)
    if over_cost > target:
        return NONE, np.inf
    if over <= capacity:
        return FOUND, over_cost
    best_pick = np.empty_like(pick)
    best, under = select(menu, np.inf, best_pick)
    if under > capacity:
        return NONE, np.inf
    line = (over_cost, over, best, under)
    bound, rate, best = _approach(menu, capacity, (target, early), line, best_pick)
    known = best <= target
    if not known and bound > target * (1.0 + _TINY):
        return NONE, np.inf
    status, found = NONE, np.inf
    if not (known and (early or best - bound <= _TINY * best)):
        limit, share = min(best, target), 1.0 / 4096
        while status == NONE and share <= 1.0:
            upper = limit if share == 1.0 else bound + share * (limit - bound)
            status, found = _between(menu, capacity, (bound, upper, rate), pick)
            share *= 4.0
    if known and found >= best:
        copy(best_pick, pick)
        return max(status, FOUND), best
    return status, found


@compiled
def _approach(
    menu: Menu,
    capacity: float,
    goal: tuple[float, bool],
    line: tuple[float, float, float, float],
    best_pick: _Integers,
) -> tuple[float, float, float]:
    """Approach the hull of cost over memory at the capacity, from a point on either side of it.

    Returns the Lagrangian bound, its multiplier, and the cost of the best choice met, which
    ``best_pick`` receives; ends early when the bound is above the target, or any choice will do.
    """
    over_cost, over, under_cost, under = line
    target, early = goal
    pick = np.empty_like(best_pick)
    best, bound, rate = under_cost, over_cost, 0.0
    while bound <= target * (1.0 + _TINY) and not (early and best <= target):
        slope = (under_cost - over_cost) / (over - under)
        total, used = select(menu, slope, pick)
        value = total + slope * (used - capacity)
        if value > bound:
            bound, rate = value, slope
        if total + slope * used >= (over_cost + slope * over) * (1.0 - _TINY):
            break  # nothing is below the line through the two: the bound cannot rise
        if used > capacity:
            over, over_cost = used, total
            continue
        under, under_cost = used, total
        if total < best:
            best = total
            copy(pick, best_pick)
    return bound, rate, best


@compiled
def _between(
    menu: Menu, capacity: float, window: tuple[float, float, float], pick: _Integers
) -> tuple[int, float]:
    """Search all choices between a bound and a limit, given the bound's multiplier."""
    bound, limit, rate = window
    used, cost = np.empty(MAX_STATES), np.empty(MAX_STATES)
    lost = np.empty(MAX_STATES)  # reduced cost
    parent, option = np.empty(MAX_STATES, np.int64), np.empty(MAX_STATES, np.int64)
    used[0], cost[0], lost[0] = 0.0, 0.0, 0.0
    _, room = select(menu, np.inf, pick)  # least memory of the items that are left
    room = capacity - room
    select(menu, rate, pick)
    slack = limit - bound + _TINY * limit
    turn = np.empty(len(menu.cost), np.int64)
    begin, end = 0, 1
    for i in range(len(pick)):
        first, after = menu.start[i], menu.start[i + 1]
        least = menu.cost[pick[i]] + rate * menu.memory[pick[i]]
        small = np.inf
        for c in range(first, after):
            small = min(small, menu.memory[c])
            turn[c] = begin
        room += small
        size, cheapest = end, np.inf
        while size < MAX_STATES:  # merge the lists of the options, each by memory
            best, small, cheap = -1, np.inf, np.inf
            for c in range(first, after):
                loss = menu.cost[c] + rate * menu.memory[c] - least
                at = turn[c]
                while at < end and (
                    cost[at] + menu.cost[c] >= cheapest
                    or lost[at] + loss > slack
                    or used[at] + menu.memory[c] > room
                ):
                    at += 1
                turn[c] = at
                if at < end and (
                    (used[at] + menu.memory[c], cost[at] + menu.cost[c]) < (small, cheap)
                ):
                    best, small, cheap = c, used[at] + menu.memory[c], cost[at] + menu.cost[c]
            if best < 0:
                break
            at = turn[best]
            turn[best] += 1
            used[size], cost[size], parent[size], option[size] = small, cheap, at, best
            lost[size] = lost[at] + menu.cost[best] + rate * menu.memory[best] - least
            cheapest = cheap
            size += 1
        begin, end = end, size
        if end in (begin, MAX_STATES):
            return (NONE if begin == end else UNKNOWN), np.inf
    at = end - 1  # the cheapest is the last: cost falls with memory
    total = cost[at]
    for i in range(len(pick) - 1, -1, -1):
        pick[i] = option[at]
        at = parent[at]
    return (FOUND if total <= limit else NONE), total
