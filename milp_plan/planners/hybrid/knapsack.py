"""One configuration for each layer of a stage: least cost within a memory, exact."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from milp_plan.core.compiled import compiled

NONE, FOUND, UNKNOWN = 0, 1, 2
"""No choice within memory and target; one was found; given up before either was known."""

MOST_STATES = 300_000
"""Partial choices kept in one exact search before it is given up."""

_TINY = 1e-12
_Floats = npt.NDArray[np.float64]
_Integers = npt.NDArray[np.int64]


@compiled
def select(
    start: _Integers, cost: _Floats, memory: _Floats, rate: float, pick: _Integers
) -> tuple[float, float]:
    """Pick for each item what is least in cost + rate * memory; return its cost and memory.

    Ties go to the smaller memory. An infinite rate asks for the least memory, then cost.
    """
    total, used = 0.0, 0.0
    for i in range(len(start) - 1):
        best = start[i]
        for c in range(start[i] + 1, start[i + 1]):
            if np.isinf(rate):
                ahead = memory[c] - memory[best]
                tie = cost[c] < cost[best]
            else:
                ahead = cost[c] - cost[best] + rate * (memory[c] - memory[best])
                tie = memory[c] < memory[best]
            if ahead < 0 or (ahead == 0 and tie):
                best = c
        pick[i] = best
        total += cost[best]
        used += memory[best]
    return total, used


@compiled
def choose(
    start: _Integers,
    cost: _Floats,
    memory: _Floats,
    capacity: float,
    target: float,
    early: bool,
    pick: _Integers,
) -> tuple[int, float]:
    """Choose one option for each item, so that memory fits and the cost is least.

    Parameters
    ----------
    start
        Options of item i are numbered ``start[i]`` to ``start[i + 1] - 1``.
    cost, memory
        Of each option; not negative.
    capacity
        Of memory.
    target
        Nothing dearer is asked for.
    early
        Any choice within the target will do.
    pick
        Receives the option of each item.

    Returns
    -------
    tuple
        ``NONE``, ``FOUND`` or ``UNKNOWN``, and the cost of what was found.

    Notes
    -----
    Lagrangian bound on the memory row (its best multiplier is the slope of a line that approaches
    the lower hull of cost over memory at the capacity), then dynamic programming over undominated partial choices,
    restricted to those whose reduced cost fits between that bound and the best choice known.
    """
    least, used = select(start, cost, memory, 0.0, pick)
    if least > target:
        return NONE, np.inf
    if used <= capacity:
        return FOUND, least
    best_pick = np.empty_like(pick)
    best, light = select(start, cost, memory, np.inf, best_pick)
    if light > capacity:
        return NONE, np.inf
    over, over_cost, under, under_cost = used, least, light, best
    bound, rate = least, 0.0
    for _ in range(200):
        if (early and best <= target) or bound > target * (1.0 + _TINY):
            break
        slope = (under_cost - over_cost) / (over - under)
        total, used = select(start, cost, memory, slope, pick)
        bound, rate = max(bound, total + slope * (used - capacity)), slope
        if total + slope * used >= (over_cost + slope * over) * (1.0 - _TINY):
            break  # no choice below the line through the two: the bound is the best there is
        if used <= capacity:
            under, under_cost = used, total
            if total < best:
                best = total
                best_pick[:] = pick
        else:
            over, over_cost = used, total
    if bound > target * (1.0 + _TINY):
        return NONE, np.inf
    if best <= target and (early or best - bound <= _TINY * best):
        pick[:] = best_pick
        return FOUND, best
    status, found = _between(start, cost, memory, capacity, min(best, target), bound, rate, pick)
    if status == FOUND and found <= target:
        return FOUND, found
    if best <= target:
        pick[:] = best_pick
        return (UNKNOWN if status == UNKNOWN else FOUND), best
    return status if status == UNKNOWN else NONE, np.inf


@compiled
def _between(
    start: _Integers,
    cost: _Floats,
    memory: _Floats,
    capacity: float,
    upper: float,
    bound: float,
    rate: float,
    pick: _Integers,
) -> tuple[int, float]:
    """Search all choices that cost between the bound and ``upper``."""
    items = len(start) - 1
    slack = upper - bound + _TINY * upper
    lightest = np.zeros(items + 1)  # of the items from i on
    reduced = np.empty(len(cost))
    for i in range(items - 1, -1, -1):
        least, small = np.inf, np.inf
        for c in range(start[i], start[i + 1]):
            least = min(least, cost[c] + rate * memory[c])
            small = min(small, memory[c])
        lightest[i] = lightest[i + 1] + small
        for c in range(start[i], start[i + 1]):
            reduced[c] = cost[c] + rate * memory[c] - least
    s_used, s_cost, s_reduced = np.zeros(1), np.zeros(1), np.zeros(1)
    parents = np.empty(MOST_STATES, np.int64)
    options = np.empty(MOST_STATES, np.int64)
    begins = np.zeros(items + 1, np.int64)
    kept = 0
    for i in range(items):
        room = len(s_used) * (start[i + 1] - start[i])
        n_used, n_cost, n_reduced = np.empty(room), np.empty(room), np.empty(room)
        n_parent, n_option = np.empty(room, np.int64), np.empty(room, np.int64)
        size = 0
        for state in range(len(s_used)):
            for c in range(start[i], start[i + 1]):
                total = s_reduced[state] + reduced[c]
                used = s_used[state] + memory[c]
                if total <= slack and used + lightest[i + 1] <= capacity:
                    n_used[size], n_reduced[size] = used, total
                    n_cost[size] = s_cost[state] + cost[c]
                    n_parent[size], n_option[size] = state, c
                    size += 1
        order = np.argsort(n_used[:size], kind="mergesort")
        # equal memories: the cheapest must come first to be kept alone
        last_used, last_cost, count = -1.0, np.inf, 0
        chosen = np.empty(size, np.int64)
        for place in order:
            if n_cost[place] < last_cost:
                if n_used[place] == last_used:
                    count -= 1
                chosen[count] = place
                count += 1
                last_used, last_cost = n_used[place], n_cost[place]
        if kept + count > MOST_STATES:
            return UNKNOWN, np.inf
        begins[i] = kept
        for place in range(count):
            parents[kept + place] = n_parent[chosen[place]]
            options[kept + place] = n_option[chosen[place]]
        kept += count
        take = chosen[:count]
        s_used, s_cost, s_reduced = n_used[take], n_cost[take], n_reduced[take]
    if len(s_cost) == 0:
        return NONE, np.inf
    state = np.argmin(s_cost)
    found = s_cost[state]
    for i in range(items - 1, -1, -1):
        pick[i] = options[begins[i] + state]
        state = parents[begins[i] + state]
    return FOUND, found
