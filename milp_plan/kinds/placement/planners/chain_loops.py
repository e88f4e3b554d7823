"""Compiled loops of the dynamic programme over chains of ideals; see ``chains.py``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled

Bits = NDArray[np.uint64]
Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Ints = NDArray[np.int32]


class Lattice(NamedTuple):
    """Ideals, each after its subsets, with their totals.

    Parameters
    ----------
    bits
        Bit sets of blocks.
    key
        Whole number of steps of work, ascending.
    table
        Work on payers by pass, work on hosts by pass, blocks that cannot run on payers, on hosts.
    size
        Bytes.
    crossing
        Cost of the nets with pins on both sides, by pass.
    start, nets
        Offset and number of these in ``nets``.
    pins, cost
        Blocks and costs of the nets.
    """

    bits: Bits
    key: Longs
    table: Floats
    size: Longs
    crossing: Floats
    start: Longs
    nets: Ints
    pins: Bits
    cost: Floats


class Devices(NamedTuple):
    """Capacities of the devices.

    Parameters
    ----------
    most
        Numbers of payers and of hosts.
    memory
        Memory of a payer, of a host.
    windows
        By state (payers used, hosts used): least and most work, least and most bytes.
    steps
        Steps of work that no device can take.
    """

    most: tuple[int, int]
    memory: tuple[int, int]
    windows: Floats
    steps: int


class Labels(NamedTuple):
    """Pairs of maxima, in lists by ideal and state.

    Parameters
    ----------
    head
        First label of each ideal and state, or -1.
    values
        Largest forward and backward load.
    following
        Next label, or -1.
    origin
        Ideal, state and label that it came from.
    used
        Number of labels.
    best
        Value that counts only if it is undercut; falls when a whole chain is found.
    """

    head: Ints
    values: Floats
    following: Ints
    origin: Longs
    used: Longs
    best: Floats


@compiled
def _within(bits: Bits, one: int, two: int) -> bool:
    """Return whether the one set is a part of the other."""
    found = True
    for word in range(bits.shape[1]):
        if bits[one, word] & ~bits[two, word]:
            found = False
            break
    return found


@compiled
def _target(lattice: Lattice, devices: Devices, new: int, state: int, kind: int) -> int:
    """State after one more device of a kind, or -1 where that cannot lead to a better plan."""
    columns = devices.most[1] + 1
    used = state // columns if kind == 0 else state % columns
    if used == devices.most[kind]:
        return -1
    target = state + (columns if kind == 0 else 1)
    work, size = lattice.table[new, 0] + lattice.table[new, 1], lattice.size[new]
    low, high = devices.windows[target, 0], devices.windows[target, 1]
    least, most = devices.windows[target, 2], devices.windows[target, 3]
    return target if low <= work <= high and least <= size <= most else -1


@compiled
def _wanted(labels: Labels, new: int, target: int, ahead: float, back: float) -> bool:
    """Return whether these maxima are better than what is known."""
    if ahead + back >= labels.best[0]:
        return False
    label = labels.head[new, target]
    while label >= 0:
        if labels.values[label, 0] <= ahead and labels.values[label, 1] <= back:
            return False
        label = labels.following[label]
    return True


@compiled
def _hopeful(
    lattice: Lattice, devices: Devices, labels: Labels, pair: tuple[int, int], load: Floats
) -> bool:
    """Whether a payer with at least this load could take the pair's difference to some use."""
    old, new = pair
    for state in range(labels.head.shape[1]):
        label = labels.head[old, state]
        if label < 0:
            continue
        target = _target(lattice, devices, new, state, 0)
        while label >= 0 and target >= 0:
            ahead = max(labels.values[label, 0], load[0])
            if _wanted(labels, new, target, ahead, max(labels.values[label, 1], load[1])):
                return True
            label = labels.following[label]
    return False


