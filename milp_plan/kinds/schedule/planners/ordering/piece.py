"""A part of a graph as arrays, and where a search for an order of it works."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..decoder.tables import rows
from .flow import NEVER, Flow, Integers, Sure

Keys = NDArray[np.uint64]

EXACT = 128
"""Operators up to which a state is known by two words, one bit each; beyond, by a hash."""

NODES, DEPTH, LIVE, BLOCKED, TOP, USED, FORCED = range(7)


class Piece(NamedTuple):
    """Operators whose order is sought, as arrays; lists in rows, one behind the other.

    ``read_*``, ``made_*`` and ``next_*``: values that operators read and make, operators that wait
    for them. ``beside_*``: operators that a value lies beside if it is made before them, beyond
    those beside which it surely lies. ``rest``: bytes of an operator beside such values;
    ``lasting``: whether it takes any time. ``size`` of values. ``key`` and ``key_2``: words of an
    operator. ``end_*``: operators that must have run for a value to be released, those that wait
    for others first; none where it stays.
    """

    read_at: Integers
    read: Integers
    made_at: Integers
    made: Integers
    beside_at: Integers
    beside: Integers
    next_at: Integers
    next: Integers
    rest: Integers
    lasting: NDArray[np.bool_]
    size: Integers
    key: Keys
    key_2: Keys
    end_at: Integers
    end: Integers


class SearchArrays(NamedTuple):
    """Where the search works.

    ``there``: makers of values that have run; ``left``: readers that values wait for; ``waiting``:
    operators that operators wait for.
    ``need``: bytes that are sure to be held beside each operator that is still to come.
    ``choices``, ``many``, ``at``: per depth, what may come next, and which of it is tried.
    ``chosen``: the order so far. ``word*``: states on the way. ``table*``: states that were seen.
    ``state``: see above; ``BLOCKED`` is the least memory that anything needed and did not get; up
    to depth ``FORCED`` there is one choice, which is known.
    """

    there: Integers
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


def piece_of(flow: Flow, sure: Sure | None) -> Piece:
    """Return the arrays of a part; without implied precedences, a hash identifies states."""
    size = len(flow.rest)
    if sure is None:
        keys = np.random.default_rng(0).integers(1, 2**64, (2, size), dtype=np.uint64)
        after = [[o for o in range(size) if i in flow.before[o]] for i in range(size)]
        beside: list[list[int]] = [[] for _ in flow.sizes]
        ends = beside
    else:
        keys = np.zeros((2, size), np.uint64)
        keys[0, :64] = np.uint64(1) << np.arange(min(size, 64), dtype=np.uint64)
        keys[1, 64:] = np.uint64(1) << np.arange(max(size - 64, 0), dtype=np.uint64)
        after, ends = _after(sure), _ends(flow, sure)
        beside = [np.flatnonzero(row).tolist() for row in sure.late & ~sure.early]
    return Piece(
        *rows(_by_operator(flow.readers, size)),
        *rows(_by_operator(flow.makers, size)),
        *rows(beside),
        *rows(after),
        np.array(flow.rest, np.int64),
        np.array(flow.lasting, np.bool_),
        np.array(flow.sizes, np.int64),
        keys[0],
        keys[1],
        *rows(ends),
    )


def search_arrays(
    flow: Flow, sure: Sure | None, piece: Piece, top: int, states: int
) -> SearchArrays:
    """Return the arrays at the begin of a search."""
    size = len(flow.rest)
    return SearchArrays(
        np.array(flow.there, np.int64),
        np.array(flow.left, np.int64),
        np.bincount(piece.next, minlength=size).astype(np.int64),
        np.zeros(size, np.bool_),
        np.zeros(size, np.int64) if sure is None else sure.need.copy(),
        np.zeros((size + 1, size), np.int32),
        np.zeros(size + 1, np.int64),
        np.zeros(size + 1, np.int64),
        np.zeros(size + 1, np.int64),
        np.zeros(size + 1, np.uint64),
        np.zeros(size + 1, np.uint64),
        np.zeros(states, np.uint64),
        np.zeros(states, np.uint64),
        np.array([0, 0, flow.live, NEVER if sure is None else sure.least, top, 0, 0]),
    )


def _after(sure: Sure) -> list[list[int]]:
    """Operators that come behind each one, less those that come behind another of them."""
    strict = sure.behind & ~np.eye(len(sure.behind), dtype=np.bool_)
    far = strict.astype(np.int32) @ strict.astype(np.int32) > 0
    return [np.flatnonzero(row).tolist() for row in strict & ~far]


def _ends(flow: Flow, sure: Sure) -> list[list[int]]:
    """Operators that must have run before a value is released, the last first; none if it stays."""
    line = np.argsort(-sure.behind.sum(axis=0), kind="stable")
    result = []
    for readers, left in zip(flow.readers, flow.left, strict=True):
        some = readers if len(readers) == left else []
        until = np.asarray(sure.behind[:, some].any(axis=1))
        result.append(line[until[line]].tolist())
    return result


def _by_operator(lists: list[list[int]], size: int) -> list[list[int]]:
    """Return the values of each operator, where operators of each value are given."""
    result: list[list[int]] = [[] for _ in range(size)]
    for value, operators in enumerate(lists):
        for o in operators:
            result[o].append(value)
    return result
