"""Choosing one strategy per operator: tables of costs, usages over time, and a limit.

The problem of PaSE (IPDPS 2021), Alpa (OSDI 2022) and the IOPDDL contest (ASPLOS 2025): every
operator takes one of its strategies; strategies cost, pairs of strategies on an edge cost
(resharding), and strategies use memory during their operator's interval. In graphical models this
is pairwise min-sum labelling with knapsack rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.errors import Finding, InputError, below_findings
from milp_plan.core.exactness import exactness_findings
from milp_plan.core.quantity import Units
from milp_plan.core.shown import Shown, ShownPlan

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

MAX_COST = 2**60
"""Largest magnitude of a cost or usage: sums of pairs stay within 64 bits."""


FORBIDDEN = 10**18
"""The cost that stands for "not allowed" in files and fingerprints, whatever a table has there."""


class ShardingObjective(StrEnum):
    """The objective that a sharding plan minimises."""

    TOTAL_COST = "total_cost"
    """Costs of all chosen strategies and of all pairs on edges."""


@dataclass(frozen=True, eq=False)
class StrategyTable:
    """Strategies of all operators, one after the other.

    Parameters
    ----------
    offsets
        Shape (operators + 1,): strategies of operator i are ``offsets[i]:offsets[i + 1]``.
    cost, usage
        Shape (strategies,): cost in the problem's unit, bytes in use during the interval.
    allowed
        Shape (strategies,): whether a strategy may be chosen; costs of others are ignored.
    """

    offsets: Integers
    cost: Integers
    usage: Integers
    allowed: Flags

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> Integers:
        """Number of strategies of each operator."""
        return np.diff(self.offsets)


@dataclass(frozen=True, eq=False)
class TransitionTable:
    """Costs of pairs of strategies, edge after edge.

    Parameters
    ----------
    ends
        Shape (edges, 2): operators of each edge. Parallel edges add up; none is a loop.
    offsets
        Shape (edges + 1,): entries of edge e are ``offsets[e]:offsets[e + 1]``, row-major over the
        strategies of its first operator and of its second.
    cost
        Shape (entries,): cost of each pair.
    allowed
        Shape (entries,): pairs that may be chosen together; costs of others are ignored.
    """

    ends: Integers
    offsets: Integers
    cost: Integers
    allowed: Flags

    def __len__(self) -> int:
        return len(self.ends)


@dataclass(frozen=True, eq=False)
class ShardingProblem(Shown):
    """A sharding problem: minimise total cost with at most ``limit`` bytes in use at every instant.

    Parameters
    ----------
    name
        Name of the instance.
    operators
        Unique names of the operators.
    strategies, transitions
        Tables of strategies and of pairs of them.
    intervals
        Shape (operators, 2): half-open ``[start, stop)`` during which the chosen strategy's usage
        counts; empty where stop <= start.
    limit
        Memory limit in bytes; ``None`` for no limit.
    labels
        A readable name per strategy (``"m:x n:y"``); empty if there are none.
    provenance
        Where the numbers come from; does not change the problem.
    units
        Units of costs and usages; ``None`` where the source names no unit of its costs. They do
        not change the problem either.

    Raises
    ------
    InputError
        Shapes, references, signs or sizes are wrong; one finding for each.
    """

    name: str
    operators: tuple[str, ...]
    strategies: StrategyTable
    transitions: TransitionTable
    intervals: Integers
    limit: int | None = None
    labels: tuple[str, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    units: Units | None = None

    def __post_init__(self) -> None:
        findings = list(_inexact(self)) or list(_findings(self))
        if findings:
            raise InputError(findings)

    def table(self, edge: int) -> tuple[Integers, Flags]:
        """Return cost and mask of an edge, as matrices over the strategies of its two operators."""
        first, second = self.transitions.ends[edge]
        counts = self.strategies.counts
        shape = (int(counts[first]), int(counts[second]))
        part = slice(*self.transitions.offsets[edge : edge + 2])
        cost, allowed = self.transitions.cost[part], self.transitions.allowed[part]
        return cost.reshape(shape), allowed.reshape(shape)

    def label(self, operator: int, strategy: int) -> str:
        """Return the readable name of a strategy, by the number of its operator and its own."""
        if not self.labels:
            return f"strategy {strategy}"
        return self.labels[int(self.strategies.offsets[operator]) + strategy]

    def names(self, chosen: Sequence[int]) -> tuple[tuple[str, str], ...]:
        """Return each operator with the readable name of its strategy; empty without such names."""
        if not self.labels:
            return ()
        pairs = zip(self.operators, chosen, strict=True)
        return tuple((name, self.label(k, pick)) for k, (name, pick) in enumerate(pairs))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that changes the problem."""
        digest = hashlib.sha256("\0".join((self.name, *self.operators)).encode())
        s, t = self.strategies, self.transitions
        single, pairs = (np.where(table.allowed, table.cost, FORBIDDEN) for table in (s, t))
        for array in (s.offsets, single, s.usage, s.allowed, t.ends, t.offsets, pairs, t.allowed):
            digest.update(np.ascontiguousarray(array).tobytes())
        digest.update(np.ascontiguousarray(self.intervals).tobytes())
        digest.update(str(self.limit).encode())
        return digest.hexdigest()


@dataclass(frozen=True)
class ShardingPlan(ShownPlan):
    """One strategy per operator.

    Parameters
    ----------
    problem
        Name of the problem.
    chosen
        Strategy number of each operator, counted from 0 within the operator.
    fingerprint, value, planner
        Fingerprint of the problem, claimed value and planner; the checker recomputes the value.
    names
        Each operator with the readable name of its strategy; empty where there are none.
    """

    problem: str
    chosen: tuple[int, ...]
    fingerprint: str | None = None
    value: int | None = None
    planner: str = ""
    names: tuple[tuple[str, str], ...] = ()


