"""Metropolis search over strategies, as FlexFlow does (Jia et al., MLSys 2019), with block moves.

The published move changes one operator at random. Such moves get stuck behind resharding costs, so
two more can be mixed in: a run of equal operators takes one strategy together, and neighbours
answer a change with their best strategies, then their neighbours, as far as it goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled
from milp_plan.core.sharding import Integers, offsets_of
from milp_plan.elimination.factors import factor_graph, value
from milp_plan.elimination.repeated import RepeatedProblem

Floats = NDArray[np.float64]

PUBLISHED_PROPOSALS = 250_000
PATIENCE = 10_000
"""Proposals without gain that never stop a walk."""
ANSWERS = 60
"""Most operators that answer a change."""


@dataclass(frozen=True)
class Moves:
    """How to walk.

    Parameters
    ----------
    single
        Share of moves that change one operator and nothing else.
    temperatures
        As shares of the starting cost, one walk after the other from the best choice so far.
    patient
        Whether to use all proposals, instead of PaSE's rule: stop a walk when half of its proposals
        brought no gain.
    """

    single: float
    temperatures: tuple[float, ...]
    patient: bool


FLEXFLOW = Moves(1.0, (3e-5, 3e-4, 3e-3, 3e-2), patient=False)
BLOCKS = Moves(0.7, tuple(3e-3 * 10 ** (-number / 3) for number in range(11)), patient=True)


@dataclass(frozen=True)
class Walk:
    """What the search found.

    Parameters
    ----------
    chosen, value
        Best strategies seen, and their exact cost.
    proposals
        Moves proposed.
    """

    chosen: tuple[int, ...]
    value: int
    proposals: int


def plan_metropolis(
    problem: RepeatedProblem,
    start: Sequence[int],
    *,
    moves: Moves = BLOCKS,
    proposals: int = PUBLISHED_PROPOSALS,
    seed: int = 0,
) -> Walk:
    """Improve a choice by random moves; only for problems without masks.

    Parameters
    ----------
    problem, start
        The problem, and a choice to start from.
    moves, proposals, seed
        How to walk, how far in all, and random seed.
    """
    graph = factor_graph(problem)
    if graph.walled:
        raise ValueError("the Metropolis search knows no masks")
    flat = _flat(problem)
    best = np.array(start, dtype=np.int64)
    cost = value(graph, best.tolist())
    patience = proposals if moves.patient else PATIENCE
    done = 0
    for number, share in enumerate(moves.temperatures):
        limit = (proposals - done) // (len(moves.temperatures) - number)
        rule = _Rule(share * cost, moves.single, ANSWERS, limit, patience, seed + number)
        best, steps = _walk(best.copy(), flat, rule)
        done += int(steps)
    final = tuple(int(pick) for pick in best)
    return Walk(final, value(graph, final), done)


class _Flat(NamedTuple):
    """A problem in arrays: costs, neighbours of each operator, equal operators together.

    ``sides`` has one row per operator and neighbour: the neighbour, where the table starts, and
    steps in it for one more of the own and of the neighbour's strategy.
    """

    counts: Integers
    own_first: Integers
    own: Floats
    starts: Integers
    sides: Integers
    pairs: Floats
    members: Integers
    member_starts: Integers
    rank: Integers


class _Rule(NamedTuple):
    temperature: float
    single: float
    answers: int
    limit: int
    patience: int
    seed: int


def _flat(problem: RepeatedProblem) -> _Flat:
    kinds = np.array(problem.kinds, dtype=np.int64)
    firsts = offsets_of([len(table.cost) for table in problem.own])
    bases = offsets_of([table.cost.size for table in problem.pairs]).tolist()
    sides: list[list[tuple[int, int, int, int]]] = [[] for _ in problem.operators]
    for (first, second), link in zip(problem.ends, problem.links, strict=True):
        width = problem.pairs[link].cost.shape[1]
        sides[first].append((second, bases[link], width, 1))
        sides[second].append((first, bases[link], 1, width))
    members = np.argsort(kinds, kind="stable").astype(np.int64)
    rank = np.empty_like(members)
    rank[members] = np.arange(len(kinds))
    groups = offsets_of(np.bincount(kinds).tolist())
    return _Flat(
        counts=np.array(problem.sizes, dtype=np.int64),
        own_first=firsts[kinds],
        own=np.concatenate([table.cost for table in problem.own]).astype(np.float64),
        starts=offsets_of([len(mine) for mine in sides]),
        sides=np.array([side for mine in sides for side in mine], dtype=np.int64).reshape(-1, 4),
        pairs=np.concatenate([np.zeros(0), *(t.cost.ravel() for t in problem.pairs)]),
        members=members,
        member_starts=np.stack([groups[kinds], groups[kinds + 1]], axis=1),
        rank=rank,
    )


@compiled
def _gain(v: int, new: int, chosen: Integers, flat: _Flat) -> float:
    """What a change of one operator's strategy adds to the cost."""
    first, old = flat.own_first[v], chosen[v]
    gain = flat.own[first + new] - flat.own[first + old]
    for k in range(flat.starts[v], flat.starts[v + 1]):
        step = flat.sides[k, 2]
        at = flat.sides[k, 1] + flat.sides[k, 3] * chosen[flat.sides[k, 0]]
        gain += flat.pairs[at + step * new] - flat.pairs[at + step * old]
    return float(gain)


