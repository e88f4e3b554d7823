"""Sharding problems whose operators repeat: each distinct table is stored once.

Networks stack identical layers. Whoever folds them must see which tables are equal before they are
written out; a :class:`RepeatedProblem` says so. It has no usage of memory and no limit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from milp_plan.core.sharding import (
    Flags,
    Integers,
    ShardingProblem,
    StrategyTable,
    TransitionTable,
    offsets_of,
)


@dataclass(frozen=True, eq=False)
class CostTable:
    """Costs of the strategies of an operator (one axis) or of pairs on an edge (two axes).

    Parameters
    ----------
    cost
        Costs in the problem's unit.
    allowed
        Mask of the same shape; ``None`` where everything is allowed. Other costs are ignored.
    """

    cost: Integers
    allowed: Flags | None = None

    @property
    def mask(self) -> Flags:
        """The mask of allowed entries."""
        full = self.allowed is None
        return np.ones(self.cost.shape, dtype=bool) if full else np.asarray(self.allowed)

    @cached_property
    def digest(self) -> bytes:
        """Key that is equal for equal tables; costs of forbidden entries do not count."""
        digest = hashlib.blake2b(str(self.cost.shape).encode(), digest_size=20)
        if self.allowed is None or bool(self.allowed.all()):
            digest.update(np.ascontiguousarray(self.cost).data)
        else:
            digest.update(np.where(self.allowed, self.cost, 0).data)
            digest.update(np.ascontiguousarray(self.allowed).data)
        return digest.digest()


@dataclass(frozen=True, eq=False)
class RepeatedProblem:
    """Operators and edges by kind, one table per kind.

    Parameters
    ----------
    name, operators
        Members of a :class:`~milp_plan.core.sharding.ShardingProblem`.
    kinds
        Kind of each operator, an index of ``own``.
    own
        Per kind the costs of its strategies.
    ends
        Shape (edges, 2): operators of each edge; parallel edges add up.
    links
        Kind of each edge, an index of ``pairs``.
    pairs
        Per kind of edge the costs of pairs: strategies of the first operator by the second's.
    labels
        Per kind names of the strategies; empty if there are none.
    provenance
        Where the numbers come from.
    """

    name: str
    operators: tuple[str, ...]
    kinds: tuple[int, ...]
    own: tuple[CostTable, ...]
    ends: tuple[tuple[int, int], ...]
    links: tuple[int, ...]
    pairs: tuple[CostTable, ...]
    labels: tuple[tuple[str, ...], ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)

    @property
    def sizes(self) -> list[int]:
        """Number of strategies of each operator."""
        return [len(self.own[kind].cost) for kind in self.kinds]

    def cost(self, chosen: Sequence[int]) -> int | None:
        """Return the total cost of one strategy per operator; ``None`` if the masks forbid it."""
        entries: list[tuple[CostTable, tuple[int, ...]]]
        entries = [(self.own[kind], (pick,)) for kind, pick in zip(self.kinds, chosen, strict=True)]
        ends = zip(self.ends, self.links, strict=True)
        entries += [(self.pairs[link], (chosen[a], chosen[b])) for (a, b), link in ends]
        if not all(table.allowed is None or table.allowed[entry] for table, entry in entries):
            return None
        return sum(int(table.cost[entry]) for table, entry in entries)

    def problem(self) -> ShardingProblem:
        """Return the problem with all tables."""
        own = [self.own[kind] for kind in self.kinds]
        pairs = [self.pairs[kind] for kind in self.links]
        labels = [name for kind in self.kinds for name in self.labels[kind]] if self.labels else []
        cost = _joined([table.cost for table in own])
        return ShardingProblem(
            name=self.name,
            operators=self.operators,
            strategies=StrategyTable(
                offsets_of([len(table.cost) for table in own]),
                cost,
                np.zeros_like(cost),
                _masks(own),
            ),
            transitions=TransitionTable(
                np.array(self.ends, dtype=np.int64).reshape(-1, 2),
                offsets_of([table.cost.size for table in pairs]),
                _joined([table.cost.ravel() for table in pairs]),
                _masks(pairs),
            ),
            intervals=np.tile(np.array([[0, 1]], dtype=np.int64), (len(own), 1)),
            labels=tuple(labels),
            provenance=self.provenance,
        )


def repeated(problem: ShardingProblem) -> RepeatedProblem:
    """Return a problem with equal tables stored once; its usages and limit are left out."""
    s, t = problem.strategies, problem.transitions
    own, pairs = _Kinds(), _Kinds()
    for first, stop in zip(s.offsets[:-1].tolist(), s.offsets[1:].tolist(), strict=True):
        own.add(_table(s.cost[first:stop], s.allowed[first:stop]))
    for edge in range(len(t)):
        pairs.add(_table(*problem.table(edge)))
    return RepeatedProblem(
        problem.name,
        problem.operators,
        tuple(own.kinds),
        tuple(own.tables),
        tuple((first, second) for first, second in t.ends.tolist()),
        tuple(pairs.kinds),
        tuple(pairs.tables),
    )


class _Kinds:
    """Return numbers of tables, equal for equal tables."""

    def __init__(self) -> None:
        self.tables: list[CostTable] = []
        self.kinds: list[int] = []
        self._known: dict[bytes, int] = {}

    def add(self, table: CostTable) -> None:
        kind = self._known.setdefault(table.digest, len(self.tables))
        if kind == len(self.tables):
            self.tables.append(table)
        self.kinds.append(kind)


def _table(cost: Integers, allowed: Flags) -> CostTable:
    return CostTable(cost, None if bool(allowed.all()) else allowed)


def _joined(parts: list[Integers]) -> Integers:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _masks(tables: list[CostTable]) -> Flags:
    flags = np.ones(sum(table.cost.size for table in tables), dtype=bool)
    start = 0
    for table in tables:
        stop = start + table.cost.size
        if table.allowed is not None:
            flags[start:stop] = table.allowed.ravel()
        start = stop
    return flags
