"""Propagation of bounds: clauses, edges between times, and tasks on one device."""

from __future__ import annotations

from milp_plan.core.compiled import compiled, inlined

from .state import (
    BEFORE,
    BY_CLAUSE,
    BY_EDGE,
    CONFLICT,
    DATA,
    DEPTH,
    EDGE_OFF,
    EDGES,
    ENABLED,
    ENTERING,
    EVENTS,
    FIRST,
    IF_BOUND,
    IF_SIGNED,
    KIND,
    LEAVING,
    LENGTH,
    LEVEL,
    NEW,
    NEXT_IF,
    NEXT_IN,
    NEXT_OUT,
    OLD,
    QUEUE,
    RELAXED,
    SIGNED,
    SOURCE,
    TARGET,
    TRAIL,
    WATCHED,
    WEIGHT,
    State,
    put,
)
from .turns import take_turns

LONGEST_CYCLE = 1000
"""Most edges of a cycle that are followed back."""


@compiled
def propagate(s: State) -> bool:
    """Propagate until nothing changes; return ``False`` on a conflict."""
    while s.n[RELAXED] < s.n[EDGES]:
        e = s.n[RELAXED]
        s.n[RELAXED] += 1
        if not _relax(s, e):
            return False
    while True:
        while s.n[QUEUE] < s.n[TRAIL]:
            if s.n[TRAIL] > EVENTS // 2:
                return True
            event = s.n[QUEUE]
            s.n[QUEUE] += 1
            signed = s.trail[SIGNED, event]
            if s.trail[NEW, event] != s.upper[signed]:
                continue  # a later event is stronger
            if not (_clauses(s, signed) and _edges(s, signed) and _enabled(s, signed)):
                return False
        before = s.n[TRAIL]
        if not take_turns(s):
            return False
        if s.n[TRAIL] == before:
            return True


@compiled
def _clauses(s: State, signed: int) -> bool:
    """Propagate clauses with a watched literal that has become false; ``False`` on a conflict."""
    before, node = -1, s.head[WATCHED, signed]
    while node >= 0:
        following = s.watch[node]
        first, side = s.clause[FIRST, node >> 1], node & 1
        own, other = first + side, first + 1 - side
        fine = s.upper[signed] > -s.literal[1, own] - 1
        if fine or s.upper[s.literal[0, other]] <= s.literal[1, other]:
            before, node = node, following
            continue
        moved = False
        for i in range(first + 2, first + s.clause[LENGTH, node >> 1]):
            new, bound = s.literal[0, i], s.literal[1, i]
            if s.upper[new ^ 1] > -bound - 1:
                s.literal[0, i], s.literal[1, i] = s.literal[0, own], s.literal[1, own]
                s.literal[0, own], s.literal[1, own] = new, bound
                if before < 0:
                    s.head[WATCHED, signed] = following
                else:
                    s.watch[before] = following
                s.watch[node], s.head[WATCHED, new ^ 1] = s.head[WATCHED, new ^ 1], node
                moved = True
                break
        if not moved:
            if not put(s, s.literal[0, other], s.literal[1, other], BY_CLAUSE, node >> 1):
                return False
            before = node
        node = following
    return True


@inlined
def _applies(s: State, e: int) -> bool:
    signed = s.edge[IF_SIGNED, e]
    return bool(signed < 0 or s.upper[signed] <= s.edge[IF_BOUND, e])


@compiled
def _along(s: State, e: int, backward: int) -> bool:
    """Raise the target's least time along an edge that applies, or lower the source's largest."""
    here = 2 * s.edge[TARGET, e] if backward else 2 * s.edge[SOURCE, e] + 1
    there = 2 * s.edge[SOURCE, e] if backward else 2 * s.edge[TARGET, e] + 1
    bound = s.upper[here] - s.edge[WEIGHT, e]
    if s.upper[there] <= bound:
        return True
    last = s.last[there]
    again = last >= 0 and s.trail[KIND, last] == BY_EDGE and s.trail[DEPTH, last] == s.n[LEVEL]
    if again and _cycle(s, e, here, there):
        return False
    return put(s, there, bound, BY_EDGE, e)


@compiled
def _cycle(s: State, e: int, here: int, there: int) -> bool:
    """Return whether a bound raises itself through a cycle; fill the conflict with its literals."""
    count = 0
    if s.edge[IF_SIGNED, e] >= 0:
        s.conflict[0, 0], s.conflict[1, 0] = s.edge[IF_SIGNED, e], s.edge[IF_BOUND, e]
        count = 1
    event, signed = s.last[here], here
    for _ in range(LONGEST_CYCLE):
        if event < 0 or s.trail[KIND, event] != BY_EDGE:
            return False
        edge = s.trail[DATA, event]
        if s.edge[IF_SIGNED, edge] >= 0:
            if count >= len(s.conflict[0]):
                return False
            s.conflict[0, count] = s.edge[IF_SIGNED, edge]
            s.conflict[1, count] = s.edge[IF_BOUND, edge]
            count += 1
        bound = s.trail[NEW, event] + s.edge[WEIGHT, edge]
        signed = 2 * s.edge[TARGET, edge] if signed & 1 == 0 else 2 * s.edge[SOURCE, edge] + 1
        if signed == there:
            s.n[CONFLICT] = count
            return True
        event = implying(s, signed, bound, event)
    return False


@inlined
def implying(s: State, signed: int, bound: int, until: int) -> int:
    """Return the first event before ``until`` that makes a literal true; -1 if it always is."""
    event = s.last[signed]
    while event >= 0 and (event >= until or s.trail[OLD, event] <= bound):
        event = s.trail[BEFORE, event]
    return int(event)


@compiled
def _edges(s: State, signed: int) -> bool:
    """Propagate along the edges of a variable whose bound has changed; ``False`` on a conflict."""
    backward = 1 - (signed & 1)
    e = s.head[ENTERING if backward else LEAVING, signed >> 1]
    while e >= 0:
        if _applies(s, e):
            if not _along(s, e, backward):
                return False
        elif not _exclude(s, e):
            return False
        e = s.edge[NEXT_IN if backward else NEXT_OUT, e]
    return True


@inlined
def _exclude(s: State, e: int) -> bool:
    """Make the literal of an edge false that would lead beyond the largest time of its target."""
    off, bound = s.edge[IF_SIGNED, e] ^ 1, -s.edge[IF_BOUND, e] - 1
    late = -s.upper[2 * s.edge[SOURCE, e] + 1] + s.edge[WEIGHT, e]
    if s.upper[off] <= bound or late <= s.upper[2 * s.edge[TARGET, e]]:
        return True
    return bool(put(s, off, bound, EDGE_OFF, e))


@inlined
def _relax(s: State, e: int) -> bool:
    """Propagate along a new edge; ``False`` on a conflict."""
    if _applies(s, e):
        return bool(_along(s, e, 0) and _along(s, e, 1))
    return bool(_exclude(s, e))


@compiled
def _enabled(s: State, signed: int) -> bool:
    """Propagate edges that depend on a literal that has become true; ``False`` on a conflict."""
    e = s.head[ENABLED, signed]
    while e >= 0:
        if _applies(s, e) and not (_along(s, e, 0) and _along(s, e, 1)):
            return False
        e = s.edge[NEXT_IF, e]
    return True