@compiled
def _answer(v: int, chosen: Integers, flat: _Flat) -> tuple[int, float]:
    """Best strategy of an operator as its neighbours are, and what it adds to the cost."""
    pick, change = int(chosen[v]), 0.0
    for new in range(flat.counts[v]):
        gain = _gain(v, new, chosen, flat)
        if gain < change:
            pick, change = new, gain
    return pick, change


@compiled
def _change(v: int, flat: _Flat, changed: Integers, single: bool) -> int:
    """Put the operators that change together, one or a run of equal ones, into ``changed``."""
    if single or np.random.random() < 0.5:
        changed[0] = v
        return 1
    first, stop = flat.member_starts[v, 0], flat.member_starts[v, 1]
    left = flat.rank[v] - np.random.randint(flat.rank[v] - first + 1)
    right = flat.rank[v] + np.random.randint(stop - flat.rank[v])
    for k in range(right - left + 1):
        changed[k] = flat.members[left + k]
    return int(right - left + 1)


@compiled
def _spread(
    number: int, flat: _Flat, chosen: Integers, changed: Integers, before: Integers
) -> tuple[int, float]:
    """Let neighbours answer; returns how many operators changed in all, and the gain."""
    stop = number + len(changed) - len(chosen)
    delta = 0.0
    k = 0
    while k < number < stop:
        for e in range(flat.starts[changed[k]], flat.starts[changed[k] + 1]):
            u = flat.sides[e, 0]
            pick, gain = _answer(u, chosen, flat)
            if pick != chosen[u] and number < stop:
                changed[number], before[number] = u, chosen[u]
                number += 1
                chosen[u] = pick
                delta += gain
        k += 1
    return number, delta


@compiled
def _walk(chosen: Integers, flat: _Flat, rule: _Rule) -> tuple[Integers, int]:
    """Walk from a choice; returns the best one seen and the number of proposals."""
    np.random.seed(rule.seed)
    best = chosen.copy()
    changed = np.empty(len(chosen) + rule.answers, dtype=np.int64)
    before = np.empty(len(changed), dtype=np.int64)
    now = lowest = 0.0
    gained = 0
    for step in range(rule.limit):
        if step > rule.patience and step > 2 * gained:
            return best, step
        v = np.random.randint(len(chosen))
        new = np.random.randint(flat.counts[v])
        single = np.random.random() < rule.single
        number = _change(v, flat, changed, single)
        delta = 0.0
        for k in range(number):
            u = changed[k]
            before[k] = chosen[u]
            delta += _gain(u, new, chosen, flat)
            chosen[u] = new
        if not single and np.random.random() < 0.5:
            number, gain = _spread(number, flat, chosen, changed, before)
            delta += gain
        if delta <= 0.0 or np.random.random() < np.exp(-delta / rule.temperature):
            now += delta
            if now < lowest - 0.5:
                lowest, gained = now, step
                for k in range(len(best)):
                    best[k] = chosen[k]
        else:
            for k in range(number - 1, -1, -1):
                chosen[changed[k]] = before[k]
    return best, rule.limit
