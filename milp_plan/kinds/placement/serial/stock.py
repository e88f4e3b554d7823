"""Calls that may still be made: the memory of devices with several calls, in steps.

Calls of one device share its memory. Which calls fit together is decided in steps of a device's
memory: a call of more than ``b / steps`` of it, and of no more than ``(b + 1) / steps``, is of
*step* ``b``. Two calls of steps ``a`` and ``b`` hold more than ``(a + b) / steps``, so they share
no device if ``a + b >= steps``. A *state* counts the calls made of each step; calls that have no
devices by that rule have none at all, so such states are left out and bounds hold.

A call may also reserve its device for a second one that has to follow: that one is free.
Two calls of the first step take no more than those two.

States that allow the same calls from there on are one state. One *covers* another if it allows
every sequence of calls that the other allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .graph import Ints

MAX_STATES = 1_200
"""Largest number of states of one stock."""

MAX_COUNTS = 25_000
"""Largest number of counts that are examined for them."""

MAX_STEPS = 8
"""Largest number of steps of a device's memory."""


@dataclass(frozen=True)
class Stock:
    """States and their transitions by calls; state 0 is that without calls.

    Parameters
    ----------
    made
        Shape (states,): the most calls there may be at all, less those that may follow a state.
    after
        Shape (states, steps + 1): state after a call of a step, and after one that keeps its
        device; -1 if it may not be made.
    covers
        Shape (states, states): whether the first allows all that the second allows.
    """

    made: Ints
    after: Ints
    covers: NDArray[np.bool_]


def separate(calls: int, each: int = 1) -> Stock:
    """Return the stock of ``calls`` calls, ``each`` per device, whatever their bytes."""
    number = np.arange(calls + 1, dtype=np.int64)
    reserved = np.where((each > 1) & (number + 2 <= calls), number + 2, -1)
    after = np.stack([np.append(number[1:], -1), reserved], axis=1)
    return Stock(number, after, number[:, None] <= number[None, :])


def shared(devices: int) -> Stock:
    """Return the stock of devices with two calls each, in as many steps as sizes allow."""
    best = separate(2 * devices, 2)
    for steps in range(2, MAX_STEPS + 1):
        counted = _counted(devices, steps)
        if counted is None:
            break
        after = _merged(counted)
        if len(after) > MAX_STATES:
            break
        best = Stock(_made(after), after, _covers(after))
    return best


def _counted(devices: int, steps: int) -> list[list[int]] | None:
    """Return all counts, the empty one first, each with its successors, or -1.

    After the steps come the calls that reserve their device.
    """
    empty = (0,) * (steps + 1)
    number, counts = {empty: 0}, [empty]
    following: list[list[int]] = []
    for count in counts:
        row = []
        for step in range(steps + 1):
            more = (*count[:step], count[step] + 1, *count[step + 1 :])
            if more not in number:
                if _devices(more) > devices:
                    row.append(-1)
                    continue
                if len(counts) >= MAX_COUNTS:
                    return None
                number[more] = len(counts)
                counts.append(more)
            row.append(number[more])
        following.append(row)
    return following


def _devices(count: Sequence[int]) -> int:
    """Return how many devices calls need: the largest takes the largest that fits with it.

    That is optimal: what fits with the largest fits with any other, so in a packing where
    others are with these two, they can change places.
    """
    *left, largest = count
    for step in range(len(left) - 1, -1, -1):
        while left[step]:
            left[step] -= 1
            largest += 1
            fitting = range(min(step, len(left) - 1 - step), -1, -1)
            partner = next((other for other in fitting if left[other]), None)
            if partner is not None:
                left[partner] -= 1
    return largest


def _merged(counted: list[list[int]]) -> Ints:
    """Merge counts that allow the same calls; returns the states, the empty one first."""
    number: dict[tuple[int, ...], int] = {}
    state = [-1] * len(counted)
    for at in range(len(counted) - 1, -1, -1):  # calls lead to later ones
        key = tuple(-1 if then < 0 else state[then] for then in counted[at])
        state[at] = number.setdefault(key, len(number))
    last = len(number) - 1  # the empty count comes last, and nothing leads to it
    rows = np.array(list(number), dtype=np.int64)[::-1]
    return np.where(rows < 0, -1, last - rows)


def _made(after: Ints) -> Ints:
    left = np.zeros(len(after) + 1, dtype=np.int64)
    left[-1] = -1  # that of a call that may not be made
    for state in range(len(after) - 1, -1, -1):
        left[state] = 1 + left[after[state]].max()
    made: Ints = left[0] - left[:-1]
    return made


def _covers(after: Ints) -> NDArray[np.bool_]:
    """Return which states allow the calls of which others: each call must lead to such a pair."""
    count = len(after)
    covers = np.ones((count + 1, count + 1), dtype=np.bool_)
    covers[count] = False  # no call allows nothing but no call
    covers[:, count] = True
    for state in range(count - 1, -1, -1):
        covers[state, :count] = np.all(covers[after[state][None, :], after], axis=1)
    return np.ascontiguousarray(covers[:count, :count])  # as others: loops compile once
