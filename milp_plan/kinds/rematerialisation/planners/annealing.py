"""Simulated annealing over the runs and their times, in a compiled loop.

A move removes an added run, or shifts one, and then releases idle outputs where too much is held,
a few times; worse plans are accepted with a probability that falls over time (Kirkpatrick, Gelatt,
Vecchi 1983, Science 220).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from milp_plan.core.compiled import compiled, copy_into

from ..problem import RematerialisationProblem
from .greedy import ROOM, tables
from .loops import (
    AGAIN,
    BITS,
    COST,
    MASK,
    SIZE,
    Integers,
    add_chain,
    cost_of,
    excess,
    hold,
    next_reader,
    reads,
    remove,
)

HOT, COLD = 1.0, 0.02
"""First and last temperature, in costs of a mean added run."""

COOLING = 60_000
"""Moves of one cooling run."""

BLOCK = 2_000
"""Moves between two readings of the clock."""

TRIES = 4
"""Number of releases per move."""

DEAR = 2.0
"""Cost of a byte of excess, as a multiple of the first plan's costs per byte."""


NONE = 2**62
"""More than any cost: no plan within the budget is known."""

GUESS = 0.1
"""Shares of added time and of added operators where no plan shows them."""


class AnnealedKeys(NamedTuple):
    """State of annealing: current and best keys; numbers in ``[current, best, best cost]``."""

    keys: Integers
    best: Integers
    numbers: Integers


@compiled
def fullest(held: Integers, count: int, budget: int) -> int:
    """Return a random one of the runs above the budget; -1 where there is none."""
    found, seen = -1, 0
    for number in range(count):
        if held[number] > budget:
            seen += 1
            if np.random.random() * seen < 1.0:
                found = number
    return found


@compiled
def let_go(  # noqa: PLR0917
    table: Integers,
    first: Integers,
    inputs: Integers,
    keys: Integers,
    count: int,
    last: Integers,
    peak: int,
    stack: Integers,
) -> int:
    """Run an output that idles across a run again later: the cheapest per byte of a few."""
    chosen, least, seen = -1, np.inf, 0
    reader = keys[peak] & MASK
    for number in range(peak):
        operator = keys[number] & MASK
        if last[number] <= peak or not table[AGAIN, operator] or not table[SIZE, operator]:
            continue
        if reads(first, inputs, reader, operator):
            continue
        seen += 1
        rate = (table[COST, operator] + 1.0) / table[SIZE, operator]
        rate *= -np.log(1.0 - np.random.random())
        if rate < least:
            chosen, least = number, rate
    if chosen < 0:
        return count
    operator = keys[chosen] & MASK
    user = next_reader(first, inputs, keys, count, operator, peak + 1)
    stage = keys[user] >> BITS
    share = 0.0 if np.random.random() < 0.5 else np.random.random()
    if np.random.random() < 0.1:
        low = keys[peak] >> BITS
        stage = low + 1 + int(np.random.random() * (stage - low)) if stage > low else stage
        stage = max(stage, operator + 1)
    return add_chain(table, first, inputs, keys, count, last, stage, operator, share, stack)


