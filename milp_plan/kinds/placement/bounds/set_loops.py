"""Most expensive sets of classes by load, by a dynamic programme along a sweep; compiled.

Loads and prices are integers; operations on a table of states and loads take two of its rows at
a time, so that the processor works on many loads at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

NONE = -(1 << 61)
"""Price where no set exists; prices of sets are far above half of it."""


class Moves(NamedTuple):
    """Moves of a sweep (:mod:`.sweep`): those of step s are ``start[s]`` and on.

    ``source`` and ``target`` are states, ``inside`` says whether the class is taken, ``load`` what
    the move adds; ``number`` is the class of a step, ``states`` the number of states after it.
    """

    start: Ints
    source: Ints
    target: Ints
    inside: Ints
    load: Ints
    number: Ints
    states: Ints


@compiled
def best_prices(moves: Moves, price: Ints, cells: int, trail: Bytes) -> Ints:
    """Return the largest price of a set of each load up to ``cells``.

    Parameters
    ----------
    trail : shape (sum of states, cells + 1) or (0, 0)
        Gets, for each state and load, the move that leads there; nothing where it is empty.
    """
    table = np.full((1, cells + 1), NONE)
    table[0, 0] = 0
    passed = 0
    for step in range(len(moves.number)):
        first = moves.start[step]
        after = np.full((moves.states[step], cells + 1), NONE)
        for move in range(first, moves.start[step + 1]):
            added, state = moves.load[move], moves.target[move]
            if added > cells:
                continue
            gain = price[moves.number[step]] if moves.inside[move] else 0
            old, new = table[moves.source[move]], after[state, added:]
            if len(trail) == 0:
                for load in range(cells + 1 - added):
                    new[load] = max(new[load], old[load] + gain)
                continue
            came, code = trail[passed + state, added:], np.uint8(move - first)
            for load in range(cells + 1 - added):
                better = old[load] + gain > new[load]
                new[load] = old[load] + gain if better else new[load]
                came[load] = code if better else came[load]
        passed += moves.states[step]
        table = after
    found: Ints = table[0]
    return found


@compiled
def trace(moves: Moves, trail: Bytes, load: int) -> NDArray[np.bool_]:
    """Return which classes are in the most expensive set of a load."""
    chosen = np.zeros(len(moves.number), dtype=np.bool_)
    state, passed = 0, len(trail)
    for step in range(len(moves.number) - 1, -1, -1):
        passed -= moves.states[step]
        move = moves.start[step] + trail[passed + state, load]
        chosen[moves.number[step]] = moves.inside[move] == 1
        load -= moves.load[move]
        state = moves.source[move]
    return chosen


@compiled
def best_held(loads: Ints, price: Ints, cells: int, taken: NDArray[np.bool_]) -> Ints:
    """Return the largest price that a host can hold at each load up to ``cells``; a knapsack.

    Parameters
    ----------
    loads
        Of the classes; negative where a class cannot run.
    taken : shape (classes, cells + 1), all false, or (0, 0)
        Becomes true where a class is taken.
    """
    best = np.zeros(cells + 1, dtype=np.int64)
    for number in range(len(loads)):
        if price[number] <= 0 or loads[number] < 0:
            continue
        for load in range(cells, loads[number] - 1, -1):
            value = best[load - loads[number]] + price[number]
            if value > best[load]:
                best[load] = value
                if len(taken):
                    taken[number, load] = True
    return best


@compiled
def load_of(moves: Moves, inside: NDArray[np.bool_]) -> int:
    """Return the cells of a set."""
    state, load = 0, 0
    for step in range(len(moves.number)):
        wanted = inside[moves.number[step]]
        for move in range(moves.start[step], moves.start[step + 1]):
            if moves.source[move] == state and (moves.inside[move] == 1) == wanted:
                load += moves.load[move]
                state = moves.target[move]
                break
    return load
