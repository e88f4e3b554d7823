"""Side units of a spine: on its device or elsewhere, and the costs of both."""

# ruff: noqa: C901, PLR0912 (compiled loops over arrays)

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from milp_plan.core.compiled import compiled

from .spine import ENDLESS, Side, Spine, Times, sides
from .view import Array

WIDTHS = (3, 12)
"""Largest distances of the positions of side units: narrow and wide stretches."""
_CHOICES = 8
"""Most choices stored for the side units of one stretch."""
OUT_DELAY, BACK_DELAY, OUT, _BACK, LATE = range(5)
"""Columns of a choice; work of all kinds and bytes follow."""


def choices_of(
    times: Times, spine: Spine, steps: tuple[Array, Array], widest: int
) -> tuple[Array, Array, Array]:
    """Return what can be done with the side units of each stretch."""
    size = len(spine)
    rows: list[Array] = []
    ends: dict[int, tuple[int, Array]] = {}
    for first, last, group in _stretches(sides(times, spine, widest), widest):
        ends[last] = first, _combined(times, spine, (first, last), group, steps)
    start = np.full(size, -1, dtype=np.int64)
    at = np.zeros(size + 1, dtype=np.int64)
    for position in range(size):
        if position in ends:
            start[position], found = ends[position]
            rows.append(found)
        at[position + 1] = sum(map(len, rows))
    empty = np.zeros((0, 7), dtype=np.int64)
    return start, at, np.concatenate([empty, *rows])


def _stretches(found: Iterable[Side], widest: int) -> list[tuple[int, int, list[Side]]]:
    """Join side units whose stretches overlap; leave out what would make one too long."""
    joined: list[tuple[int, int, list[Side]]] = []
    for side in sorted(found, key=lambda entry: (entry.last - entry.first, entry.first)):
        touching = [s for s in joined if s[0] < side.last and side.first < s[1]]
        first = min([side.first, *(s[0] for s in touching)])
        last = max([side.last, *(s[1] for s in touching)])
        if last - first <= 2 * widest:
            joined = [s for s in joined if s not in touching]
            joined.append((first, last, [side, *(x for s in touching for x in s[2])]))
    return joined


def _combined(
    times: Times, spine: Spine, ends: tuple[int, int], group: list[Side], steps: tuple[Array, Array]
) -> Array:
    """Delays and work of the ways to put side units on the device of the spine or not."""
    first, last = ends
    out, back = steps
    plain = [sum(int(step[at, at + 1]) for at in range(first, last)) for step in steps]
    own = [
        int(times.durations[spine.out[first:last]].sum(axis=0).min()),
        int(times.durations[spine.back[first + 1 : last + 1]].sum(axis=0).min()),
    ]
    # Longest way by a unit that is away, own work of a micro-batch, out and back; work; bytes.
    rows = np.zeros((1, 9), dtype=np.int64)
    rows[0, 1], rows[0, 3] = own
    for side in sorted(group, key=lambda entry: -entry.all):
        there, home = rows.copy(), rows.copy()
        for column, step, way in ((0, out, side.out_away), (2, back, side.back_away)):
            if way > 0:
                through = int(step[first, side.first]) + way + int(step[side.last, last])
                there[:, column] = np.maximum(there[:, column], min(through, ENDLESS))
        home[:, 1] += side.out_one
        home[:, 3] += side.back_one
        home[:, 4:] += np.array([side.out, side.back, side.late, side.all, times.bytes(side.unit)])
        both = np.concatenate([there, home])
        rows = both[: thin(both, len(both), 4 * _CHOICES)]
    result = np.zeros((len(rows), 7), dtype=np.int64)
    result[:, OUT_DELAY] = np.maximum(0, rows[:, :2].max(axis=1) - plain[0])
    result[:, BACK_DELAY] = np.maximum(0, rows[:, 2:4].max(axis=1) - plain[1])
    result[:, OUT:] = rows[:, 4:]
    if spine.one_way:
        result[:, [BACK_DELAY, _BACK, LATE]] = 0
    return result[: thin(result, len(result), _CHOICES)]


@compiled
def thin(rows: Array, count: int, most: int) -> int:
    """Keep at most ``most`` undominated rows, in place; return their number.

    Where more are left, two become one with the smaller numbers of both.
    """
    width = rows.shape[1]
    kept = 0
    for a in range(count):
        beaten = False
        for b in range(kept):
            least = True
            for c in range(width):
                if rows[b, c] > rows[a, c]:
                    least = False
                    break
            if least:
                beaten = True
                break
        if beaten:
            continue
        left = 0
        for b in range(kept):
            least = True
            for c in range(width):
                if rows[a, c] > rows[b, c]:
                    least = False
                    break
            if not least:
                if left != b:
                    for c in range(width):
                        rows[left, c] = rows[b, c]
                left += 1
        if left != a:
            for c in range(width):
                rows[left, c] = rows[a, c]
        kept = left + 1
    while kept > most:
        best, at, other = 2**62, 0, 1
        for a in range(kept):
            for b in range(a + 1, kept):
                loss = 0
                for c in range(width):
                    loss += abs(rows[a, c] - rows[b, c]) >> 4
                if loss < best:
                    best, at, other = loss, a, b
        for c in range(width):
            rows[at, c] = min(rows[at, c], rows[other, c])
            rows[other, c] = rows[kept - 1, c]
        kept -= 1
    return kept
