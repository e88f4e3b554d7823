"""Loops over runs: memory of runs, single changes, and annealing over sets of changes.

A plan is a sorted list of keys ``stage << BITS | operator``: stage t ends with the first run of
operator t, before which any operators below t run again, each once, in their order.
What is held follows: a copy lasts until its last reader before the operator runs again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled, copy_into

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

BITS = 24
MASK = (1 << BITS) - 1
"""Mask of the operator in a key."""

COST, SIZE, AGAIN = 0, 1, 2
"""Rows of the table of operators."""


@compiled
def hold(  # noqa: PLR0917 (loops take arrays)
    table: Integers,
    first: Integers,
    inputs: Integers,
    keys: Integers,
    count: int,
    made: Integers,
    last: Integers,
    held: Integers,
) -> None:
    """Derive ``last`` (the run that reads each copy last) and ``held`` (bytes) of each run."""
    for number in range(count + 1):
        held[number] = 0
    for number in range(count):
        operator = keys[number] & MASK
        for place in range(first[operator], first[operator + 1]):
            last[made[inputs[place]]] = number
        made[operator] = number
        last[number] = number
    for number in range(count):
        size = table[SIZE, keys[number] & MASK]
        held[number] += size
        held[last[number] + 1] -= size
    for number in range(1, count):
        held[number] += held[number - 1]


@compiled
def excess(held: Integers, count: int, budget: int) -> float:
    """Return the bytes above the budget, summed over runs."""
    total = 0.0
    for number in range(count):
        if held[number] > budget:
            total += held[number] - budget
    return total


@compiled
def find(keys: Integers, count: int, key: int) -> int:
    """Return the position of the first key that is not below ``key``."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def insert(keys: Integers, count: int, key: int) -> int:
    """Add a key, unless it is there; return the number of keys."""
    place = find(keys, count, key)
    if (place < count and keys[place] == key) or count + 2 > len(keys):
        return count
    for number in range(count, place, -1):
        keys[number] = keys[number - 1]
    keys[place] = key
    return count + 1


@compiled
def remove(keys: Integers, count: int, place: int) -> int:
    """Remove the key at a position; return the number of keys."""
    for number in range(place, count - 1):
        keys[number] = keys[number + 1]
    return count - 1


@compiled
def reads(first: Integers, inputs: Integers, reader: int, operator: int) -> bool:
    """Return whether an operator reads another's output."""
    for place in range(first[reader], first[reader + 1]):  # noqa: SIM110 (no generators in numba)
        if inputs[place] == operator:
            return True
    return False


@compiled
def next_reader(  # noqa: PLR0917
    first: Integers, inputs: Integers, keys: Integers, count: int, operator: int, begin: int
) -> int:
    """Return the first run from ``begin`` on that reads an operator's output."""
    for number in range(begin, count):
        if reads(first, inputs, keys[number] & MASK, operator):
            return number
    return count


@compiled
def add_chain(  # noqa: PLR0917
    table: Integers,
    first: Integers,
    inputs: Integers,
    keys: Integers,
    count: int,
    last: Integers,
    stage: int,
    operator: int,
    share: float,
    stack: Integers,
) -> int:
    """Run an operator again in a stage, and with it inputs that are not held there.

    ``last`` belongs to ``keys`` as they are before. Each input that is not held is run again with
    probability ``share``; otherwise its last copy is kept until then.
    """
    size = 1
    stack[0] = operator
    old = keys[:count].copy()
    before = count
    begin = find(old, before, stage << BITS)
    while size:
        size -= 1
        again = stack[size]
        count = insert(keys, count, (stage << BITS) + again)
        for place in range(first[again], first[again + 1]):
            source = inputs[place]
            if not table[AGAIN, source]:
                continue
            idle = True
            for number in range(begin - 1, -1, -1):
                if old[number] & MASK == source:
                    idle = last[number] < begin
                    break
            key = (stage << BITS) + source
            there = find(keys, count, key)
            if there < count and keys[there] == key:
                continue
            if idle and np.random.random() < share and size + 1 < len(stack):
                stack[size] = source
                size += 1
    return count


@compiled
def cost_of(table: Integers, keys: Integers, count: int) -> int:
    """Return the ticks of all runs, less those of one run of each operator."""
    n = table.shape[1]
    total = 0
    for number in range(count):
        operator = keys[number] & MASK
        total += table[COST, operator]
    for operator in range(n):
        total -= table[COST, operator]
    return total


@compiled
def hope(held: Integers, begin: int, end: int, size: int, budget: int) -> float:
    """Return the most excess that releasing bytes from run ``begin`` to before ``end`` removes."""
    total = 0.0
    for number in range(begin, end):
        if held[number] > budget:
            total += min(size, held[number] - budget)
    return total


@compiled
def relieve(  # noqa: C901, PLR0912, PLR0917
    table: Integers,
    first: Integers,
    inputs: Integers,
    keys: Integers,
    count: int,
    budget: int,
    seed: int,
    noise: float,
    most: int,
) -> int:
    """Peak-directed greedy: while a run exceeds the budget, release outputs that idle across it.

    Each candidate is run again just before its next reader, alone or with all inputs that are not
    held there; the least time per byte of excess removed is taken, most promising ones first.
    Returns the number of keys, or -1 where nothing helps any more.
    """
    np.random.seed(seed)
    n = table.shape[1]
    space = len(keys)
    made = np.zeros(n, np.int64)
    last, held = np.zeros(space, np.int64), np.zeros(space + 1, np.int64)
    last2, held2 = np.zeros(space, np.int64), np.zeros(space + 1, np.int64)
    trial, best = np.zeros(space, np.int64), np.zeros(space, np.int64)
    stack = np.zeros(n + 1, np.int64)
    places, stages = np.zeros(n, np.int64), np.zeros(n, np.int64)
    rates = np.zeros(n, np.float64)
    for _ in range(most):
        hold(table, first, inputs, keys, count, made, last, held)
        over = excess(held, count, budget)
        if over == 0.0:
            return count
        peak = 0
        for number in range(count):
            if held[number] > held[peak]:
                peak = number
        now = cost_of(table, keys, count)
        some = 0
        for number in range(peak):
            operator = keys[number] & MASK
            if last[number] <= peak or not table[AGAIN, operator] or not table[SIZE, operator]:
                continue
            if reads(first, inputs, keys[peak] & MASK, operator):
                continue
            user = next_reader(first, inputs, keys, count, operator, peak + 1)
            promise = hope(held, number, user, table[SIZE, operator], budget)
            places[some], stages[some] = operator, keys[user] >> BITS
            rates[some] = (table[COST, operator] + 1e-9) / promise
            some += 1
        best_rate, best_count = np.inf, -1
        for chosen in np.argsort(rates[:some]):
            if rates[chosen] >= best_rate:
                break
            for share in (0.0, 1.0):
                copy_into(keys[:count], trial)
                size = add_chain(
                    table,
                    first,
                    inputs,
                    trial,
                    count,
                    last,
                    stages[chosen],
                    places[chosen],
                    share,
                    stack,
                )
                if size == count or (share == 1.0 and size == count + 1):
                    continue
                hold(table, first, inputs, trial, size, made, last2, held2)
                gain = over - excess(held2, size, budget)
                if gain <= 0.0:
                    continue
                rate = (cost_of(table, trial, size) - now + 1e-9) / gain
                if noise > 0.0:
                    rate *= 1.0 + noise * np.random.random()
                if rate < best_rate:
                    best_rate, best_count = rate, size
                    copy_into(trial[:size], best)
        if best_count < 0:
            return -1
        count = best_count
        copy_into(best[:count], keys)
    return -1
