"""State of clause learning: bounds of variables, the reasons for them, and learned clauses.

Every variable is an integer with bounds; a decision is a variable from 0 to 1. Signed variable ``2
v`` stands for v and ``2 v + 1`` for -v, and ``upper`` has the upper bound of each, so the lower
bound of v is ``-upper[2 v + 1]``. A *literal* is a pair (signed variable, number) that says that
the variable is at most the number. Its negation is (signed variable ^ 1, -number - 1). Each change
of a bound is an event of the trail, with the reason for it. This is lazy clause generation
(Ohrimenko, Stuckey and Codish, Constraints 14, 2009) in the form of Aries (Bit-Monnot, ECAI 2023),
in which clauses have bounds of integers as literals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled

Ints = NDArray[np.int64]

(TRAIL, QUEUE, LEVEL, WHY, CLAUSES, LITERALS, EDGES, CONFLICT, CONFLICTS, BUFFER, UNIT_CONFLICT,
 LEARNED, GOAL, AIM, PICKED, DECISIONS, DEVICES,
 RELAXED, LISTED_AT, PLACED, CANDIDATES) = range(21)  # fmt: skip
"""Numbers of a state: events; events propagated; decisions; literals of reasons; clauses and their
literals; edges; literals of the conflict; conflicts so far; literals of the last reason; whether
the clauses contradict each other without any decision; clauses learned; the variable to be
minimised; sixteenths of its range that are tried first; events picked by an analysis;
decisions and devices in use; edges that have been propagated;
decisions and units placed when candidates were listed, and their number."""

(SIGNED, NEW, OLD, BEFORE, KIND, DATA, DEPTH) = range(7)
"""Rows of the trail: signed variable, its bound after and before, the event of it before this one,
kind of reason, what the reason is, number of decisions."""

DECISION, BY_CLAUSE, BY_EDGE, EDGE_OFF, BY_SET, FACT = range(6)
"""Kinds of reasons: none; a clause; an edge that applies; an edge that would lead too far; literals
in ``why``; true without any decision."""

(FIRST, LENGTH, SPREAD) = range(3)
"""Rows of ``clause``: where its literals begin, how many, decision levels among them when it was
learned (0 for a clause of the problem)."""

(SOURCE, TARGET, WEIGHT, IF_SIGNED, IF_BOUND, NEXT_OUT, NEXT_IN, NEXT_IF) = range(8)
"""Rows of ``edge``: target >= source + weight where its literal is true (signed variable -1:
always); the next edges that leave the source, enter the target, depend on the signed variable."""

(WATCHED, LEAVING, ENTERING, ENABLED) = range(4)
"""Rows of ``head``: first watch, edge out of a variable, into it, that depends on a literal."""

(START, END, OFFSET, TICKS, PRESENT) = range(5)
"""Rows of ``slot``, a task that may run on a device: variable of its start, variable and offset of
its stop, ticks there, the decision that puts it there (-1: always there)."""

LARGEST = 1 << 61
"""Beyond every time."""


class State(NamedTuple):
    """Arrays of a search; see the rows above."""

    n: Ints
    upper: Ints
    last: Ints
    trail: Ints
    level: Ints
    why: Ints
    literal: Ints
    clause: Ints
    watch: Ints
    head: Ints
    edge: Ints
    conflict: Ints
    buffer: Ints
    seen: Ints
    mark: Ints
    picked: Ints
    activity: NDArray[np.float64]
    phase: Ints
    decision: Ints
    candidate: Ints
    place: Ints
    slot: Ints
    slot_at: Ints
    work: Ints
    quiet: Ints


EVENTS, REASONS = 1 << 17, 1 << 21
CLAUSE_LITERALS, MOST_CLAUSES = 1 << 21, 1 << 17


def new_state(sizes: dict[str, int]) -> State:
    """Return a state without clauses and edges.

    Parameters
    ----------
    sizes
        ``variables``, ``edges``, ``decisions``, ``units``, ``slots``, ``devices``, at most.
    """

    def room(*shape: int) -> Ints:
        return np.zeros(shape, dtype=np.int64)

    variables, edges = sizes["variables"], sizes["edges"]
    wide = 2 * variables + 4 * sizes["slots"] + 64
    return State(
        n=room(24),
        upper=np.full(2 * variables, LARGEST, dtype=np.int64),
        last=np.full(2 * variables, -1, dtype=np.int64),
        trail=room(7, EVENTS),
        level=room(2, variables + 8),
        why=room(2, REASONS),
        literal=room(2, CLAUSE_LITERALS),
        clause=room(3, MOST_CLAUSES),
        watch=np.full(2 * MOST_CLAUSES, -1, dtype=np.int64),
        head=np.full((4, 2 * variables), -1, dtype=np.int64),
        edge=room(8, edges),
        conflict=room(2, wide),
        buffer=room(2, wide),
        seen=room(EVENTS),
        mark=room(EVENTS),
        picked=room(EVENTS),
        activity=np.zeros(variables, dtype=np.float64),
        phase=room(variables),
        decision=room(5, sizes["decisions"]),
        candidate=room(sizes["decisions"]),
        place=room(2, sizes["units"]),
        slot=room(6, sizes["slots"]),
        slot_at=room(sizes["devices"] + 1),
        work=room(12, sizes["slots"] + 1),
        quiet=np.full((2, sizes["devices"]), -1, dtype=np.int64),
    )


@compiled
def put(s: State, signed: int, bound: int, kind: int, data: int) -> bool:
    """Make a literal true; ``False`` where its negation is, which is the conflict then."""
    if s.upper[signed] <= bound:
        return True
    event = s.n[TRAIL]
    s.trail[SIGNED, event] = signed
    s.trail[NEW, event] = bound
    s.trail[OLD, event] = s.upper[signed]
    s.trail[BEFORE, event] = s.last[signed]
    s.trail[KIND, event] = kind
    s.trail[DATA, event] = data
    s.trail[DEPTH, event] = s.n[LEVEL]
    s.last[signed], s.upper[signed] = event, bound
    s.n[TRAIL] += 1
    if bound + s.upper[signed ^ 1] >= 0:
        return True
    s.conflict[0, 0], s.conflict[1, 0] = signed, bound
    s.conflict[0, 1], s.conflict[1, 1] = signed ^ 1, -bound - 1
    s.n[CONFLICT] = 2
    return False


@compiled
def decide(s: State, signed: int, bound: int) -> None:
    """Begin a level with a literal that is open."""
    s.n[LEVEL] += 1
    s.level[0, s.n[LEVEL]], s.level[1, s.n[LEVEL]] = s.n[TRAIL], s.n[WHY]
    put(s, signed, bound, DECISION, 0)


@compiled
def undo(s: State, level: int) -> None:
    """Take back all decisions but so many."""
    if s.n[LEVEL] <= level:
        return
    until = s.level[0, level + 1]
    for event in range(s.n[TRAIL] - 1, until - 1, -1):
        signed = s.trail[SIGNED, event]
        s.phase[signed >> 1] = signed & 1
        s.upper[signed], s.last[signed] = s.trail[OLD, event], s.trail[BEFORE, event]
    s.n[TRAIL], s.n[WHY], s.n[LEVEL] = until, s.level[1, level + 1], level
    s.n[QUEUE] = min(s.n[QUEUE], until)


@compiled
def add_clause(s: State, count: int, spread: int) -> bool:
    """Add the clause in ``buffer``; its first two literals are watched."""
    number, first = s.n[CLAUSES], s.n[LITERALS]
    for i in range(count):
        s.literal[0, first + i], s.literal[1, first + i] = s.buffer[0, i], s.buffer[1, i]
    s.clause[FIRST, number], s.clause[LENGTH, number] = first, count
    s.clause[SPREAD, number] = spread
    s.n[CLAUSES] += 1
    s.n[LITERALS] += count
    for k in range(2):
        signed = s.buffer[0, k] ^ 1
        s.watch[2 * number + k] = s.head[WATCHED, signed]
        s.head[WATCHED, signed] = 2 * number + k
    return True


@compiled
def add_fact(s: State, count: int) -> None:
    """Add the clause in ``buffer`` to the problem; no decision stands."""
    result = 0
    for i in range(count):
        signed, bound = s.buffer[0, i], s.buffer[1, i]
        if s.upper[signed] <= bound:
            return
        if s.upper[signed ^ 1] > -bound - 1:
            s.buffer[0, result], s.buffer[1, result] = signed, bound
            result += 1
    if result == 0:
        s.n[UNIT_CONFLICT] = 1
    elif result == 1:
        if not put(s, s.buffer[0, 0], s.buffer[1, 0], FACT, 0):
            s.n[UNIT_CONFLICT] = 1
    else:
        add_clause(s, result, 0)


@compiled
def add_edge(s: State, ends: tuple[int, int], weight: int, signed: int, bound: int) -> None:
    """Add an edge that depends on a literal (-1: on none); no decision stands."""
    number = s.n[EDGES]
    source, target = ends
    s.edge[SOURCE, number], s.edge[TARGET, number], s.edge[WEIGHT, number] = source, target, weight
    s.edge[IF_SIGNED, number], s.edge[IF_BOUND, number] = signed, bound
    s.edge[NEXT_OUT, number], s.head[LEAVING, source] = s.head[LEAVING, source], number
    s.edge[NEXT_IN, number], s.head[ENTERING, target] = s.head[ENTERING, target], number
    if signed >= 0:
        s.edge[NEXT_IF, number], s.head[ENABLED, signed] = s.head[ENABLED, signed], number
    s.n[EDGES] += 1
