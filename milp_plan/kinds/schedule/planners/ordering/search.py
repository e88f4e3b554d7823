"""A search for an order of some operators within a given memory; it ends with one, or a proof."""

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
    Desk,
    Piece,
    desk_of,
    piece_of,
)
from .reading import OrderGraph
from .together import made_by, released_by, together

FAILED, FOUND, RUNNING, FULL = 0, 1, 2, 3
"""What a search ends with: there is no order, there is one, more nodes or more states to go."""

STATES, MOST_STATES = 2**20, 2**24
"""States that are remembered at first, and at most."""

_SLICE = 20_000
"""Nodes between two looks at the clock."""


@compiled
def _go(piece: Piece, desk: Desk, o: int) -> int:
    """Put an operator next; return the most that any one still to come is sure to need."""
    desk.done[o] = True
    most = np.int64(0)
    for at in range(piece.made_at[o], piece.made_at[o + 1]):
        value = piece.made[at]
        desk.there[value] += 1
        if desk.there[value] > 1:
            continue
        desk.state[LIVE] += piece.size[value]
        for place in range(piece.beside_at[value], piece.beside_at[value + 1]):
            other = piece.beside[place]
            desk.need[other] += piece.size[value]
            if not desk.done[other] and piece.lasting[other]:
                most = max(most, desk.need[other])
    for at in range(piece.read_at[o], piece.read_at[o + 1]):
        value = piece.read[at]
        desk.left[value] -= 1
        if desk.left[value] == 0:
            desk.state[LIVE] -= piece.size[value]
    for at in range(piece.next_at[o], piece.next_at[o + 1]):
        desk.waiting[piece.next[at]] -= 1
    return int(most)


@compiled
def _back(piece: Piece, desk: Desk, o: int) -> None:
    desk.done[o] = False
    for at in range(piece.made_at[o], piece.made_at[o + 1]):
        value = piece.made[at]
        desk.there[value] -= 1
        if desk.there[value] > 0:
            continue
        desk.state[LIVE] -= piece.size[value]
        for place in range(piece.beside_at[value], piece.beside_at[value + 1]):
            desk.need[piece.beside[place]] -= piece.size[value]
    for at in range(piece.read_at[o], piece.read_at[o + 1]):
        value = piece.read[at]
        if desk.left[value] == 0:
            desk.state[LIVE] += piece.size[value]
        desk.left[value] += 1
    for at in range(piece.next_at[o], piece.next_at[o + 1]):
        desk.waiting[piece.next[at]] += 1


@compiled
def _list(piece: Piece, desk: Desk, depth: int) -> None:
    """List what may come next, least growth first; what does not grow comes alone."""
    if depth < desk.state[FORCED]:
        desk.at[depth], desk.many[depth] = 0, 1
        return
    count, top = 0, desk.state[TOP]
    grown = np.empty(len(piece.rest), np.int64)
    desk.at[depth] = 0
    for o in range(len(piece.rest)):
        if desk.done[o] or desk.waiting[o] > 0:
            continue
        made = made_by(piece, desk, o)
        needed = desk.state[LIVE] + made + piece.rest[o]
        if piece.lasting[o] and needed > top:
            desk.state[BLOCKED] = min(desk.state[BLOCKED], needed)
            continue
        growth = made - released_by(piece, desk, o)
        if growth <= 0:
            desk.choices[depth, 0], desk.many[depth] = o, 1
            return
        put = count
        while put > 0 and grown[put - 1] > growth:
            grown[put] = grown[put - 1]
            desk.choices[depth, put] = desk.choices[depth, put - 1]
            put -= 1
        grown[put], desk.choices[depth, put] = growth, o
        count += 1
    desk.many[depth] = 1 if count > 1 and together(piece, desk, depth) else count


@compiled
def _seen(desk: Desk, depth: int) -> bool:
    """Whether a state was there before; it is from now on."""
    word, word_2, none = desk.word[depth], desk.word_2[depth], np.uint64(0)
    mask = np.uint64(len(desk.table) - 1)
    mixed = word ^ word_2 * np.uint64(0xD6E8FEB86659FD93)
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    slot = (mixed ^ (mixed >> np.uint64(29))) & mask
    while desk.table[slot] != none or desk.table_2[slot] != none:
        if desk.table[slot] == word and desk.table_2[slot] == word_2:
            return True
        slot = (slot + np.uint64(1)) & mask
    desk.table[slot], desk.table_2[slot] = word, word_2
    desk.state[USED] += 1
    return False


@compiled
def _search(piece: Piece, desk: Desk, nodes: int) -> int:
    """Go on from where the desk is; depth first, each state once.

    Within a given memory an operator that fits and does not make what is held grow may come at
    once. For take an order in which it comes later, and put it first: whatever came before it runs
    beside no more than it did, as the operator frees no less in later states (values lose readers,
    never gain any), makes no more, and so leaves no more behind; after it nothing has changed. A
    value that was made lies beside every operator still to come that reads it or that a reader
    waits for. Some operators may come at once together: see :mod:`.together`. All this is so for
    orders read backwards as well. Where there is no order, there is none in less than ``BLOCKED``
    either: up to there the search meets the same states.
    """
    depth, last = desk.state[DEPTH], len(piece.rest)
    while desk.state[NODES] < nodes:
        if desk.at[depth] == desk.many[depth]:
            if depth == 0:
                return FAILED
            depth -= 1
            desk.state[FORCED] = 0
            _back(piece, desk, desk.chosen[depth])
            continue
        o = desk.choices[depth, desk.at[depth]]
        desk.at[depth] += 1
        desk.chosen[depth] = o
        needed = _go(piece, desk, o)
        desk.word[depth + 1] = desk.word[depth] ^ piece.key[o]
        desk.word_2[depth + 1] = desk.word_2[depth] ^ piece.key_2[o]
        depth += 1
        desk.state[NODES] += 1
        if depth == last:
            return FOUND
        if 4 * desk.state[USED] > 3 * len(desk.table):
            return FULL
        if needed > desk.state[TOP]:
            desk.state[BLOCKED] = min(desk.state[BLOCKED], needed)
            desk.at[depth] = desk.many[depth] = 0
        elif _seen(desk, depth):
            desk.at[depth] = desk.many[depth] = 0
        else:
            _list(piece, desk, depth)
    desk.state[DEPTH] = depth
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
        self.desk = desk_of(flow, sure, self.piece, top, states)
        self.result = RUNNING
        if sure is not None and sure.forbids(top):
            self.result = FAILED
        else:
            _list(self.piece, self.desk, 0)

    @property
    def nodes(self) -> int:
        """Operators that were tried."""
        return int(self.desk.state[NODES])

    @property
    def next_top(self) -> int:
        """After a failure: less than this is not enough either."""
        return int(self.desk.state[BLOCKED])

    @property
    def order(self) -> list[int]:
        """What was found."""
        chosen = self.desk.chosen[: len(self.operators)].tolist()
        return [self.operators[place] for place in (reversed(chosen) if self.backwards else chosen)]

    def go_on(self, nodes: int, budget: Budget) -> int:
        """Search until there are so many nodes, or the budget ends."""
        while self.result == RUNNING and self.nodes < nodes and not budget.over:
            some = min(nodes, self.nodes + _SLICE)
            self.result = int(_search(self.piece, self.desk, some))
        return self.result