def sharding_problem(
    name: str,
    costs: Sequence[Sequence[int | None]],
    *,
    usages: Sequence[Sequence[int]] | None = None,
    intervals: Sequence[tuple[int, int]] | None = None,
    edges: Mapping[tuple[int, int], Sequence[Sequence[int | None]]] | None = None,
    limit: int | None = None,
) -> ShardingProblem:
    """Return a problem made of nested lists, in which ``None`` is not allowed to be chosen.

    Parameters
    ----------
    name
        Name of the problem; operators are called ``op0``, ``op1``, ...
    costs, usages
        Costs and usages per operator and strategy; usages are 0 by default.
    intervals
        Interval per operator; ``(0, 1)`` by default.
    edges
        (operator, operator) -> matrix of costs.
    limit
        Memory limit in bytes.
    """
    edges = edges or {}
    usages = usages or [[0] * len(row) for row in costs]
    flat = [entry for row in costs for entry in row]
    pairs = [entry for matrix in edges.values() for row in matrix for entry in row]
    sizes = [sum(len(row) for row in matrix) for matrix in edges.values()]
    strategies = StrategyTable(
        offsets_of([len(row) for row in costs]),
        np.array([entry or 0 for entry in flat], dtype=np.int64),
        np.array([entry for row in usages for entry in row], dtype=np.int64),
        np.array([entry is not None for entry in flat], dtype=bool),
    )
    transitions = TransitionTable(
        np.array(list(edges), dtype=np.int64).reshape(-1, 2),
        offsets_of(sizes),
        np.array([entry or 0 for entry in pairs], dtype=np.int64),
        np.array([entry is not None for entry in pairs], dtype=bool),
    )
    lasting = np.array(intervals or [(0, 1)] * len(costs), dtype=np.int64).reshape(-1, 2)
    names = tuple(f"op{number}" for number in range(len(costs)))
    return ShardingProblem(name, names, strategies, transitions, lasting, limit)


def offsets_of(sizes: Sequence[int] | Integers) -> Integers:
    """Return where each of several parts of these sizes begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


def _inexact(problem: ShardingProblem) -> Iterator[Finding]:
    yield from exactness_findings("problem", problem)
    strategies, transitions = problem.strategies, problem.transitions
    for name, array, kind in (
        ("strategies.offsets", strategies.offsets, "i"),
        ("strategies.cost", strategies.cost, "i"),
        ("strategies.usage", strategies.usage, "i"),
        ("strategies.allowed", strategies.allowed, "b"),
        ("transitions.ends", transitions.ends, "i"),
        ("transitions.offsets", transitions.offsets, "i"),
        ("transitions.cost", transitions.cost, "i"),
        ("transitions.allowed", transitions.allowed, "b"),
        ("intervals", problem.intervals, "i"),
    ):
        dtype = getattr(array, "dtype", None)
        if dtype is None or dtype.kind != kind:
            expected = "an array of int64" if kind == "i" else "an array of bool"
            actual = type(array).__name__ if dtype is None else f"an array of {dtype}"
            yield Finding(name, actual, expected, "make it one with numpy.asarray(..., dtype=...)")


def _findings(problem: ShardingProblem) -> Iterator[Finding]:
    s, t, count = problem.strategies, problem.transitions, len(problem.operators)
    yield from _shape_findings(problem)
    if len(s) != count or len(problem.intervals) != count:
        return
    empty = np.flatnonzero(s.counts <= 0)
    for number in empty:
        where = f"operator {problem.operators[number]!r}"
        yield Finding(where, "no strategies", "at least one", "add a strategy")
    for edge, (first, second) in enumerate(t.ends.tolist()):
        if not (0 <= first < count and 0 <= second < count) or first == second:
            expected = f"two different operators from 0 to {count - 1}"
            yield Finding(f"edges[{edge}]", f"{first}, {second}", expected, "correct the numbers")
            return
    if len(t):
        sizes = s.counts[t.ends[:, 0]] * s.counts[t.ends[:, 1]]
        for edge in np.flatnonzero(sizes != np.diff(t.offsets)).tolist():
            found = f"{t.offsets[edge + 1] - t.offsets[edge]} costs"
            expected = f"{sizes[edge]}, one for each pair of strategies"
            yield Finding(f"edges[{edge}] costs", found, expected, "give the whole table")
    yield from _number_findings(problem)


def _shape_findings(problem: ShardingProblem) -> Iterator[Finding]:
    s, count = problem.strategies, len(problem.operators)
    for what, length, expected in (
        ("strategies", len(s), count),
        ("intervals", len(problem.intervals), count),
        ("costs", len(s.cost), int(s.offsets[-1])),
        ("usages", len(s.usage), int(s.offsets[-1])),
    ):
        if length != expected:
            yield Finding(what, f"{length} entries", f"{expected}", "give one for each")
    if len(set(problem.operators)) < count:
        yield Finding("operators", "a name twice", "unique names", "rename one")
    if not count:
        yield Finding("operators", "none", "at least one", "add an operator")


def _number_findings(problem: ShardingProblem) -> Iterator[Finding]:
    s, t = problem.strategies, problem.transitions
    yield from below_findings("usage_limit", problem.limit or 0, 0)
    yield from below_findings("usages", int(s.usage.min(initial=0)), 0)
    for what, cost, allowed in (("costs", s.cost, s.allowed), ("edge costs", t.cost, t.allowed)):
        used = np.abs(cost[allowed]) if len(cost) else cost
        if len(used) and int(used.max()) > MAX_COST:
            yield Finding(what, str(int(used.max())), f"at most {MAX_COST}", "scale all costs down")
