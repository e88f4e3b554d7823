"""Exact folding: a repeated block is eliminated once, its copies are joined by powers.

Copies may choose differently; the optimum is that of the unfolded problem. The work grows with the
logarithm of the depth. Blocks are equal only if all their tables and connections are, which is
compared in full, not by a hash.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from milp_plan.core.sharding import Integers
from milp_plan.elimination.buckets import Buckets
from milp_plan.elimination.factors import Factor, FactorGraph, Scope, factor_graph, total, value
from milp_plan.elimination.ordering import Ordering, neighbourhoods, weigh
from milp_plan.elimination.repeated import RepeatedProblem
from milp_plan.elimination.search import Caps

from .runs import Run, runs
from .segments import chains
from .transfer import Transfer, products

HUB_DEGREE = 6
"""A hub has at least this many neighbours, and three times as many as is usual."""


@dataclass(frozen=True)
class Folded:
    """What exact folding found.

    Parameters
    ----------
    chosen, value
        An optimal choice and its cost; ``None`` if the masks allow none, or a table is too large.
    reason
        Why there is no choice.
    folds
        (copies, operators in one) of each run.
    work, unfolded_work
        Predicted entries of all tables, with and without folding.
    computed
        Entries that were computed.
    detect_s, solve_s, expand_s
        CPU seconds of finding blocks, of solving, and of writing the choice out.
    """

    chosen: tuple[int, ...] | None
    value: int | None
    reason: str
    folds: tuple[tuple[int, int], ...]
    work: float
    unfolded_work: float
    computed: int
    detect_s: float
    solve_s: float
    expand_s: float


@dataclass(frozen=True)
class _Fold:
    """A way to fold: its runs, one block's own graph for each, orders, and the graph around."""

    runs: tuple[Run, ...]
    blocks: tuple[FactorGraph, ...]
    orders: tuple[Ordering, ...]
    rest: FactorGraph
    order: Ordering
    work: float
    largest: float


def plan_exact(problem: RepeatedProblem, caps: Caps | None = None) -> Folded:
    """Minimise the total cost without a limit; folds only where that lowers the predicted work."""
    caps = caps or Caps()
    times = [time.thread_time()]
    graph = factor_graph(problem)
    plain = weigh(graph)
    fold = _best(graph, plain)
    times.append(time.thread_time())
    reason = _refusal(fold, caps)
    computed, cost = 0, None
    chosen: tuple[int, ...] | None = None
    if not reason:
        values, computed = _solve(graph, fold, times)
        cost = value(graph, values)
        if cost - graph.constant >= graph.wall:
            cost, reason = None, "no plan is allowed by the masks"
        else:
            chosen = tuple(values)
    times.append(time.thread_time())
    return Folded(
        chosen=chosen,
        value=cost,
        reason=reason,
        folds=tuple((len(run.blocks), 1 + len(run.inner(0))) for run in fold.runs),
        work=fold.work,
        unfolded_work=plain.entries,
        computed=computed,
        detect_s=times[1] - times[0],
        solve_s=times[-2] - times[1],
        expand_s=times[-1] - times[-2],
    )


def _refusal(fold: _Fold, caps: Caps) -> str:
    return next(
        (
            f"{what} of {needed:.3g} entries would exceed the cap of {cap:.3g}"
            for what, needed, cap in (
                ("a table", fold.largest, caps.largest),
                ("all tables", fold.work, caps.entries),
            )
            if needed > cap * (1 + 1e-9)
        ),
        "",
    )


def _best(graph: FactorGraph, plain: Ordering) -> _Fold:
    """A fold of little predicted work over choices of hubs; no runs at all if none lowers it."""
    best = _Fold((), (), (), graph, plain, plain.entries, plain.largest)
    degrees = [len(near) for near in neighbourhoods(graph)]
    usual = statistics.median(degrees)
    many = [x for x in range(len(degrees)) if degrees[x] >= max(HUB_DEGREE, 3 * usual)]
    many.sort(key=lambda x: (-degrees[x], x))
    for count in range(min(2, len(many)), -1, -1):
        found = [run for chain in chains(graph, many[:count]) for run in runs(graph, chain)]
        if found:
            fold = _fold(graph, found)
            best = min(best, fold, key=lambda one: one.work)
        if 2 * best.work < plain.entries:
            break
    return best


