"""Training steps, or forward passes, of several micro-batches as sharding problems.

Micro-batches run one after the other. Each has operators of its own, ``name@m``, whose outputs and
saved tensors are in memory while it runs. Weights, gradients and optimizer state are in memory all
the time: an operator with parameters has an additional one, ``name.weights``, which stores them in
one of the ways of its strategies. Every micro-batch takes a strategy that stores them in
this way; apart from that, each may choose its own. Costs that a step has once, the sum of
accumulated gradients or the gathering of new weights, belong to the storage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from milp_plan.core import Units
from milp_plan.core.sharding import (
    Flags,
    Integers,
    ShardingProblem,
    StrategyTable,
    TransitionTable,
    offsets_of,
)

from .operators import MeshOperator
from .strategies import ParallelStrategy, ParameterStorage, Setting, storage_of


@dataclass(frozen=True, eq=False)
class OperatorTables:
    """Tables of operators that exist once, or once per micro-batch.

    Parameters
    ----------
    names
        Names of the operators.
    counts, cost, usage, labels
        Number of strategies per operator; costs, bytes and names of all of them.
    """

    names: tuple[str, ...]
    counts: Integers
    cost: Integers
    usage: Integers
    labels: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class EdgeTables:
    """Edges of one micro-batch: ends, sizes of tables, and costs, below 0 for impossible pairs."""

    ends: Integers
    sizes: Integers
    cost: Integers


def integers(entries: object) -> Integers:
    """Return numbers as an array of 64 bits."""
    return np.array(entries, dtype=np.int64)


NOTHING = OperatorTables((), integers([]), integers([]), integers([]), ())
NO_PAIRS = EdgeTables(integers([]).reshape(-1, 2), integers([]), integers([]))


def parameter_stores(
    names: tuple[str, ...],
    operators: tuple[MeshOperator, ...],
    rows: list[list[ParallelStrategy]],
    setting: Setting,
) -> tuple[OperatorTables, EdgeTables]:
    """Return the operators that store parameters, and edges from each to their users.

    Ends are numbers of those operators, and of the operators of the micro-batch.
    """
    known: dict[int, tuple[list[ParameterStorage], list[ParallelStrategy], Integers]] = {}
    storages, tables, ends = (
        list[tuple[list[ParameterStorage], list[ParallelStrategy]]](),
        list[Integers](),
        [],
    )
    titles = []
    for place, (name, operator, own) in enumerate(zip(names, operators, rows, strict=True)):
        if not operator.parameters:
            continue
        if id(own) not in known:
            known[id(own)] = _ways(operator, own, setting)
        ways, first, table = known[id(own)]
        ends.append((len(storages), place))
        storages.append((ways, first))
        tables.append(table)
        titles.append(f"{name}.weights")
    flat = [row for _, first in storages for row in first]
    part = OperatorTables(
        tuple(titles),
        integers([len(ways) for ways, _ in storages]),
        integers([row.once_ns for row in flat]),
        integers([row.memory.resident for row in flat]),
        tuple(way.text for ways, _ in storages for way in ways),
    )
    sizes = integers([len(table) for table in tables])
    cost = np.concatenate([integers([]), *tables])
    return part, EdgeTables(integers(ends).reshape(-1, 2), sizes, cost)


def _ways(
    operator: MeshOperator, own: list[ParallelStrategy], setting: Setting
) -> tuple[list[ParameterStorage], list[ParallelStrategy], Integers]:
    """Return ways to store parameters, a strategy of each, and 0 for its strategies, else -1.

    Strategies that store them alike have equal costs and bytes: both follow from the layouts.
    """
    which = [storage_of(operator, setting, row) for row in own]
    ways = list(dict.fromkeys(which))
    first = [own[which.index(way)] for way in ways]
    table = np.array([[0 if way == one else -1 for one in which] for way in ways], dtype=np.int64)
    return ways, first, table.ravel()


def unrolled(  # noqa: PLR0917
    name: str,
    stores: OperatorTables,
    run: OperatorTables,
    links: EdgeTables,
    between: EdgeTables,
    micro_batches: int,
) -> ShardingProblem:
    """Return the problem of storage, then the operators of one micro-batch after the other.

    Parameters
    ----------
    name
        Name of the problem.
    stores, run
        Operators that store parameters, and those of a micro-batch.
    links, between
        Edges from the first to the second, and between the second.
    micro_batches
        Number of micro-batches.
    """
    stored, own = len(stores.names), len(run.names)
    batches = np.arange(micro_batches)
    starts = stored + own * batches[:, None, None]
    ends = np.concatenate(
        [
            (links.ends[None] + starts * integers([0, 1])).reshape(-1, 2),
            (between.ends[None] + starts).reshape(-1, 2),
        ]
    )
    sizes = [np.tile(pairs.sizes, micro_batches) for pairs in (links, between)]
    cost = np.concatenate([np.tile(pairs.cost, micro_batches) for pairs in (links, between)])
    counts = np.concatenate([stores.counts, np.tile(run.counts, micro_batches)])
    allowed: Flags = cost >= 0
    np.maximum(cost, 0, out=cost)
    lives = np.repeat(np.stack([batches, batches + 1], axis=1), own, axis=0)
    always = np.tile(integers([[0, micro_batches]]), (stored, 1))
    costs = np.concatenate([stores.cost, np.tile(run.cost, micro_batches)])
    names = [f"{title}@{batch}" for batch in range(micro_batches) for title in run.names]
    return ShardingProblem(
        name,
        (*stores.names, *(names if micro_batches > 1 else run.names)),
        StrategyTable(
            offsets_of(counts),
            costs,
            np.concatenate([stores.usage, np.tile(run.usage, micro_batches)]),
            np.ones(len(costs), dtype=bool),
        ),
        TransitionTable(ends, offsets_of(np.concatenate(sizes)), cost, allowed),
        np.concatenate([always, lives]).astype(np.int64),
        labels=stores.labels + run.labels * micro_batches,
        units=Units(),
    )
