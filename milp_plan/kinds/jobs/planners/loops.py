"""Loops over lists of jobs: starts of a list, and annealing over orders and options.

A list is an order of jobs and an option for each (-1: the one that ends first where its turn
comes). Devices of a pool are sorted by when they are free; a job takes, of those that are free when
the last one it needs is, the ones that were free last, so that early ones stay for what needs few.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled, copy_into

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

POOL, DEVICES, TICKS = 0, 1, 2
"""Rows of the table of options."""

MAKESPAN, COMPLETION = 0, 1
"""Objectives."""


@compiled
def starts_of(  # noqa: PLR0917 (loops take arrays)
    options: Integers,
    first: Integers,
    release: Integers,
    bases: Integers,
    order: Integers,
    choice: Integers,
    free: Integers,
    start: Integers,
    taken: Integers,
) -> None:
    """Start every job of a list; ``taken`` tells the options where -1 left them open."""
    free[:] = 0
    for turn in range(order.shape[0]):
        job = order[turn]
        option = choice[job]
        if option < 0:
            soonest = np.int64(0)
            for number in range(first[job], first[job + 1]):
                base, count = bases[options[POOL, number]], options[DEVICES, number]
                end = max(release[job], free[base + count - 1]) + options[TICKS, number]
                if option < 0 or end < soonest:
                    option, soonest = number, end
        base, stop = bases[options[POOL, option]], bases[options[POOL, option] + 1]
        count = options[DEVICES, option]
        begin = max(release[job], free[base + count - 1])
        start[job] = begin
        taken[job] = option
        _hold(free, base, stop, begin, count, begin + options[TICKS, option])


@compiled
def _hold(  # noqa: PLR0917
    free: Integers, base: int, stop: int, begin: int, count: int, end: int
) -> None:
    """Let some devices that are free at an instant, the latest of them, be free at another."""
    low, high = base + count, stop
    while low < high:  # the first that is free later
        middle = (low + high) // 2
        if free[middle] <= begin:
            low = middle + 1
        else:
            high = middle
    place = low
    while place < stop and free[place] < end:
        free[place - count] = free[place]
        place += 1
    for number in range(place - count, place):
        free[number] = end


@compiled
def cost_of(  # noqa: PLR0917
    options: Integers,
    weight: Integers,
    objective: int,
    slope: float,
    free: Integers,
    start: Integers,
    taken: Integers,
) -> tuple[int, float]:
    """Value of the objective, and with it a little of how long devices are held."""
    value = 0
    for job in range(start.shape[0]):
        end = int(start[job]) + options[TICKS, taken[job]]
        value = max(value, end) if objective == MAKESPAN else value + weight[job] * end
    held = 0.0
    for device in range(free.shape[0]):
        held += float(free[device])
    return value, value + slope * held / free.shape[0]


@compiled
def anneal(  # noqa: PLR0917
    options: Integers,
    first: Integers,
    release: Integers,
    weight: Integers,
    bases: Integers,
    objective: int,
    order: Integers,
    choice: Integers,
    rounds: int,
    hot: float,
    cold: float,
    seed: int,
) -> int:
    """Change a list step by step; leave the best one found in it, and return its value."""
    np.random.seed(seed)
    jobs = order.shape[0]
    free = np.zeros(bases[-1], np.int64)
    start, taken = np.zeros(jobs, np.int64), np.zeros(jobs, np.int64)
    slope = 0.05 if objective == MAKESPAN else 0.0
    starts_of(options, first, release, bases, order, choice, free, start, taken)
    best, cost = cost_of(options, weight, objective, slope, free, start, taken)
    copy_into(taken, choice)
    lowest = cost
    best_order, best_choice = order.copy(), choice.copy()
    for turn in range(rounds):
        heat = hot * (cold / hot) ** (turn / rounds)
        a, b = np.random.randint(jobs), np.random.randint(jobs)
        job, old = order[a], choice[order[a]]
        swaps = np.random.random() < 0.5
        if swaps:
            order[a], order[b] = order[b], order[a]
        else:
            choice[job] = np.random.randint(first[job], first[job + 1])
        if (swaps and a == b) or (not swaps and choice[job] == old):
            continue
        starts_of(options, first, release, bases, order, choice, free, start, taken)
        value, new = cost_of(options, weight, objective, slope, free, start, taken)
        if new <= cost or np.random.random() < np.exp((cost - new) / (heat * max(1.0, lowest))):
            cost = new
            if value < best or (value == best and new < lowest):
                best, lowest = value, new
                copy_into(order, best_order)
                copy_into(choice, best_choice)
        elif swaps:
            order[a], order[b] = order[b], order[a]
        else:
            choice[job] = old
    copy_into(best_order, order)
    copy_into(best_choice, choice)
    return best
