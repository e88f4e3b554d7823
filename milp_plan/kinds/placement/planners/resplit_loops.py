"""Loops that split the classes of two devices along an order; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled, copy_into

Ints = NDArray[np.int64]

NEVER = 1 << 62
"""Load that no device has."""

MAX_STATES = 1 << 13
"""Largest number of states of a pair, over all its classes."""

MAX_ABREAST = 128
"""Largest number of states after one class: a move is then a number of one byte."""

MAX_OPEN = 31
"""Largest number of open nets: a state is then a number of 62 bits."""


class Nets(NamedTuple):
    """Nets by class (those of c are ``nets[start[c]:start[c + 1]]``), their classes and costs."""

    start: Ints
    nets: Ints
    pins: Ints
    cost: Ints


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
def splits_of(  # noqa: C901, PLR0912, PLR0915 (one loop nest)
    nets: Nets, union: Ints, own: Ints, pays: Ints
) -> tuple[bool, Splits]:
    """Return the moves of a pair of devices; false where there are too many.

    A state says for each open net, in two bits of its slot, which sides it is on: 1, 2, or 3 for
    both. A net with classes elsewhere is paid by each side it is on, any other by both sides once
    it is on both.

    Parameters
    ----------
    union
        Classes of the pair, in order.
    own : shape (2, classes)
        Load of each class on either side; negative where it cannot be.
    pays : shape (2,)
        1 for a side that pays for nets, else 0.
    """
    left, slot = np.zeros(len(nets.cost), dtype=np.int64), np.full(len(nets.cost), -1)
    for number in union:
        for at in range(nets.start[number], nets.start[number + 1]):
            left[nets.nets[at]] += 1
    outer = left < nets.pins
    taken = np.zeros(MAX_OPEN, dtype=np.bool_)
    room = 2 * (MAX_STATES + 2 * MAX_ABREAST)
    rows = np.empty((5, room), dtype=np.int64)
    start, counts = np.zeros(len(union) + 1, dtype=np.int64), np.zeros(len(union), dtype=np.int64)
    states, many = np.zeros(MAX_ABREAST, dtype=np.int64), 1
    after = np.zeros(MAX_ABREAST, dtype=np.int64)
    moves, passed, able = 0, 0, True
    for step in range(len(union)):
        number, done = union[step], 0
        for at in range(nets.start[number], nets.start[number + 1]):
            net = nets.nets[at]
            if slot[net] < 0:
                for free in range(MAX_OPEN):
                    if not taken[free]:
                        slot[net], taken[free] = free, True
                        break
            able = able and slot[net] >= 0
            left[net] -= 1
            if left[net] == 0 and able:
                done |= 3 << 2 * slot[net]
        found = 0
        for before in range(many if able else 0):
            for side in range(2):
                if own[side, number] < 0:
                    continue
                state, one, two = states[before], 0, 0
                for at in range(nets.start[number], nets.start[number + 1]):
                    net = nets.nets[at]
                    place = 2 * slot[net]
                    known = (state >> place) & 3
                    if known & (1 << side):
                        continue
                    state |= (1 << side) << place
                    if side == 0 if outer[net] else known > 0:
                        one += nets.cost[net]
                    if side == 1 if outer[net] else known > 0:
                        two += nets.cost[net]
                state &= ~done
                target = 0
                while target < found and after[target] != state:
                    target += 1
                if target == MAX_ABREAST:
                    able = False
                    break
                after[target] = state
                found = max(found, target + 1)
                rows[0, moves], rows[1, moves], rows[2, moves] = before, target, side
                rows[3, moves] = pays[0] * one + (own[0, number] if side == 0 else 0)
                rows[4, moves] = pays[1] * two + (own[1, number] if side == 1 else 0)
                moves += 1
            if not able:
                break
        for at in range(nets.start[number], nets.start[number + 1]):
            net = nets.nets[at]
            if left[net] == 0 and able:
                taken[slot[net]] = False
        copy_into(after[:found], states)
        many, passed = found, passed + found
        able = able and found > 0 and passed <= MAX_STATES
        if not able:
            break
        start[step + 1], counts[step] = moves, found
    table = rows[:, :moves].copy()
    return able, Splits(start, table[0], table[1], table[2], table[3], table[4], counts)


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
    """Return the side of the class of each step on the way to a load of the first device."""
    sides = np.zeros(len(splits.states), dtype=np.int64)
    state, passed = 0, len(trail)
    for step in range(len(splits.states) - 1, -1, -1):
        passed -= splits.states[step]
        move = splits.start[step] + trail[passed + state, load >> shift]
        sides[step] = splits.side[move]
        load -= splits.first[move]
        state = splits.source[move]
    return sides
