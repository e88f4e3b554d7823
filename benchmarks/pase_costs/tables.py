"""Costs of configurations and of resharding as exact integers.

Source: PaSE (Elango, IPDPS 2021), in the form of its released program: words of eight bytes, one
multiply-add counts 1. Costs are rounded to thousandths of a multiply-add, so a sum of n tables is
off by at most n / 2000 of one.
"""

from __future__ import annotations

import numpy as np

from milp_plan.core.sharding import Integers, ShardingProblem
from milp_plan.elimination.repeated import CostTable, RepeatedProblem

from .layers import Layer, LayerGraph, Tensor, configurations
from .rates import Floats, Rates
from .work import Split

MULTIPLY_ADD_TICKS = 1000
"""Ticks of cost per multiply-add."""


def pase_problem(
    graph: LayerGraph,
    devices: int,
    *,
    flops: float = 10e12,
    bandwidth: float = 16e9,
) -> ShardingProblem:
    """Choose a configuration per layer for this many devices, as PaSE does.

    Parameters
    ----------
    graph
        The network.
    devices
        Number of devices; a configuration uses at most this many.
    flops, bandwidth
        Multiply-adds per second of a device, bytes per second of a link.
    """
    return pase_tables(graph, devices, Rates(flops, bandwidth)).problem()


def pase_tables(
    graph: LayerGraph,
    devices: int,
    rates: Rates | None = None,
    *,
    parallel_edges_add: bool = False,
) -> RepeatedProblem:
    """Tables of a network, one per distinct layer and distinct edge; see :func:`pase_problem`."""
    rates = rates or Rates()
    layers: dict[Layer, int] = {}
    kinds = tuple(layers.setdefault(layer, len(layers)) for layer in graph.layers)
    splits = [configurations(layer, devices) for layer in layers]
    own = [_own(layer, rows, rates) for layer, rows in zip(layers, splits, strict=True)]
    links: dict[tuple[int, int, int], int] = {}
    ends, link_kinds = [], []
    for first, second, port in _edges(graph, parallel_edges_add):
        key = (kinds[first], kinds[second], port)
        ends.append((first, second))
        link_kinds.append(links.setdefault(key, len(links)))
    distinct = list(layers)
    pairs = [
        _resharding(
            distinct[first].output,
            splits[first],
            distinct[second].inputs[port],
            splits[second],
            rates,
        )
        for first, second, port in links
    ]
    return RepeatedProblem(
        name=f"{graph.name}-p{devices}",
        operators=graph.names,
        kinds=kinds,
        own=tuple(own),
        ends=tuple(ends),
        links=tuple(link_kinds),
        pairs=tuple(pairs),
        labels=tuple(tuple(_label(row) for row in rows.astype(int).tolist()) for rows in splits),
        provenance={
            "costs": "PaSE (IPDPS 2021), modelled",
            "unit": f"1/{MULTIPLY_ADD_TICKS} multiply-add",
            "multiply-adds per second": f"{rates.flops:g}",
            "bytes per second": f"{rates.bandwidth:g}",
        },
    )


def _edges(graph: LayerGraph, add: bool) -> list[tuple[int, int, int]]:
    if add:
        return list(graph.edges)
    last: dict[tuple[int, int], int] = {}
    for first, second, port in graph.edges:
        last[first, second] = port
    return [(first, second, port) for (first, second), port in last.items()]


def _label(row: list[int]) -> str:
    return "x".join(str(part) for part in row)


def _ticks(cost: Floats) -> CostTable:
    return CostTable(np.rint(MULTIPLY_ADD_TICKS * cost).astype(np.int64))


def _own(layer: Layer, parts: Floats, rates: Rates) -> CostTable:
    local = np.array(layer.extents, dtype=np.float64) / parts
    return _ticks(layer.work.cost(Split(local, parts, rates)))


def _resharding(
    written: Tensor, producer: Floats, read: Tensor, consumer: Floats, rates: Rates
) -> CostTable:
    """Words that the consumer needs and does not hold, forward and backward, for each pair."""
    extents = np.array(written.extents, dtype=np.float64)
    have, rows = _distinct(written.parts(producer))
    need, columns = _distinct(read.parts(consumer))
    held = np.minimum((extents / have)[:, None, :], (extents / need)[None, :, :]).prod(axis=2)
    held[need.prod(axis=1)[None, :] > have.prod(axis=1)[:, None]] = 0.0
    missing = np.maximum(0.0, (extents / need).prod(axis=1)[None, :] - held)
    table = _ticks(2.0 * rates.word * missing).cost
    return CostTable(np.ascontiguousarray(table[rows[:, None], columns[None, :]]))


def _distinct(rows: Floats) -> tuple[Floats, Integers]:
    found, inverse = np.unique(rows, axis=0, return_inverse=True)
    return found, inverse.reshape(-1)
