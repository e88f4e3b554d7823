"""A search for an order of some operators within a given memory; it ends with one, or a proof."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.budget import Budget
from milp_plan.core.compiled import compiled

from .reading import OrderGraph

Integers = NDArray[np.int64]
Keys = NDArray[np.uint64]

FAILED, FOUND, RUNNING, FULL = 0, 1, 2, 3
"""What a search ends with: there is no order, there is one, more nodes or more states to go."""

EXACT = 128
"""Operators up to which a state is known by two words, one bit each; beyond, by a hash."""

STATES, MOST_STATES = 2**20, 2**24
"""States that are remembered at first, and at most."""

_SLICE = 20_000
"""Nodes between two looks at the clock."""

NODES, DEPTH, LIVE, BLOCKED, TOP, USED = range(6)


class Piece(NamedTuple):
    """Operators whose order is sought, as arrays; lists in rows, one behind the other.

    ``read_*``, ``made_*`` and ``next_*``: values that operators read and make (if anybody reads
    them), operators that wait for them. ``beside_*``: operators that a value lies beside if it is
    made before them. ``extra``: outputs and workspace; ``gain``: outputs that somebody reads;
    ``lasting``: whether anything is held by the operator itself. ``size`` of values. ``key`` and
    ``key_2``: words of an operator.
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


class Desk(NamedTuple):
    """Where the search works.

    ``left``: readers that values wait for; ``waiting``: operators that operators wait for.
    ``need``: bytes that are sure to be held beside each operator that is still to come.
    ``choices``, ``many``, ``at``: per depth, what may come next, and which of it is tried.
    ``chosen``: the order so far. ``word*``: states on the way. ``table*``: states that were seen.
    ``state``: see above; ``BLOCKED`` is the least memory that anything needed and did not get.
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


@compiled
def _go(piece: Piece, desk: Desk, o: int) -> int:
    """Put an operator next; return the most that any one still to come is sure to need."""
    desk.done[o] = True
    desk.state[LIVE] += piece.gain[o]
    most = np.int64(0)
    for at in range(piece.made_at[o], piece.made_at[o + 1]):
        value = piece.made[at]
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
    desk.state[LIVE] -= piece.gain[o]
    for at in range(piece.made_at[o], piece.made_at[o + 1]):
        value = piece.made[at]
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
def _growth(piece: Piece, desk: Desk, o: int) -> int:
    """By how much more is held after an operator than before it."""
    growth = piece.gain[o]
    for at in range(piece.read_at[o], piece.read_at[o + 1]):
        if desk.left[piece.read[at]] == 1:
            growth -= piece.size[piece.read[at]]
    return int(growth)


@compiled
def _list(piece: Piece, desk: Desk, depth: int) -> None:
    """List what may come next, least growth first; what does not grow comes alone."""
    count, top = 0, desk.state[TOP]
    grown = np.empty(len(piece.extra), np.int64)
    desk.at[depth] = 0
    for o in range(len(piece.extra)):
        if desk.done[o] or desk.waiting[o] > 0:
            continue
        if piece.lasting[o] and desk.state[LIVE] + piece.extra[o] > top:
            needed = desk.state[LIVE] + piece.extra[o]
            desk.state[BLOCKED] = min(desk.state[BLOCKED], needed)
            continue
        growth = _growth(piece, desk, o)
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
    desk.many[depth] = count


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
    never gain any) and so leaves no more behind; after it nothing has changed. A value that was
    made lies beside every operator still to come that has a reader of it at its end or among those
    that wait for it. Where there is no
    order, there is none in less than ``BLOCKED`` either: up to there the search meets the same
    states.
    """
    depth, last = desk.state[DEPTH], len(piece.extra)
    while desk.state[NODES] < nodes:
        if desk.at[depth] == desk.many[depth]:
            if depth == 0:
                return FAILED
            depth -= 1
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
        The part, each with all its predecessors in it or done; and those before it.
    top
        Bytes that may be held.
    states
        How many states may be remembered.
    """

    def __init__(
        self,
        graph: OrderGraph,
        operators: Sequence[int],
        done: Collection[int],
        top: int,
        states: int = STATES,
    ) -> None:
        self.operators = list(operators)
        self.exact = len(self.operators) <= EXACT
        self.piece, left, waiting, need, live = _piece(graph, self.operators, set(done))
        size = len(self.operators)
        self.result = RUNNING
        self.desk = Desk(
            left,
            waiting,
            np.zeros(size, np.bool_),
            need,
            np.zeros((size + 1, size), np.int32),
            np.zeros(size + 1, np.int64),
            np.zeros(size + 1, np.int64),
            np.zeros(size + 1, np.int64),
            np.zeros(size + 1, np.uint64),
            np.zeros(size + 1, np.uint64),
            np.zeros(states, np.uint64),
            np.zeros(states, np.uint64),
            np.array([0, 0, live, 2**62, top, 0]),
        )
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
        return [self.operators[place] for place in self.desk.chosen[: len(self.operators)].tolist()]

    def go_on(self, nodes: int, budget: Budget) -> int:
        """Search until there are so many nodes, or the budget ends."""
        while self.result == RUNNING and self.nodes < nodes and not budget.over:
            some = min(nodes, self.nodes + _SLICE)
            self.result = int(_search(self.piece, self.desk, some))
        return self.result


def _piece(
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
    else:
        keys = np.random.default_rng(0).integers(1, 2**64, (2, size), dtype=np.uint64)
        beside, need = [[] for _ in values], [0] * size
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


def _rows(lists: list[list[int]]) -> tuple[Integers, Integers]:
    begins = np.cumsum([0, *(len(entries) for entries in lists)]).astype(np.int64)
    return begins, np.array([entry for entries in lists for entry in entries], np.int64)
