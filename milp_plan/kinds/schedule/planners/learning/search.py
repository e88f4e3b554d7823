"""The search loop: propagate, learn from conflicts, decide, restart."""

# ruff: noqa: C901, PLR0912 (compiled loops over arrays)

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled, inlined

from .analysis import learn
from .propagation import propagate
from .state import (
    AIM,
    BY_CLAUSE,
    CANDIDATES,
    CLAUSE_LITERALS,
    CLAUSES,
    CONFLICTS,
    DATA,
    DECISIONS,
    DEVICES,
    EVENTS,
    FIRST,
    GOAL,
    KIND,
    LENGTH,
    LEVEL,
    LISTED_AT,
    LITERALS,
    MOST_CLAUSES,
    PLACED,
    SPREAD,
    TRAIL,
    UNIT_CONFLICT,
    WATCHED,
    Ints,
    State,
    decide,
    undo,
)

Floats = NDArray[np.float64]

STOPPED, LEAF, DONE, FULL = range(4)
"""Ends of a search: conflicts used up; everything is decided; search complete; arrays full."""

GROWTH = 1.02
"""Factor on the increment of activities after each conflict."""

SHORTEST_RUN = 64
"""Conflicts of the shortest run between two restarts."""


@inlined
def luby(number: int) -> int:
    """Return a term of 1 1 2 1 1 2 4 ... (Luby, Sinclair, Zuckerman 1993), counted from 1."""
    size, power = 1, 1
    while size < number:
        size, power = 2 * size + 1, 2 * power
    while size != number:
        size, power = (size - 1) // 2, power // 2
        if number > size:
            number -= size
            if number == 0:
                return power
    return power


@compiled
def search(s: State, steps: Ints, weights: Floats) -> int:
    """Search for a number of conflicts and return how the search ended.

    ``steps``: conflicts to spend, restarts so far, conflicts until the next restart, largest number
    of learned clauses; ``weights``: the increment of activities.
    """
    until = s.n[CONFLICTS] + steps[0]
    s.n[PLACED] = -1
    if s.n[UNIT_CONFLICT]:
        return DONE
    while True:
        if not propagate(s):
            weights[0] *= GROWTH
            if weights[0] > 1e100:
                weights[0] *= 1e-100
                for v in range(len(s.activity)):
                    s.activity[v] *= 1e-100
            if not learn(s, weights[0]) or s.n[UNIT_CONFLICT]:
                s.n[UNIT_CONFLICT] = 1
                return DONE
            steps[2] -= 1
            if s.n[CONFLICTS] >= until:
                return STOPPED
            continue
        if s.n[TRAIL] > EVENTS // 2:
            undo(s, 0)
            return FULL
        if steps[2] <= 0:
            steps[1] += 1
            steps[2] = SHORTEST_RUN * luby(steps[1])
            undo(s, 0)
            if not propagate(s):
                continue
            crowded = s.n[LITERALS] > CLAUSE_LITERALS // 2 or s.n[CLAUSES] > MOST_CLAUSES // 2
            if crowded or _learned(s) > steps[3]:
                steps[3] += 200
                forget(s)
            continue
        if s.n[LEVEL] == 0 and s.n[AIM] > 0:
            goal = 2 * s.n[GOAL]
            least, most = -s.upper[goal + 1], s.upper[goal]
            aim = least + (most - least) * s.n[AIM] // 16
            if steps[1] % 2 == 1 and aim < most:
                decide(s, goal, aim)
                continue
        i = _pick(s)
        if i < 0:
            return LEAF
        _choose(s, i)


@inlined
def _matters(s: State, i: int) -> bool:
    """Return whether a decision is open and matters: an order does if both are on one device."""
    v, a, b = s.decision[0, i], s.decision[1, i], s.decision[2, i]
    if s.upper[2 * v] + s.upper[2 * v + 1] == 0:
        return False
    return bool(a == b or s.place[1, a] == s.place[1, b])


