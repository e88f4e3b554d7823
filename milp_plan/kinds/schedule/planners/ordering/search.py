"""A search for an order of some operators within a given memory, or a proof that none exists."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from milp_plan.core.budget import Budget
from milp_plan.core.compiled import compiled

from .flow import flow_of, sure_within
from .piece import (
    BLOCKED,
    DEPTH,
    EXACT,
    FORCED,
    LIVE,
    NODES,
    TOP,
    USED,
    Piece,
    SearchArrays,
    piece_of,
    search_arrays,
)
from .reading import OrderGraph
from .together import made_by, released_by, together

FAILED, FOUND, RUNNING, FULL = 0, 1, 2, 3
"""Results of a search: no order exists; an order was found; node limit; states are full."""

STATES, MOST_STATES = 2**20, 2**24
"""Numbers of states that are stored: at first, and at most."""

_SLICE = 20_000
"""Nodes between two reads of the clock."""


@compiled
def _go(piece: Piece, arrays: SearchArrays, o: int) -> int:
    """Put an operator next; return the most that any one still to come is sure to need."""
    arrays.done[o] = True
    most = np.int64(0)
    for at in range(piece.made_at[o], piece.made_at[o + 1]):
        value = piece.made[at]
        arrays.there[value] += 1
        if arrays.there[value] > 1:
            continue
        arrays.state[LIVE] += piece.size[value]
        for place in range(piece.beside_at[value], piece.beside_at[value + 1]):
            other = piece.beside[place]
            arrays.need[other] += piece.size[value]
            if not arrays.done[other] and piece.lasting[other]:
                most = max(most, arrays.need[other])
    for at in range(piece.read_at[o], piece.read_at[o + 1]):
        value = piece.read[at]
        arrays.left[value] -= 1
        if arrays.left[value] == 0:
            arrays.state[LIVE] -= piece.size[value]
    for at in range(piece.next_at[o], piece.next_at[o + 1]):
        arrays.waiting[piece.next[at]] -= 1
    return int(most)


@compiled
def _back(piece: Piece, arrays: SearchArrays, o: int) -> None:
    arrays.done[o] = False
    for at in range(piece.made_at[o], piece.made_at[o + 1]):
        value = piece.made[at]
        arrays.there[value] -= 1
        if arrays.there[value] > 0:
            continue
        arrays.state[LIVE] -= piece.size[value]
        for place in range(piece.beside_at[value], piece.beside_at[value + 1]):
            arrays.need[piece.beside[place]] -= piece.size[value]
    for at in range(piece.read_at[o], piece.read_at[o + 1]):
        value = piece.read[at]
        if arrays.left[value] == 0:
            arrays.state[LIVE] += piece.size[value]
        arrays.left[value] += 1
    for at in range(piece.next_at[o], piece.next_at[o + 1]):
        arrays.waiting[piece.next[at]] += 1


@compiled
def _list(piece: Piece, arrays: SearchArrays, depth: int) -> None:
    """List the next candidates, least growth first; one without growth is the only candidate."""
    if depth < arrays.state[FORCED]:
        arrays.at[depth], arrays.many[depth] = 0, 1
        return
    count, top = 0, arrays.state[TOP]
    grown = np.empty(len(piece.rest), np.int64)
    arrays.at[depth] = 0
    for o in range(len(piece.rest)):
        if arrays.done[o] or arrays.waiting[o] > 0:
            continue
        made = made_by(piece, arrays, o)
        needed = arrays.state[LIVE] + made + piece.rest[o]
        if piece.lasting[o] and needed > top:
            arrays.state[BLOCKED] = min(arrays.state[BLOCKED], needed)
            continue
        growth = made - released_by(piece, arrays, o)
        if growth <= 0:
            arrays.choices[depth, 0], arrays.many[depth] = o, 1
            return
        put = count
        while put > 0 and grown[put - 1] > growth:
            grown[put] = grown[put - 1]
            arrays.choices[depth, put] = arrays.choices[depth, put - 1]
            put -= 1
        grown[put], arrays.choices[depth, put] = growth, o
        count += 1
    arrays.many[depth] = 1 if count > 1 and together(piece, arrays, depth) else count


@compiled
def _seen(arrays: SearchArrays, depth: int) -> bool:
    """Return whether a state was visited before, and mark it as visited."""
    word, word_2, none = arrays.word[depth], arrays.word_2[depth], np.uint64(0)
    mask = np.uint64(len(arrays.table) - 1)
    mixed = word ^ word_2 * np.uint64(0xD6E8FEB86659FD93)
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    slot = (mixed ^ (mixed >> np.uint64(29))) & mask
    while arrays.table[slot] != none or arrays.table_2[slot] != none:
        if arrays.table[slot] == word and arrays.table_2[slot] == word_2:
            return True
        slot = (slot + np.uint64(1)) & mask
    arrays.table[slot], arrays.table_2[slot] = word, word_2
    arrays.state[USED] += 1
    return False


@compiled
def _search(piece: Piece, arrays: SearchArrays, nodes: int) -> int:
    """Continue from the state in the arrays: depth first, each state once.

    Within a given memory an operator that fits and does not make what is held grow may come at
    once. For take an order in which it comes later, and put it first: whatever came before it runs
    beside no more than it did, as the operator frees no less in later states (values lose readers,
    never gain any), makes no more, and so leaves no more behind; after it nothing has changed. A
    value that was made lies beside every operator still to come that reads it or that a reader
    waits for. Some operators may come at once together: see :mod:`.together`. All this is so for
    orders read backwards as well. Where there is no order, there is none in less than ``BLOCKED``
    either: up to there the search meets the same states.
    """
    depth, last = arrays.state[DEPTH], len(piece.rest)
    while arrays.state[NODES] < nodes:
        if arrays.at[depth] == arrays.many[depth]:
            if depth == 0:
                return FAILED
            depth -= 1
            arrays.state[FORCED] = 0
            _back(piece, arrays, arrays.chosen[depth])
            continue
        o = arrays.choices[depth, arrays.at[depth]]
        arrays.at[depth] += 1
        arrays.chosen[depth] = o
        needed = _go(piece, arrays, o)
        arrays.word[depth + 1] = arrays.word[depth] ^ piece.key[o]
        arrays.word_2[depth + 1] = arrays.word_2[depth] ^ piece.key_2[o]
        depth += 1
        arrays.state[NODES] += 1
        if depth == last:
            return FOUND
        if 4 * arrays.state[USED] > 3 * len(arrays.table):
            return FULL
        if needed > arrays.state[TOP]:
            arrays.state[BLOCKED] = min(arrays.state[BLOCKED], needed)
            arrays.at[depth] = arrays.many[depth] = 0
        elif _seen(arrays, depth):
            arrays.at[depth] = arrays.many[depth] = 0
        else:
            _list(piece, arrays, depth)
    arrays.state[DEPTH] = depth
    return RUNNING


class Trial:
    """A search for an order of a part of the operators, between what is done and what is not.

    Parameters
    ----------
    graph
        All operators.
    operators, done
        The part, each behind all its predecessors in it that are not done; and those before it.
    top
        Bytes that may be held.
    states
        How many states may be remembered.
    backwards
        Whether from the end of the part to its begin.
    """

    def __init__(
        self,
        graph: OrderGraph,
        operators: Sequence[int],
        done: Collection[int],
        top: int,
        states: int = STATES,
        *,
        backwards: bool = False,
    ) -> None:
        self.operators = list(operators)
        self.backwards = backwards
        self.exact = len(self.operators) <= EXACT
        flow = flow_of(graph, self.operators, set(done), backwards)
        sure = sure_within(flow, top) if self.exact else None
        self.piece = piece_of(flow, sure)
        self.arrays = search_arrays(flow, sure, self.piece, top, states)
        self.result = RUNNING
        if sure is not None and sure.forbids(top):
            self.result = FAILED
        else:
            _list(self.piece, self.arrays, 0)

    @property
    def nodes(self) -> int:
        """Number of operators that were tried."""
        return int(self.arrays.state[NODES])

    @property
    def next_top(self) -> int:
        """After a failure, the least bytes that may be enough."""
        return int(self.arrays.state[BLOCKED])

    @property
    def order(self) -> list[int]:
        """The order that was found."""
        chosen = self.arrays.chosen[: len(self.operators)].tolist()
        return [self.operators[place] for place in (reversed(chosen) if self.backwards else chosen)]

    def go_on(self, nodes: int, budget: Budget) -> int:
        """Search until the limit of nodes or the budget is reached."""
        while self.result == RUNNING and self.nodes < nodes and not budget.over:
            some = min(nodes, self.nodes + _SLICE)
            self.result = int(_search(self.piece, self.arrays, some))
        return self.result
