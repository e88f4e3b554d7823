"""Every word of a tiny pipeline: the witness for planners of shops.

Nothing is shared with the planners but the reading of a problem as a shop: memory is replayed from
the word, times are relaxed task by task until nothing moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from milp_plan.core import Objective
from milp_plan.kinds.pipeline.shop import Shop

Word = tuple[int, ...]
Line = list[tuple[int, int]]
Waits = dict[tuple[int, int], list[tuple[tuple[int, int], int]]]


def least_value(shop: Shop) -> int | None:
    """Optimum over all words of all machines; ``None`` if no plan fits into memory."""
    best: int | None = None
    for words in product(*(list(machine_words(shop, m)) for m in range(len(shop.machines)))):
        found = word_value(shop, words, best)
        if found is not None:
            best = found
    return best


def machine_words(shop: Shop, machine: int) -> Iterator[Word]:
    """Yield the words of one machine that keep precedence between its kinds, and its memory."""
    kinds = shop.on_machine[machine]
    above = {k: [a for a in kinds if a in _ancestors(shop, k)] for k in kinds}
    limit = shop.limits[machine]
    seen = dict.fromkeys(kinds, 0)

    def extend(word: Word, held: int) -> Iterator[Word]:
        if len(word) == sum(shop.kinds[k].count for k in kinds):
            yield word
            return
        for k in kinds:
            kind = shop.kinds[k]
            if seen[k] == kind.count or any(seen[a] <= seen[k] for a in above[k]):
                continue
            if limit is not None and held + kind.alloc > limit:
                continue
            seen[k] += 1
            yield from extend((*word, k), held + kind.alloc - kind.free)
            seen[k] -= 1

    yield from extend((), 0)


def word_value(shop: Shop, words: Sequence[Word], below: int | None = None) -> int | None:
    """Least value of a schedule that follows the words; ``None`` if there is none below a value."""
    lines = [_numbered(word) for word in words]
    waits: Waits = {}
    for line in lines:
        for place, (k, j) in enumerate(line):
            entries = [((a, j), shop.kinds[a].duration + lag) for a, lag in shop.before[k]]
            if place:
                before = line[place - 1]
                entries.append((before, shop.kinds[before[0]].duration))
            waits[k, j] = entries
    start = _relaxed(waits)
    if start is None:
        return None
    devices = [line for line in lines[: shop.num_devices] if line]
    if shop.objective is Objective.MAKESPAN:
        value = max(start[line[-1]] + shop.kinds[line[-1][0]].duration for line in devices)
        return value if below is None or value < below else None
    least = max(sum(shop.kinds[k].duration for k, _ in line) for line in devices)
    most = max(start[name] + shop.kinds[name[0]].duration for name in start)
    value = most if below is None else min(most, below - 1)
    if not _keeps(shop, waits, devices, value):
        return None
    while least < value:
        middle = (least + value) // 2
        if _keeps(shop, waits, devices, middle):
            value = middle
        else:
            least = middle + 1
    return value


def _keeps(shop: Shop, waits: Waits, devices: Sequence[Line], span: int) -> bool:
    """Whether some schedule of the words keeps a span on every device."""
    tight = dict(waits)
    for line in devices:
        back = shop.kinds[line[-1][0]].duration - span
        tight[line[0]] = [*waits[line[0]], (line[-1], back)]
    return _relaxed(tight) is not None


def _relaxed(waits: Waits) -> dict[tuple[int, int], int] | None:
    """Earliest starts; ``None`` if they grow without end."""
    start = dict.fromkeys(waits, 0)
    for _ in range(len(waits) + 1):
        moved = False
        for name, entries in waits.items():
            least = max((start[before] + wait for before, wait in entries), default=0)
            if least > start[name]:
                start[name], moved = least, True
        if not moved:
            return start
    return None


def _numbered(word: Word) -> Line:
    return [(k, word[:place].count(k)) for place, k in enumerate(word)]


def _ancestors(shop: Shop, kind: int) -> set[int]:
    found: set[int] = set()
    for a, _ in shop.before[kind]:
        found |= {a} | _ancestors(shop, a)
    return found
