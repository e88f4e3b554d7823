"""A part of a graph as arrays, and where a search for an order of it works."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .reading import OrderGraph

Integers = NDArray[np.int64]
Keys = NDArray[np.uint64]

EXACT = 128
"""Operators up to which a state is known by two words, one bit each; beyond, by a hash."""

NODES, DEPTH, LIVE, BLOCKED, TOP, USED, FORCED = range(7)


class Piece(NamedTuple):
    """Operators whose order is sought, as arrays; lists in rows, one behind the other.

    ``read_*``, ``made_*`` and ``next_*``: values that operators read and make (if anybody reads
    them), operators that wait for them. ``beside_*``: operators that a value lies beside if it is
    made before them. ``extra``: outputs and workspace; ``gain``: outputs that somebody reads;
    ``lasting``: whether anything is held by the operator itself. ``size`` of values. ``key`` and
    ``key_2``: words of an operator. ``end_*``: operators that must have run for a value to be
    released, those that wait for others first; none where it stays.
    """

    read_at: Integers
    read: Integers
    made_at: Integers
    made: Integers
    beside_at: Integers
    beside: Integers
    next_at: Integers
    next: Integers
    extra: Integers
    gain: Integers
    lasting: NDArray[np.bool_]
    size: Integers
    key: Keys
    key_2: Keys
    end_at: Integers
    end: Integers


class Desk(NamedTuple):
    """Where the search works.

    ``left``: readers that values wait for; ``waiting``: operators that operators wait for.
    ``need``: bytes that are sure to be held beside each operator that is still to come.
    ``choices``, ``many``, ``at``: per depth, what may come next, and which of it is tried.
    ``chosen``: the order so far. ``word*``: states on the way. ``table*``: states that were seen.
    ``state``: see above; ``BLOCKED`` is the least memory that anything needed and did not get; up
    to depth ``FORCED`` there is one choice, which is known.
    """

    left: Integers
    waiting: Integers
    done: NDArray[np.bool_]
    need: Integers
    choices: NDArray[np.int32]
    many: Integers
    at: Integers
    chosen: Integers
    word: Keys
    word_2: Keys
    table: Keys
    table_2: Keys
    state: Integers


def piece_of(
    graph: OrderGraph, operators: list[int], done: set[int]
) -> tuple[Piece, Integers, Integers, Integers, int]:
    """Arrays of a part; readers and operators that are waited for, needs, bytes at its begin."""
    place = {operator: i for i, operator in enumerate(operators)}
    values: dict[int, int] = {}
    left: list[int] = []
    live = graph.base_bytes
    for value, (size, producer) in enumerate(zip(graph.sizes, graph.producers, strict=True)):
        waits = sum(reader not in done for reader in graph.consumers[value])
        live += size if producer in done and waits else 0
        if producer in place or any(reader in place for reader in graph.consumers[value]):
            values[value] = len(left)
            left.append(waits)
    read = [[values[value] for value in graph.inputs[o]] for o in operators]
    made = [[v for v in graph.outputs[o] if graph.consumers[v]] for o in operators]
    after: list[list[int]] = [[] for _ in operators]
    for o in operators:
        for earlier in graph.before[o]:
            if earlier in place:
                after[place[earlier]].append(place[o])
    size = len(operators)
    extra = [graph.workspace[o] + sum(graph.sizes[v] for v in graph.outputs[o]) for o in operators]
    if size <= EXACT:
        keys = np.zeros((2, size), np.uint64)
        keys[0, :64] = np.uint64(1) << np.arange(min(size, 64), dtype=np.uint64)
        keys[1, 64:] = np.uint64(1) << np.arange(max(size - 64, 0), dtype=np.uint64)
        beside, need = _beside(graph, place, after, values, left)
        ends = _ends(graph, place, values, left)
    else:
        keys = np.random.default_rng(0).integers(1, 2**64, (2, size), dtype=np.uint64)
        beside, need = [[] for _ in values], [0] * size
        ends = [[] for _ in values]
    piece = Piece(
        *_rows(read),
        *_rows([[values[v] for v in entries] for entries in made]),
        *_rows(beside),
        *_rows(after),
        np.array(extra, np.int64),
        np.array([sum(graph.sizes[v] for v in entries) for entries in made], np.int64),
        np.array([graph.lasting[o] for o in operators], np.bool_),
        np.array([graph.sizes[value] for value in values], np.int64),
        keys[0],
        keys[1],
        *_rows(ends),
    )
    waiting = np.array([sum(b in place for b in graph.before[o]) for o in operators], np.int64)
    needs = np.array([live + a + b for a, b in zip(extra, need, strict=True)], np.int64)
    return piece, np.array(left, np.int64), waiting, needs, live


def _beside(
    graph: OrderGraph,
    place: dict[int, int],
    after: list[list[int]],
    values: dict[int, int],
    left: list[int],
) -> tuple[list[list[int]], list[int]]:
    """Operators that values lie beside if made before them; by how much each needs more than this.

    The second is what surely lies beside an operator, less what is held at the begin.
    """
    count = len(after)
    behind = [1 << i for i in range(count)]  # an operator and all that wait for it
    waiting = [sum(i in entries for entries in after) for i in range(count)]
    line = [i for i in range(count) if not waiting[i]]
    for i in line:
        for j in after[i]:
            waiting[j] -= 1
            if not waiting[j]:
                line.append(j)
    for i in reversed(line):
        for j in after[i]:
            behind[i] |= behind[j]
    need, found = [0] * count, []
    for value in values:
        size, producer = graph.sizes[value], place.get(graph.producers[value])
        readers = sum(1 << place[r] for r in graph.consumers[value] if r in place)
        stays = left[values[value]] > readers.bit_count()
        entry = []
        for i in range(count):
            beside = stays or bool(behind[i] & readers)
            if producer is None:
                need[i] -= 0 if beside else size
            elif beside and i != producer and behind[producer] >> i & 1:
                need[i] += size
            elif beside and i != producer and not behind[i] >> producer & 1:
                entry.append(i)
        found.append(entry)
    return found, need


def _ends(
    graph: OrderGraph, place: dict[int, int], values: dict[int, int], left: list[int]
) -> list[list[int]]:
    """Operators that must have run before a value is released, the last first; none if it stays."""
    until: dict[int, int] = {}
    for o, i in place.items():  # producers before consumers
        until[o] = 1 << i
        for earlier in graph.before[o]:
            until[o] |= until.get(earlier, 0)
    found: list[list[int]] = []
    for value, number in values.items():
        readers = [reader for reader in graph.consumers[value] if reader in place]
        bits = 0
        for reader in readers if len(readers) == left[number] else ():
            bits |= until[reader]
        found.append([i for i in reversed(range(len(place))) if bits >> i & 1])
    return found


def _rows(lists: list[list[int]]) -> tuple[Integers, Integers]:
    begins = np.cumsum([0, *(len(entries) for entries in lists)]).astype(np.int64)
    return begins, np.array([entry for entries in lists for entry in entries], np.int64)
