"""Tied folding: operators that look alike take the same strategy.

The idea of TAP (arXiv 2302.00247): search once per distinct block. Operators are classed by kind
and, for some rounds, by the classes of their neighbours (Weisfeiler and Lehman). Tying is a
restriction: it gives a plan and an upper bound, never a lower one. And the folded graph may be
harder than the network: rings close where a chain ends, so its elimination order is looked at
before folding is taken.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from milp_plan.elimination.factors import factor_graph
from milp_plan.elimination.ordering import weigh
from milp_plan.elimination.repeated import CostTable, RepeatedProblem
from milp_plan.elimination.search import Caps, Eliminated, eliminate

ROUNDS = 1
"""Most rounds that are tried: each separates layers one hop further from the ends."""


@dataclass(frozen=True)
class Tied:
    """A folded problem.

    Parameters
    ----------
    problem
        One operator per class; costs of a class are the sums over its members.
    member_of
        Class of each operator of the original.
    rounds
        Rounds of refinement; ``None`` if folding was not worth it: ``problem`` is the original.
    work, unfolded_work
        Predicted work of this problem and of the original.
    """

    problem: RepeatedProblem
    member_of: tuple[int, ...]
    rounds: int | None
    work: float
    unfolded_work: float

    def expand(self, chosen: tuple[int, ...]) -> tuple[int, ...]:
        """Give every member the choice of its class."""
        return tuple(chosen[number] for number in self.member_of)


def elimination_work(problem: RepeatedProblem) -> float:
    """Entries of all tables of elimination."""
    return weigh(factor_graph(problem)).entries


def model_columns(problem: RepeatedProblem) -> float:
    """Columns of the linear model: strategies, and pairs on edges."""
    return float(sum(problem.sizes) + sum(problem.pairs[link].cost.size for link in problem.links))


def tie(
    problem: RepeatedProblem,
    *,
    work: Callable[[RepeatedProblem], float] = elimination_work,
    most_rounds: int = ROUNDS,
) -> Tied:
    """Fold a problem where that lowers the predicted work; least work over numbers of rounds."""
    before = work(problem)
    best = Tied(problem, tuple(range(len(problem.operators))), None, before, before)
    for rounds in range(most_rounds + 1):
        member_of = classes(problem, rounds)
        smaller = quotient(problem, member_of)
        after = work(smaller)
        if after < best.work:
            best = Tied(smaller, member_of, rounds, after, before)
    return best


def plan_tied(
    problem: RepeatedProblem, caps: Caps | None = None
) -> tuple[tuple[int, ...] | None, Tied, Eliminated, float]:
    """Solve a folded problem by elimination.

    Returns
    -------
    tuple
        The choice for every operator (``None`` if none was found), the folding, its elimination,
        and CPU seconds in all. The elimination's bound holds for tied choices only.
    """
    start = time.thread_time()
    tied = tie(problem)
    found = eliminate(tied.problem, caps)
    chosen = None if found.chosen is None else tied.expand(found.chosen)
    return chosen, tied, found, time.thread_time() - start


def classes(problem: RepeatedProblem, rounds: int) -> tuple[int, ...]:
    """Class of each operator after some rounds of refinement, numbered by first member."""
    colours = _numbered(list(problem.kinds))
    for _ in range(rounds):
        seen: list[list[tuple[int, int, int]]] = [[] for _ in problem.operators]
        for (first, second), link in zip(problem.ends, problem.links, strict=True):
            seen[first].append((link, 0, colours[second]))
            seen[second].append((link, 1, colours[first]))
        views = zip(colours, seen, strict=True)
        colours = _numbered([(colour, tuple(sorted(around))) for colour, around in views])
    return tuple(colours)


def _numbered(marks: Sequence[object]) -> list[int]:
    known: dict[object, int] = {}
    return [known.setdefault(mark, len(known)) for mark in marks]


def quotient(problem: RepeatedProblem, member_of: tuple[int, ...]) -> RepeatedProblem:
    """Sum the tables of a problem over classes of operators of one kind each."""
    count = max(member_of) + 1
    first = [member_of.index(number) for number in range(count)]
    sizes = Counter(member_of)
    own = [_times(problem.own[problem.kinds[first[c]]], sizes[c]) for c in range(count)]
    links: dict[tuple[int, int], Counter[tuple[int, bool]]] = {}
    for (a, b), link in zip(problem.ends, problem.links, strict=True):
        one, two = member_of[a], member_of[b]
        if one == two:
            own[one] = _plus(own[one], _diagonal(problem.pairs[link]))
            continue
        turned = one > two
        key = (two, one) if turned else (one, two)
        links.setdefault(key, Counter())[link, turned] += 1
    pairs = [_summed(problem, parts) for parts in links.values()]
    labels = problem.labels
    return RepeatedProblem(
        name=f"{problem.name}-tied",
        operators=tuple(f"{problem.operators[first[c]]} x{sizes[c]}" for c in range(count)),
        kinds=tuple(range(count)),
        own=tuple(own),
        ends=tuple(links),
        links=tuple(range(len(links))),
        pairs=tuple(pairs),
        labels=tuple(labels[problem.kinds[first[c]]] for c in range(count)) if labels else (),
        provenance={**problem.provenance, "folded": "equal operators choose alike"},
    )


def _summed(problem: RepeatedProblem, parts: Counter[tuple[int, bool]]) -> CostTable:
    total: CostTable | None = None
    for (link, turned), times in parts.items():
        table = _times(problem.pairs[link], times)
        if turned:
            table = CostTable(table.cost.T, None if table.allowed is None else table.allowed.T)
        total = table if total is None else _plus(total, table)
    assert total is not None
    return CostTable(np.ascontiguousarray(total.cost), total.allowed)


def _times(table: CostTable, times: int) -> CostTable:
    return CostTable(table.cost * times, table.allowed)


def _plus(one: CostTable, two: CostTable) -> CostTable:
    free = one.allowed is None and two.allowed is None
    return CostTable(one.cost + two.cost, None if free else one.mask & two.mask)


def _diagonal(table: CostTable) -> CostTable:
    allowed = None if table.allowed is None else np.diagonal(table.allowed).copy()
    return CostTable(np.diagonal(table.cost).copy(), allowed)