@compiled
def _add_transfers(lattice: Lattice, pair: tuple[int, int], load: Floats) -> None:
    """Add what the nets with pins in the pair's difference and outside it cost."""
    old, new = pair
    bits, pins = lattice.bits, lattice.pins
    for turn in range(2):
        load[turn] += lattice.crossing[old, turn] + lattice.crossing[new, turn]
    for at in range(lattice.start[old], lattice.start[old + 1]):
        net = lattice.nets[at]
        outside, grown = False, False
        for word in range(bits.shape[1]):
            if pins[net, word] & ~bits[new, word]:
                outside = True
            if pins[net, word] & bits[new, word] & ~bits[old, word]:
                grown = True
        if outside:
            for turn in range(2):
                load[turn] -= (1.0 if grown else 2.0) * lattice.cost[net, turn]


@compiled
def _insert(labels: Labels, place: tuple[int, int], values: tuple[float, float]) -> int:
    """Add a label; those that it is as good as leave the list. -1 when there is no room."""
    new, target = place
    if labels.used[0] == len(labels.values):
        return -1
    previous, other = -1, labels.head[new, target]
    while other >= 0:
        after = labels.following[other]
        if labels.values[other, 0] >= values[0] and labels.values[other, 1] >= values[1]:
            if previous < 0:
                labels.head[new, target] = after
            else:
                labels.following[previous] = after
        else:
            previous = other
        other = after
    mine = labels.used[0]
    labels.used[0] += 1
    labels.values[mine, 0], labels.values[mine, 1] = values
    labels.following[mine] = labels.head[new, target]
    labels.head[new, target] = mine
    return int(mine)


@compiled
def _spread(
    lattice: Lattice,
    devices: Devices,
    labels: Labels,
    step: tuple[int, int, int],
    load: Floats,
) -> bool:
    """Extend all labels of an ideal to a larger one by a kind; False when there is no room."""
    old, new, kind = step
    for state in range(labels.head.shape[1]):
        label = labels.head[old, state]
        if label < 0:
            continue
        target = _target(lattice, devices, new, state, kind)
        while label >= 0 and target >= 0:
            ahead = max(labels.values[label, 0], load[0])
            back = max(labels.values[label, 1], load[1])
            if _wanted(labels, new, target, ahead, back):
                mine = _insert(labels, (new, target), (ahead, back))
                if mine < 0:
                    return False
                labels.origin[mine, 0], labels.origin[mine, 1] = old, state
                labels.origin[mine, 2] = label
                if new == len(lattice.bits) - 1:
                    labels.best[0] = ahead + back
            label = labels.following[label]
    return True


@compiled
def _step(
    lattice: Lattice, devices: Devices, labels: Labels, pair: tuple[int, int], load: Floats
) -> bool:
    """Give the difference of two ideals to a payer and to a host; False when there is no room."""
    old, new = pair
    for kind in range(2):
        if devices.most[kind] == 0:
            continue
        if lattice.table[new, 4 + kind] > lattice.table[old, 4 + kind]:
            continue
        if lattice.size[new] - lattice.size[old] > devices.memory[kind]:
            continue
        for turn in range(2):
            column = 2 * kind + turn
            load[turn] = lattice.table[new, column] - lattice.table[old, column]
        if load[0] + load[1] >= labels.best[0]:
            continue
        if kind == 0:
            if not _hopeful(lattice, devices, labels, pair, load):
                continue
            _add_transfers(lattice, pair, load)
        if not _spread(lattice, devices, labels, (old, new, kind), load):
            return False
    return True


@compiled
def extend_chains(lattice: Lattice, devices: Devices, labels: Labels, first: int, stop: int) -> int:
    """Extend all labels of the ideals ``first`` to ``stop`` by one device.

    Returns
    -------
    int
        The ideal to go on with; ``-1 - ideal`` when there is no room for labels.
    """
    load = np.zeros(2)
    for old in range(first, stop):
        if labels.head[old].max() < 0:
            continue
        for new in range(old + 1, len(lattice.bits)):
            if lattice.key[new] - lattice.key[old] > devices.steps:
                break
            if _within(lattice.bits, old, new) and not _step(
                lattice, devices, labels, (old, new), load
            ):
                return -1 - old
    return stop
