"""Clustering of repeated blocks (layers, cells) in the same way, so that plans repeat."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from milp_plan.core import ComputationGraph, Operator, PlanningProblem

from .caps import RUNGS, caps_of, cost_of, scale
from .contraction import contract
from .nodes import Caps
from .quotient import Quotient
from .reduction import Reduction


def repeated_blocks(graph: ComputationGraph) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Return classes of two or more blocks that are alike, by ``Operator.block``.

    Blocks are alike when their operators, in graph order, agree one by one: kind, micro-batch,
    options, position in the block's colocation groups, and what they read from each other.

    Returns
    -------
    tuple
        Per class its blocks; per block its operators, like ones at like positions.
    """
    blocks: dict[str, list[Operator]] = {}
    for operator in graph.operators:
        if operator.block is not None:
            blocks.setdefault(operator.block, []).append(operator)
    classes: dict[Hashable, list[tuple[str, ...]]] = {}
    for members in blocks.values():
        if len(members) > 1:
            names = tuple(member.name for member in members)
            classes.setdefault(_signature(graph, members), []).append(names)
    return tuple(tuple(entry) for entry in classes.values() if len(entry) > 1)


def _signature(graph: ComputationGraph, members: list[Operator]) -> Hashable:
    place = {member.name: i for i, member in enumerate(members)}
    groups: dict[str | None, int] = {None: -1}
    rows = []
    for member in members:
        options = tuple(
            (o.name, tuple(sorted(o.duration_ticks.items())), o.gang, o.workspace_bytes)
            for o in member.options
        )
        read = sorted(
            (place[v.producer], tuple(sorted(v.bytes.items())))
            for v in graph.inputs[member.name]
            if v.producer in place
        )
        group = groups.setdefault(member.group, len(groups))
        rows.append((member.kind, member.micro_batch, options, group, tuple(read)))
    return tuple(rows)


@dataclass(frozen=True)
class BlockFolding:
    """Merge inside repeated blocks, the same pairs in every repetition. Heuristic.

    Pairs are chosen in the first block of a class, cheapest first, as in
    :class:`.AcyclicClustering`, and merge in all blocks or in none.

    Parameters
    ----------
    target
        Operators wanted.
    """

    target: int
    name = "repeated blocks"
    exact = False

    def apply(self, problem: PlanningProblem) -> Reduction | None:
        """Merge inside the blocks while the strictest caps allow it."""
        classes = repeated_blocks(problem.graph)
        if not classes:
            return None
        quotient = Quotient(problem)
        caps = caps_of(RUNGS[0], scale(quotient), self.target)
        for blocks in classes:
            fold = _Fold(quotient, blocks)
            while len(quotient) > self.target and fold.merge_cheapest(caps):
                pass
        clusters = quotient.clusters()
        return contract(problem, clusters, name=self.name) if clusters else None


class _Fold:
    """The blocks of one class; ``rows[b][k]`` is the cluster at position k of block b."""

    def __init__(self, quotient: Quotient, blocks: tuple[tuple[str, ...], ...]) -> None:
        place = {name: i for i, name in enumerate(quotient.names)}
        self.quotient = quotient
        self.size = scale(quotient)
        self.rows = [[place[name] for name in block] for block in blocks]
        self.rejected: set[tuple[int, int]] = set()

    def merge_cheapest(self, caps: Caps) -> bool:
        """Merge the cheapest pair of positions in every block; return whether there was one."""
        paths = self.quotient.paths()
        scored = []
        for k, m in self._positions():
            costs = [
                cost_of(self.quotient, caps, self.size, (row[k], row[m]), paths)
                for row in self.rows
            ]
            known = [cost for cost in costs if cost is not None]
            if len(known) == len(costs):
                scored.append((max(known), k, m))
        for _, k, m in sorted(scored):
            if self._merge(k, m, caps):
                return True
            self.rejected.add((k, m))
        return False

    def _positions(self) -> list[tuple[int, int]]:
        """Return pairs of positions whose clusters in the first block share an edge."""
        first = self.rows[0]
        position = {node: k for k, node in reversed(list(enumerate(first)))}
        nodes = self.quotient.nodes
        pairs = [
            (k, position[j]) for i, k in position.items() for j in nodes[i].after if j in position
        ]
        return [pair for pair in sorted(pairs) if pair not in self.rejected]

    def _merge(self, k: int, m: int, caps: Caps) -> bool:
        pairs = [(row[k], row[m]) for row in self.rows]
        if not all(self.quotient.may_merge(list(pair), caps) for pair in pairs):
            return False
        for row, pair in zip(self.rows, pairs, strict=True):
            # A merge before this one may have closed a path around the pair.
            if self.quotient.may_merge(list(pair), caps):
                kept = self.quotient.merge(list(pair))
                row[:] = [kept if node in pair else node for node in row]
        return True
