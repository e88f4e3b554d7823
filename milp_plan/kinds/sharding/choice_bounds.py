"""Small sharding problems: enumerates every choice, so that the best one is proved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from milp_plan.core.compiled import compiled, copy_into

from .labelling import BAN, Integers, Labelling
from .messages import MessageTables, tables_of

EVERY_CHOICE = "every choice"
NO_CHOICE = "every choice of strategies was enumerated; none fits masks and limit"

MAX_CHOICES = 10**6
"""Largest number of choices of all operators that are enumerated."""


@dataclass(frozen=True, eq=False)
class Choice:
    """Result of enumerating every choice: the best labels, ``None`` where none is a plan."""

    labels: Integers | None


def few_choices(labelling: Labelling) -> bool:
    """Return whether the choices are few enough to enumerate."""
    bits = float(np.log2(np.maximum(labelling.counts, 1)).sum())
    return bool(2.0 ** min(60.0, bits) <= MAX_CHOICES)


def best_choice(labelling: Labelling) -> Choice | None:
    """Enumerate every choice of labels; ``None`` where there are too many."""
    b = labelling
    if not few_choices(b):
        return None
    labels = np.zeros(len(b), dtype=np.int64)
    return Choice(labels if _search(tables_of(b), b.capacity.copy(), labels) else None)


@compiled
def _search(t: MessageTables, room: Integers, best_labels: Integers) -> bool:
    """Search depth first with pruning; write the best labels and return whether there is a plan."""
    count = len(t.offsets) - 1
    labels = np.full(count, -1, dtype=np.int64)
    spent = np.zeros(count + 1, dtype=np.int64)
    rest = _least(t)
    best, known, i = 0, False, 0
    while i >= 0:
        if i == count:
            best, known = spent[count], True
            copy_into(labels, best_labels)
            i -= 1
            continue
        if labels[i] >= 0:
            _hold(t, i, labels[i], -1, room)
        labels[i] += 1
        if labels[i] == t.offsets[i + 1] - t.offsets[i]:
            labels[i] = -1
            i -= 1
            continue
        added = _added(t, i, labels)
        fits = _hold(t, i, labels[i], 1, room)
        if added >= BAN or not fits:
            continue
        spent[i + 1] = spent[i] + added
        if known and spent[i + 1] + rest[i + 1] >= best:
            continue
        i += 1
    return known


@compiled
def _least(t: MessageTables) -> Integers:
    """Return the least cost of the operators from each on, with edges to those before them."""
    count = len(t.offsets) - 1
    rest = np.zeros(count + 1, dtype=np.int64)
    for i in range(count):
        least = t.cost[t.offsets[i]]
        for x in range(t.offsets[i], t.offsets[i + 1]):
            least = min(least, t.cost[x])
        rest[i] = least if least < BAN else 0
    for e in range(len(t.ends)):
        least = BAN
        for x in range(t.table_offsets[e], t.table_offsets[e + 1]):
            least = min(least, t.table[x])
        if least < BAN:
            rest[max(t.ends[e, 0], t.ends[e, 1])] += least
    for i in range(count - 1, -1, -1):
        rest[i] += rest[i + 1]
    return rest


@compiled
def _added(t: MessageTables, i: int, labels: Integers) -> int:
    """Return the cost of an operator's label given those of the operators before it."""
    total = t.cost[t.offsets[i] + labels[i]]
    if total >= BAN:
        return BAN
    for q in range(t.starts[i], t.starts[i + 1]):
        j, e = t.neighbours[q], t.edges[q]
        if j > i:
            continue
        first, second = (i, j) if t.ends[e, 0] == i else (j, i)
        width = t.offsets[second + 1] - t.offsets[second]
        entry = t.table[t.table_offsets[e] + labels[first] * width + labels[second]]
        if entry >= BAN:
            return BAN
        total += entry
    return int(total)


@compiled
def _hold(t: MessageTables, i: int, label: int, sign: int, room: Integers) -> bool:
    """Subtract a label's usage from the room of the rows, or add it; return whether it fits."""
    width = t.part_offsets[i + 1] - t.part_offsets[i]
    fits = True
    for p in range(width):
        used = sign * t.usage[t.use_offsets[i] + label * width + p]
        for r in range(t.parts[t.part_offsets[i] + p, 0], t.parts[t.part_offsets[i] + p, 1]):
            room[r] -= used
            fits = fits and room[r] >= 0
    return fits
