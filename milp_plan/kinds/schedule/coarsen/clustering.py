"""Heuristic clustering: chains, and acyclic pairwise merges down to a target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from milp_plan.core import PlanningProblem

from .caps import (
    RUNGS,
    WEIGHT_OF_STRETCH,
    WEIGHT_OF_WORK,
    Scale,
    caps_of,
    cost_of,
    scale,
)
from .contraction import contract
from .nodes import Caps
from .paths import Paths
from .quotient import Quotient
from .reduction import Reduction

Key = str | int
"""Key of a component of a quotient."""


def _reduction(name: str, quotient: Quotient) -> Reduction | None:
    clusters = quotient.clusters()
    if not clusters:
        return None
    return contract(quotient.problem, clusters, name=name)


@dataclass(frozen=True)
class ChainContraction:
    """Contract chains: an operator with one reader, which reads nothing else. Heuristic.

    Nothing waits for anything new; but other work can no longer run between the two, and the two
    cannot use two devices.

    Parameters
    ----------
    target
        Operators wanted; a cluster gets at most a share of the work that fits it.
    """

    target: int
    name = "chains"
    exact = False

    def apply(self, problem: PlanningProblem) -> Reduction | None:
        """Contract chains link by link, within the strictest caps."""
        quotient = Quotient(problem)
        caps = caps_of(RUNGS[0], scale(quotient), self.target)
        for i in quotient.order():
            while len(quotient) > self.target and i in quotient.nodes:
                readers = list(quotient.nodes[i].after)
                if len(readers) != 1 or len(quotient.nodes[readers[0]].before) > 1:
                    break
                pair = [i, readers[0]]
                if _too_much(quotient, pair, caps) or not quotient.may_merge(pair, caps):
                    break
                quotient.merge(pair)
        return _reduction(self.name, quotient)


def _too_much(quotient: Quotient, nodes: list[int], caps: Caps) -> bool:
    """Return whether the merged cluster, or its component, exceeds the cap on work."""
    keys = dict.fromkeys(map(quotient.key, nodes))
    tied = sum(quotient.component(i).work for i in dict(zip(keys, nodes, strict=False)).values())
    work = sum(quotient.nodes[i].work for i in nodes)
    return work > caps.work or (len(keys) > 1 and work < tied > caps.component_work)


@dataclass(frozen=True)
class AcyclicClustering:
    """Merge clusters pairwise, keeping the graph acyclic, until the target is met. Heuristic.

    A round scores the pairs that share an edge, a supplier or a reader: time saved on channels,
    against the stretch of the longest path and the size. Pairs on one site merge first. When
    none is left, the best disjoint pairs of components (what colocation ties to one site) merge,
    each with all edges between the two: the backward half of a layer follows its forward half.
    Caps on work, tied work, path and memory start strict and are loosened when a round finds
    nothing (:data:`.RUNGS`). What costs more to keep apart, in travel,
    than it can gain, in work done elsewhere, merges whatever the caps on work say. Acyclic in
    the manner of multilevel DAG partitioning (Herrmann, Ozkaya, Ucar, Kaya, Catalyurek, SIAM J.
    Sci. Comput. 41(4), 2019), with exact reachability by bit sets in place of levels.

    Parameters
    ----------
    target
        Operators wanted.
    """

    target: int
    name = "clustering"
    exact = False

    def apply(self, problem: PlanningProblem) -> Reduction | None:
        """Merge down to the target."""
        quotient = Quotient(problem)
        size = scale(quotient)
        for rung in RUNGS:
            caps = caps_of(rung, size, self.target)
            merged = 1
            while len(quotient) > self.target and merged:
                search = _Round(quotient, caps, size, self.target)
                merged = search.merge_on_site()
                if not merged:
                    merged = search.merge_components()
        return _reduction(self.name, quotient)


class _Round:
    """One round of merges over all pairs."""

    def __init__(self, quotient: Quotient, caps: Caps, size: Scale, target: int) -> None:
        self.quotient = quotient
        self.caps = caps
        self.size = size
        self.target = target
        self.paths = Paths(quotient)
        self.heads, self.tails = self.paths.heads, self.paths.tails
        self.pairs = list(_pairs(quotient, self.heads))

    def merge_on_site(self) -> int:
        """Merge the best disjoint pairs that share a site anyway; return their number."""
        quotient = self.quotient
        scored = []
        for i, j in self.pairs:
            if quotient.together(i, j):
                score = self._score(i, j)
                if score is not None:
                    scored.append((score, i, j))
        return self._take(sorted(scored))

    def _take(self, scored: list[tuple[float, int, int]]) -> int:
        quotient = self.quotient
        used: set[int] = set()
        room = max(1, len(quotient) // 4)
        for _, i, j in scored:
            if len(quotient) <= self.target or len(used) >= 2 * room:
                break
            if i in used or j in used or self._merge(i, j) is None:
                continue
            used |= {i, j}
        return len(used) // 2

    def _merge(self, i: int, j: int) -> int | None:
        """Merge two clusters if earlier merges of this round still allow it."""
        quotient = self.quotient
        if self._score(i, j) is None or not quotient.may_merge([i, j], self.caps):
            return None
        merged = quotient.merge([i, j])
        self.paths.lengthen(merged)
        return merged

    def _score(self, i: int, j: int) -> float | None:
        """Return the cost of merging two clusters, in ticks; ``None`` when beyond the caps."""
        return cost_of(self.quotient, self.caps, self.size, (i, j), (self.heads, self.tails))

    def merge_components(self) -> int:
        """Merge the best disjoint pairs of components; return the number of merges."""
        quotient = self.quotient
        before = len(quotient)
        used: set[Key] = set()
        ties = self._ties()
        room = max(1, len({quotient.key(i) for i in quotient.nodes}) // 4)
        for _, i, j in sorted(self._component_scores(ties)):
            keys = (
                {quotient.key(i), quotient.key(j)} if i in ties.alive and j in ties.alive else used
            )
            if len(quotient) <= self.target or len(used) >= 2 * room:
                break
            if not keys.isdisjoint(used):
                continue
            kept = self._merge(i, j)
            if kept is None:
                continue
            used |= keys
            ties.alive.discard(max(i, j))
            used.add(quotient.key(kept))
            self._follow(kept, ties)
        return before - len(quotient)

    def _follow(self, kept: int, ties: _Ties) -> None:
        """Merge further along the edges inside a component that was just formed."""
        quotient = self.quotient
        key = quotient.key(kept)
        todo = [i for i in sorted(quotient.nodes) if quotient.key(i) == key]
        for i in todo:
            if i not in quotient.nodes:
                continue
            for j in sorted(quotient.nodes[i].after):
                if len(quotient) <= self.target:
                    return
                if j in quotient.nodes and quotient.key(j) == key and i in quotient.nodes:
                    merged = self._merge(i, j)
                    if merged is not None:
                        ties.alive.discard(i + j - merged)
                        if merged != i:
                            break

    def _ties(self) -> _Ties:
        quotient = self.quotient
        heads: dict[Key, float] = {}
        tails: dict[Key, float] = {}
        travel: dict[tuple[Key, Key], set[str]] = {}
        for i, node in quotient.nodes.items():
            key = quotient.key(i)
            heads[key] = min(heads.get(key, self.heads[i]), self.heads[i])
            tails[key] = min(tails.get(key, self.tails[i]), self.tails[i])
            for j, values in node.after.items():
                other = quotient.key(j)
                if other != key:
                    travel.setdefault((key, other), set()).update(values)
        return _Ties(heads, tails, travel, set(quotient.nodes))

    def _component_scores(self, ties: _Ties) -> Iterator[tuple[float, int, int]]:
        quotient, caps = self.quotient, self.caps
        for i, j in self.pairs:
            a, b = quotient.key(i), quotient.key(j)
            if a == b:
                continue
            works = (quotient.component(i).work, quotient.component(j).work)
            between = ties.travel.get((a, b), set()) | ties.travel.get((b, a), set())
            saved = quotient.travel_ticks(between)
            head = min(ties.heads[a], ties.heads[b])
            path = head + sum(works) + min(ties.tails[a], ties.tails[b])
            glued = saved >= min(works)
            alone = sum(works) == quotient.nodes[i].work + quotient.nodes[j].work
            too_much = sum(works) > caps.component_work and not alone
            if not glued and (too_much or path > caps.path):
                continue
            score = self._score(i, j)
            if score is not None:
                stretch = max(0.0, path - self.size.limit)
                tied = WEIGHT_OF_STRETCH * stretch + WEIGHT_OF_WORK * sum(works) - saved
                yield score + tied, i, j


@dataclass(frozen=True)
class _Ties:
    """Components: shortest paths before and after, values between, remaining clusters."""

    heads: dict[Key, float]
    tails: dict[Key, float]
    travel: dict[tuple[Key, Key], set[str]]
    alive: set[int]


def _pairs(quotient: Quotient, heads: dict[int, float]) -> Iterator[tuple[int, int]]:
    """Yield candidate pairs: ends of an edge, and siblings that are neighbours by their head."""
    rank = {i: (heads[i], i) for i in quotient.nodes}
    result = list(pairwise(sorted(quotient.nodes, key=rank.__getitem__)))
    for i, node in quotient.nodes.items():
        result += [(i, j) for j in node.after]
        for family in (node.after, node.before):
            result += pairwise(sorted(family, key=rank.__getitem__))
    return iter(dict.fromkeys((min(pair), max(pair)) for pair in result))