@compiled
def _pick(s: State) -> int:
    """Return the open decision that matters with the largest activity; -1 if there is none.

    Ties go to the one whose tasks can start first. ``candidate`` lists what mattered at an earlier
    level; it is valid until that level is undone or a unit is placed.
    """
    placed = _place(s)
    if s.n[LEVEL] <= s.n[LISTED_AT] or placed != s.n[PLACED]:
        s.n[LISTED_AT], s.n[PLACED] = s.n[LEVEL], placed
        s.n[CANDIDATES] = 0
        for i in range(s.n[DECISIONS]):
            if _matters(s, i):
                s.candidate[s.n[CANDIDATES]] = i
                s.n[CANDIDATES] += 1
    best, most, least = -1, -1.0, 1 << 62
    for c in range(s.n[CANDIDATES]):
        i = s.candidate[c]
        v = s.decision[0, i]
        if s.upper[2 * v] + s.upper[2 * v + 1] == 0 or s.activity[v] < most:
            continue
        early = -1
        if s.decision[3, i] >= 0:
            one, other = s.decision[3, i], s.decision[4, i]
            early = min(-s.upper[2 * one + 1], -s.upper[2 * other + 1])
        if s.activity[v] > most or early < least:
            best, most, least = i, s.activity[v], early
    return best


@inlined
def _place(s: State) -> int:
    """Fill the devices of units and return how many units are placed."""
    placed = 0
    for unit in range(len(s.place[0])):
        s.place[1, unit] = -1 - unit
        for v in range(s.place[0, unit], s.place[0, unit] + s.n[DEVICES]):
            if s.upper[2 * v + 1] <= -1:
                s.place[1, unit] = v - s.place[0, unit]
                placed += 1
    return placed


@inlined
def _choose(s: State, i: int) -> None:
    """Decide as the last time; decide a new order by the middle of both tasks' windows."""
    v = s.decision[0, i]
    wanted = s.phase[v]
    if wanted < 0:
        one, other = s.decision[3, i], s.decision[4, i]
        first = s.upper[2 * one] - s.upper[2 * one + 1]
        wanted = 1 if first <= s.upper[2 * other] - s.upper[2 * other + 1] else 0
    if wanted:
        decide(s, 2 * v + 1, -1)
    else:
        decide(s, 2 * v, 0)


@inlined
def _learned(s: State) -> int:
    """Return the number of learned clauses."""
    count = 0
    for number in range(s.n[CLAUSES]):
        if s.clause[SPREAD, number] > 0:
            count += 1
    return count


@compiled
def forget(s: State) -> None:
    """Delete clauses that are always true and long learned clauses; must be called at level 0."""
    total = number = 0
    for c in range(s.n[CLAUSES]):
        if s.clause[SPREAD, c] > 0:
            total += s.clause[LENGTH, c]
            number += 1
    mean = total // max(1, number)
    for event in range(s.n[TRAIL]):
        if s.trail[KIND, event] == BY_CLAUSE:
            s.trail[DATA, event] = -1
    for signed in range(len(s.upper)):
        s.head[WATCHED, signed] = -1
    clauses = literals = 0
    for c in range(s.n[CLAUSES]):
        first, length = s.clause[FIRST, c], s.clause[LENGTH, c]
        drop = s.clause[SPREAD, c] > 0 and length > 3 and length > mean and c < s.n[CLAUSES] - 200
        size = 0
        for i in range(first, first + length):
            signed, bound = s.literal[0, i], s.literal[1, i]
            if s.upper[signed] <= bound:
                drop = True
            if s.upper[signed ^ 1] > -bound - 1:
                s.literal[0, literals + size], s.literal[1, literals + size] = signed, bound
                size += 1
        if drop or size < 2:
            continue
        s.clause[FIRST, clauses], s.clause[LENGTH, clauses] = literals, size
        s.clause[SPREAD, clauses] = s.clause[SPREAD, c]
        for k in range(2):
            signed = s.literal[0, literals + k] ^ 1
            s.watch[2 * clauses + k] = s.head[WATCHED, signed]
            s.head[WATCHED, signed] = 2 * clauses + k
        clauses += 1
        literals += size
    s.n[CLAUSES], s.n[LITERALS] = clauses, literals
