"""Conflict analysis: from each conflict a clause that prevents it from coming again."""

# ruff: noqa: C901 (compiled loops over arrays)

from __future__ import annotations

from milp_plan.core.compiled import compiled, inlined

from .propagation import implying
from .state import (
    BEFORE,
    BY_CLAUSE,
    BY_EDGE,
    BY_SET,
    CLAUSES,
    CONFLICT,
    CONFLICTS,
    DATA,
    DECISION,
    DEPTH,
    EDGE_OFF,
    FACT,
    FIRST,
    IF_BOUND,
    IF_SIGNED,
    KIND,
    LEARNED,
    LENGTH,
    OLD,
    PICKED,
    SIGNED,
    SOURCE,
    TARGET,
    TRAIL,
    UNIT_CONFLICT,
    WEIGHT,
    State,
    add_clause,
    put,
    undo,
)


@compiled
def reason_of(s: State, event: int, bound: int) -> int:
    """Write into ``buffer`` the literals that imply an event with a bound; return their number."""
    kind, data, signed = s.trail[KIND, event], s.trail[DATA, event], s.trail[SIGNED, event]
    count = 0
    if kind == BY_CLAUSE:
        first = s.clause[FIRST, data]
        for i in range(first, first + s.clause[LENGTH, data]):
            if s.literal[0, i] != signed:
                s.buffer[0, count] = s.literal[0, i] ^ 1
                s.buffer[1, count] = -s.literal[1, i] - 1
                count += 1
    elif kind == BY_EDGE:
        if s.edge[IF_SIGNED, data] >= 0:
            s.buffer[0, 0], s.buffer[1, 0] = s.edge[IF_SIGNED, data], s.edge[IF_BOUND, data]
            count = 1
        if signed & 1:
            s.buffer[0, count] = 2 * s.edge[SOURCE, data] + 1
        else:
            s.buffer[0, count] = 2 * s.edge[TARGET, data]
        s.buffer[1, count] = bound + s.edge[WEIGHT, data]
        count += 1
    elif kind == EDGE_OFF:
        source = 2 * s.edge[SOURCE, data] + 1
        early = s.upper[source]
        last = s.last[source]
        while last >= event:
            early = s.trail[OLD, last]
            last = s.trail[BEFORE, last]
        s.buffer[0, 0], s.buffer[1, 0] = source, early
        s.buffer[0, 1] = 2 * s.edge[TARGET, data]
        s.buffer[1, 1] = -early + s.edge[WEIGHT, data] - 1
        count = 2
    elif kind == BY_SET:
        first = data >> 16
        for i in range(first, first + (data & 0xFFFF)):
            s.buffer[0, count], s.buffer[1, count] = s.why[0, i], s.why[1, i]
            count += 1
    return count


@compiled
def _note(s: State, signed: int, bound: int, until: int, level: int) -> int:
    """Mark the event that makes a literal true; return 1 if it is new and of the level, else 0."""
    event = implying(s, signed, bound, until)
    if event < 0 or s.trail[DEPTH, event] == 0:
        return 0
    if s.seen[event]:
        s.mark[event] = min(s.mark[event], bound)
        return 0
    s.seen[event], s.mark[event] = 1, bound
    s.picked[s.n[PICKED]] = event
    s.n[PICKED] += 1
    return 1 if s.trail[DEPTH, event] == level else 0


@compiled
def _covered(s: State, event: int) -> bool:
    """Return whether other marked literals imply this one."""
    if s.trail[KIND, event] == DECISION:
        return False
    for i in range(reason_of(s, event, s.mark[event])):
        other = implying(s, s.buffer[0, i], s.buffer[1, i], event)
        if other < 0 or s.trail[DEPTH, other] == 0:
            continue
        if not s.seen[other] or s.mark[other] > s.buffer[1, i]:
            return False
    return True


@inlined
def _expand(s: State) -> None:
    """Replace an impossible bound of the last event in the conflict by the reasons for it."""
    if s.n[CONFLICT] != 2 or s.conflict[0, 0] ^ 1 != s.conflict[0, 1]:
        return
    event = s.n[TRAIL] - 1
    count = reason_of(s, event, s.conflict[1, 0])
    for i in range(count):
        s.conflict[0, i + 2], s.conflict[1, i + 2] = s.buffer[0, i], s.buffer[1, i]
    s.conflict[0, 0], s.conflict[1, 0] = s.conflict[0, 1], s.conflict[1, 1]
    s.n[CONFLICT] = count + 2


@compiled
def learn(s: State, step: float) -> bool:
    """Learn a clause from the conflict, backtrack and apply it; ``False`` if nothing is left."""
    s.n[CONFLICTS] += 1
    s.n[PICKED] = 0
    _expand(s)
    level = 0
    for i in range(s.n[CONFLICT]):
        event = implying(s, s.conflict[0, i], s.conflict[1, i], s.n[TRAIL])
        if event >= 0:
            level = max(level, s.trail[DEPTH, event])
    if level == 0:
        s.n[UNIT_CONFLICT] = 1
        return False
    undo(s, level)
    open_now = 0
    for i in range(s.n[CONFLICT]):
        open_now += _note(s, s.conflict[0, i], s.conflict[1, i], s.n[TRAIL], level)
    event = s.n[TRAIL] - 1
    while True:
        while not s.seen[event]:
            event -= 1
        s.activity[s.trail[SIGNED, event] >> 1] += step
        if open_now == 1:
            break
        s.seen[event] = 0
        open_now -= 1
        for i in range(reason_of(s, event, s.mark[event])):
            open_now += _note(s, s.buffer[0, i], s.buffer[1, i], event, level)
        event -= 1
    _write(s, event, step)
    return True


@compiled
def _write(s: State, last: int, step: float) -> None:
    """Add the clause of all marked literals, with the second from the second latest level."""
    for p in range(s.n[PICKED]):  # of several literals of a variable the strongest is enough
        event = s.picked[p]
        if s.seen[event]:
            other = s.trail[BEFORE, event]
            while other >= 0:
                if s.seen[other]:
                    s.seen[other] = 0
                other = s.trail[BEFORE, other]
    for p in range(s.n[PICKED]):
        event = s.picked[p]
        if s.seen[event] and event != last and _covered(s, event):
            s.seen[event] = 2
    count, back, at = 1, 0, 1
    s.buffer[0, 0], s.buffer[1, 0] = s.trail[SIGNED, last] ^ 1, -s.mark[last] - 1
    for p in range(s.n[PICKED]):
        event = s.picked[p]
        if s.seen[event] == 1 and event != last:
            s.seen[event] = 0
            s.buffer[0, count] = s.trail[SIGNED, event] ^ 1
            s.buffer[1, count] = -s.mark[event] - 1
            s.activity[s.trail[SIGNED, event] >> 1] += step
            if s.trail[DEPTH, event] > back:
                back, at = s.trail[DEPTH, event], count
            count += 1
        s.seen[event] = 0
    s.seen[last] = 0
    if count > 1:
        s.buffer[0, 1], s.buffer[0, at] = s.buffer[0, at], s.buffer[0, 1]
        s.buffer[1, 1], s.buffer[1, at] = s.buffer[1, at], s.buffer[1, 1]
    undo(s, back)
    if count == 1:
        if not put(s, s.buffer[0, 0], s.buffer[1, 0], FACT, 0):
            s.n[UNIT_CONFLICT] = 1
        return
    s.n[LEARNED] += 1
    number = s.n[CLAUSES]
    add_clause(s, count, 2)
    put(s, s.buffer[0, 0], s.buffer[1, 0], BY_CLAUSE, number)
