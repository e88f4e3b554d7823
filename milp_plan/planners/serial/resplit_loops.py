"""Loops that split the classes of two devices anew, along an order; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled

Ints = NDArray[np.int64]

NEVER = 1 << 62
"""Load that nothing has."""


class Splits(NamedTuple):
    """Moves from state to state: those of step s are ``start[s]:start[s + 1]``.

    A move puts the class of the step on the first device or on the second (``side``) and adds to
    the loads of both; ``states`` is the number of states after each step.
    """

    start: Ints
    source: Ints
    target: Ints
    side: Ints
    first: Ints
    second: Ints
    states: Ints


@compiled
def frontier(splits: Splits, cells: int, shift: int, trail: NDArray[np.uint8]) -> tuple[Ints, Ints]:
    """Loads of the first device, one in each cell, each with the least found of the second.

    A cell keeps one pair of loads, unrounded, the one with the least load of the second device;
    cells that nothing reaches have ``NEVER`` there.

    Parameters
    ----------
    shift
        Binary digits of a load within its cell; what is beyond the last cell is left out.
    trail : shape (sum of states, cells)
        Gets the move that leads to each state and cell.
    """
    one, two = np.zeros((1, cells), dtype=np.int64), np.full((1, cells), NEVER)
    two[0, 0] = 0
    passed = 0
    for step in range(len(splits.states)):
        begin, states = splits.start[step], splits.states[step]
        new_one = np.zeros((states, cells), dtype=np.int64)
        new_two = np.full((states, cells), NEVER)
        for move in range(begin, splits.start[step + 1]):
            source, target = splits.source[move], splits.target[move]
            for cell in range(cells):
                if two[source, cell] == NEVER:
                    continue
                first = one[source, cell] + splits.first[move]
                second = two[source, cell] + splits.second[move]
                at = first >> shift
                if at < cells and second < new_two[target, at]:
                    new_one[target, at], new_two[target, at] = first, second
                    trail[passed + target, at] = move - begin
        passed += states
        one, two = new_one, new_two
    return one[0], two[0]


@compiled
def follow(splits: Splits, shift: int, trail: NDArray[np.uint8], load: int) -> Ints:
    """Side of the class of each step on the way to a load of the first device."""
    sides = np.zeros(len(splits.states), dtype=np.int64)
    state, passed = 0, len(trail)
    for step in range(len(splits.states) - 1, -1, -1):
        passed -= splits.states[step]
        move = splits.start[step] + trail[passed + state, load >> shift]
        sides[step] = splits.side[move]
        load -= splits.first[move]
        state = splits.source[move]
    return sides
