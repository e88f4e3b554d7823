"""Compiled local search over single moves; see ``baselines.local_search``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Board(NamedTuple):
    """A problem in arrays, and where everything is.

    Parameters
    ----------
    work
        By class, on a payer and on a host; infinite where it cannot run.
    size, memory
        Bytes of each class; of each device, infinite without limit.
    pins, cost
        Classes of each net, how many, and its cost.
    nets
        Nets of each class, rows filled up with -1.
    payers
        Devices that pay, the first ones.
    places, there, loads, held
        Device of each class; classes of each net on each device; load and bytes of each device.
    """

    work: Floats
    size: Floats
    memory: Floats
    pins: Ints
    cost: Floats
    nets: Ints
    payers: int
    places: Ints
    there: Ints
    loads: Floats
    held: Floats


@compiled
def _put(board: Board, number: int, device: int, times: int) -> None:
    """Add a class to what a device holds (1), or take it away (-1)."""
    board.loads[device] += times * board.work[number, 0 if device < board.payers else 1]
    board.held[device] += times * board.size[number]
    for at in range(board.nets.shape[1]):
        net = board.nets[number, at]
        if net < 0:
            break
        before = board.there[net, device]
        board.there[net, device] = before + times
        if device < board.payers:
            paid = 0 < before < board.pins[net]
            pays = 0 < before + times < board.pins[net]
            board.loads[device] += board.cost[net] * (int(pays) - int(paid))


@compiled
def _move(board: Board, number: int, device: int) -> None:
    """Move one class."""
    _put(board, number, board.places[number], -1)
    _put(board, number, device, 1)
    board.places[number] = device


@compiled
def _can_take(board: Board, number: int, device: int) -> bool:
    """Whether a class can move to a device."""
    fits = board.held[device] + board.size[number] <= board.memory[device]
    return bool(fits and board.work[number, 0 if device < board.payers else 1] < np.inf)


@compiled
def _height(loads: Floats) -> tuple[float, float]:
    """Largest load, and the sum of squares."""
    top, square = 0.0, 0.0
    for load in loads:
        top = max(top, load)
        square += load * load
    return top, square


@compiled
def _improve(board: Board, number: int) -> bool:
    """Move one class to where the largest load, then the sum of squares, is least."""
    home = best = board.places[number]
    now, square = _height(board.loads)
    for device in range(len(board.memory)):
        if device == home or not _can_take(board, number, device):
            continue
        _move(board, number, device)
        top, sums = _height(board.loads)
        _move(board, number, home)
        if top < now * (1 - 1e-12) or (top <= now and sums < square * (1 - 1e-12)):
            best, now, square = device, top, sums
    if best != home:
        _move(board, number, best)
    return bool(best != home)


@compiled
def descend(board: Board, order: Ints, sweeps: int) -> None:
    """Move single classes while that helps; counters start at zero."""
    for number in range(len(board.places)):
        _put(board, number, board.places[number], 1)
    for _ in range(sweeps):
        moved = False
        for at in range(len(order)):
            if _improve(board, order[at]):
                moved = True
        if not moved:
            break