def _fold(graph: FactorGraph, found: Sequence[Run]) -> _Fold:
    blocks = [_block(graph, run) for run in found]
    orders = [
        weigh(block, keep=range(2 + len(run.hubs)))
        for run, block in zip(found, blocks, strict=True)
    ]
    gone = {number for run in found for number in run.factors}
    inner = {x for run in found for x in run.cuts[1:-1]}
    inner |= {x for run in found for number in range(len(run.blocks)) for x in run.inner(number)}
    kept = [factor for number, factor in enumerate(graph.factors) if number not in gone]
    joins = [Factor((run.cuts[0], run.cuts[-1], *run.hubs), -1) for run in found]
    rest = FactorGraph(graph.sizes, kept + joins, graph.tables, graph.wall, graph.constant)
    order = weigh(rest, keep=inner)
    work, largest = order.entries, order.largest
    for run, local in zip(found, orders, strict=True):
        faces = [graph.sizes[x] for x in (run.cuts[0], run.cuts[-1], *run.hubs)]
        join = float(math.prod(faces) * graph.sizes[run.cuts[1]])
        work += local.entries + products(len(run.blocks)) * join
        largest = max(largest, local.largest, join)
    return _Fold(tuple(found), tuple(blocks), tuple(orders), rest, order, work, largest)


def _block(graph: FactorGraph, run: Run) -> FactorGraph:
    """One block on its own; variables: left, right, hubs, then those inside."""
    ports = (run.cuts[0], run.cuts[1], *run.hubs)
    names = [*ports, *run.inner(0)]
    place = {x: number for number, x in enumerate(names)}
    used = [graph.factors[number] for segment in run.blocks[0] for number in segment.factors]
    factors = [Factor(tuple(place[x] for x in f.scope), f.table) for f in used]
    sizes = [graph.sizes[x] for x in names]
    return FactorGraph(sizes, factors, graph.tables, graph.wall, 0)


def _solve(graph: FactorGraph, fold: _Fold, times: list[float]) -> tuple[list[int], int]:
    """Optimal values and computed entries; notes when all but the values was known."""
    wall = graph.wall if graph.walled else None
    inside, transfers = [], []
    for block, order in zip(fold.blocks, fold.orders, strict=True):
        buckets = Buckets(block)
        buckets.eliminate(order.order)
        inside.append(buckets)
        transfers.append(Transfer(_faces(block, buckets, len(order.order), wall), wall))
    tables = list(graph.tables)
    kept = fold.rest.factors[: len(fold.rest.factors) - len(fold.runs)]
    joins = fold.rest.factors[len(kept) :]
    joined = []
    for factor, run, transfer in zip(joins, fold.runs, transfers, strict=True):
        tables.append(transfer.power(len(run.blocks)))
        joined.append(Factor(factor.scope, len(tables) - 1))
    rest = FactorGraph(graph.sizes, kept + joined, tables, graph.wall, graph.constant)
    around = Buckets(rest)
    around.eliminate(fold.order.order)
    times.append(time.thread_time())
    values = around.complete([0] * len(graph.sizes))
    for run, transfer, buckets in zip(fold.runs, transfers, inside, strict=True):
        _expand(run, transfer, buckets, values)
    computed = around.computed + sum(t.computed for t in transfers)
    return values, computed + sum(b.computed for b in inside)


def _faces(block: FactorGraph, buckets: Buckets, inner: int, wall: int | None) -> Integers:
    """What is left of a block as one table over left, right and hubs."""
    axes = tuple(range(len(block.sizes) - inner))
    parts = [(buckets.tables[f.table], f.scope) for f in buckets.left() if f.scope]
    table = total(parts, axes, wall)
    shape = tuple(block.sizes[x] for x in axes)
    full = np.broadcast_to(table, shape) + buckets.constant()
    return full if wall is None else full.clip(max=wall)


def _expand(run: Run, transfer: Transfer, buckets: Buckets, values: list[int]) -> None:
    """Values of everything in a run, given both ends and the hubs."""
    cuts, hubs = run.cuts, tuple(values[x] for x in run.hubs)
    ends = (values[cuts[0]], values[cuts[-1]], *hubs)
    inner = transfer.split(len(run.blocks), ends)
    for cut, pick in zip(cuts[1:-1], inner, strict=True):
        values[cut] = pick
    known: dict[Scope, list[int]] = {}
    for number in range(len(run.blocks)):
        faces = (values[cuts[number]], values[cuts[number + 1]], *hubs)
        if faces not in known:
            local = [*faces, *[0] * len(run.inner(0))]
            known[faces] = buckets.complete(local)[len(faces) :]
        for x, pick in zip(run.inner(number), known[faces], strict=True):
            values[x] = pick