@compiled
def anneal(  # noqa: PLR0917
    table: Integers,
    first: Integers,
    inputs: Integers,
    budget: int,
    state: AnnealedKeys,
    moves: int,
    heat: float,
    fall: float,
    price: float,
    seed: int,
) -> None:
    """Make moves from a state; the best keys are stored in it."""
    np.random.seed(seed)
    n = table.shape[1]
    space = len(state.keys)
    made = np.zeros(n, np.int64)
    last, held = np.zeros(space, np.int64), np.zeros(space + 1, np.int64)
    trial, stack = np.zeros(space, np.int64), np.zeros(n + 1, np.int64)
    keys, count = state.keys, state.numbers[0]
    hold(table, first, inputs, keys, count, made, last, held)
    worth = cost_of(table, keys, count) + price * excess(held, count, budget)
    for _ in range(moves):
        heat *= fall
        copy_into(keys[:count], trial)
        size = count
        away = 0 if count == n else 1 + int(np.random.random() * 2.0)
        for _ in range(away):
            if size > n:
                place = int(np.random.random() * size)
                while (trial[place] & MASK) == (trial[place] >> BITS):
                    place = int(np.random.random() * size)
                size = remove(trial, size, place)
        over, cost = 0.0, 0
        for attempt in range(TRIES + 1):
            hold(table, first, inputs, trial, size, made, last, held)
            over = excess(held, size, budget)
            if over == 0.0 or attempt == TRIES:
                break
            peak = fullest(held, size, budget)
            size = let_go(table, first, inputs, trial, size, last, peak, stack)
        cost = cost_of(table, trial, size)
        new = cost + price * over
        if new <= worth - heat * np.log(1.0 - np.random.random()):
            worth, count = new, size
            copy_into(trial[:count], keys)
            if over == 0.0 and cost < state.numbers[2]:
                state.numbers[1], state.numbers[2] = count, cost
                copy_into(trial[:count], state.best)
    state.numbers[0] = count


class Annealing:
    """A search from a plan, which may exceed the budget.

    Parameters
    ----------
    problem
        The problem, with a budget.
    keys
        The plan, see :mod:`.loops`.
    seed
        Seed of the random numbers.
    """

    def __init__(self, problem: RematerialisationProblem, keys: Integers, seed: int = 0) -> None:
        self.problem, self.table, self.seed = problem, tables(problem), seed
        table, count = self.table, len(problem.computations)
        space = len(keys) + ROOM * count + 2
        both = np.zeros((2, space), np.int64)
        both[:, : len(keys)] = keys
        held = np.zeros(len(keys) + 1, np.int64)
        made, last = np.zeros(count, np.int64), np.zeros(len(keys), np.int64)
        hold(table.rows, table.first, table.inputs, keys, len(keys), made, last, held)
        cost = cost_of(table.rows, keys, len(keys))
        fits = excess(held, len(keys), table.budget) == 0.0
        self.state = AnnealedKeys(
            both[0], both[1], np.array([len(keys), len(keys), cost if fits else NONE])
        )
        over = sum(max(0, amount - table.budget) for amount in problem.held)
        paid = cost if fits else GUESS * problem.total_cost
        added = len(keys) - count if fits else GUESS * count
        self.price = DEAR * max(1.0, paid) / max(1, over)
        self.mean = max(1.0, paid / max(1.0, added))

    @property
    def value(self) -> int | None:
        """Added time of the best plan within the budget, if there is one."""
        value = int(self.state.numbers[2])
        return None if value == NONE else value

    @property
    def best(self) -> Integers:
        """Return the keys of the best plan."""
        return self.state.best[: self.state.numbers[1]].copy()

    def adopt(self, keys: Integers) -> None:
        """Continue from another plan within the budget if it is better than the best."""
        cost = cost_of(self.table.rows, keys, len(keys))
        if cost < self.state.numbers[2]:
            self.state.best[: len(keys)] = keys
            self.state.numbers[1:] = len(keys), cost

    def cool(
        self, go_on: Callable[[], bool], on_better: Callable[[], None], moves: int = COOLING
    ) -> None:
        """Cool once from the best plan; ``go_on`` is called every few moves."""
        numbers = self.state.numbers
        if self.value is not None:
            numbers[0] = numbers[1]
            self.state.keys[: numbers[1]] = self.state.best[: numbers[1]]
        fall = (COLD / HOT) ** (1.0 / moves)
        heat, known = HOT * self.mean, self.value
        for _ in range(0, moves, BLOCK):
            if not go_on():
                return
            self.seed += 1
            table = self.table
            anneal(
                table.rows,
                table.first,
                table.inputs,
                table.budget,
                self.state,
                BLOCK,
                heat,
                fall,
                self.price,
                self.seed,
            )
            heat *= fall**BLOCK
            if self.value != known:
                known = self.value
                on_better()
