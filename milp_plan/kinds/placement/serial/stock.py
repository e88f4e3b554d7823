"""What calls may still be made: the memory of devices with several calls, in steps.

Calls of one device share its memory. Which calls fit together is looked at in steps of a device's
memory: a call of more than ``b / steps`` of it, and of no more than ``(b + 1) / steps``, is of
*step* ``b``. Two calls of steps ``a`` and ``b`` hold more than ``(a + b) / steps``, so they share
no device if ``a + b >= steps``. A *state* counts the calls made of each step; calls that find no
devices by that rule find none at all, so states without devices are left out and bounds hold.

A call may also keep its device for a second one that has to follow: that one comes for nothing.
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

MOST_STATES = 1_200
"""States of one stock, at most."""

MOST_COUNTS = 25_000
"""Counts that are looked at for them, at most."""

MOST_STEPS = 8
"""Steps of a device's memory, at most."""


@dataclass(frozen=True)
class Stock:
    """States and what calls do to them; state 0 is that without calls.

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
    kept = np.where((each > 1) & (number + 2 <= calls), number + 2, -1)
    after = np.stack([np.append(number[1:], -1), kept], axis=1)
    return Stock(number, after, number[:, None] <= number[None, :])


def shared(devices: int) -> Stock:
    """Return the stock of devices with two calls each, in as many steps as there is room for."""
    best = separate(2 * devices, 2)
    for steps in range(2, MOST_STEPS + 1):
        counted = _counted(devices, steps)
        if counted is None:
            break
        after = _merged(counted)
        if len(after) > MOST_STATES:
            break
        best = Stock(_made(after), after, _covers(after))
    return best


def _counted(devices: int, steps: int) -> list[list[int]] | None:
    """Return all counts, the empty one first, each with those that follow it, or -1.

    Behind the steps are counted the calls that keep their device.
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
                if len(counts) >= MOST_COUNTS:
                    return None
                number[more] = len(counts)
                counts.append(more)
            row.append(number[more])
        following.append(row)
    return following


def _devices(count: Sequence[int]) -> int:
    """Return how many devices calls need: the largest takes the largest that fits beside it.

    That is optimal: what fits beside the largest fits beside any other, so in a packing where two
    others stand beside the two, they can change places.
    """
    *left, found = count
    for step in range(len(left) - 1, -1, -1):
        while left[step]:
            left[step] -= 1
            found += 1
            beside = range(min(step, len(left) - 1 - step), -1, -1)
            partner = next((other for other in beside if left[other]), None)
            if partner is not None:
                left[partner] -= 1
    return found


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
    """Compare what states allow: each call of one must lead where the other is covered, too."""
    count = len(after)
    found = np.ones((count + 1, count + 1), dtype=np.bool_)
    found[count] = False  # no call covers none but no call
    found[:, count] = True
    for state in range(count - 1, -1, -1):
        found[state, :count] = np.all(found[after[state][None, :], after], axis=1)
    return np.ascontiguousarray(found[:count, :count])  # as others: loops compile once
