"""Graphs on a mesh as sharding problems: one table per operator, one matrix per edge.

Cost: nanoseconds of a step, everything one after the other. Usage: bytes on a device, all at
once (weights, gradients, optimizer state, activations); temporaries are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from milp_plan.core import Finding, InputError
from milp_plan.core.sharding import ShardingProblem

from .axes import Mesh
from .layouts import Layout, Tiling
from .micro_batches import (
    NO_PAIRS,
    NOTHING,
    EdgeTables,
    OperatorTables,
    integers,
    parameter_stores,
    unrolled,
)
from .operators import MeshOperator, Tensor
from .strategies import ParallelStrategy, Setting, strategies


@dataclass(frozen=True)
class MeshGraph:
    """Operators, and the sources of their inputs.

    Parameters
    ----------
    name
        Name of the network.
    names, operators
        One of each per operator, producers first.
    sources
        Per operator, per input: number of the operator that writes it; ``None`` from outside,
        where it is available in every layout. A producer may write more than a reader takes (one
        expert's tokens, one part of a concatenation), with the same dimensions.

    Raises
    ------
    InputError
        Lengths that differ, a source that is not an earlier operator, or another rank.
    """

    name: str
    names: tuple[str, ...]
    operators: tuple[MeshOperator, ...]
    sources: tuple[tuple[int | None, ...], ...]

    def __post_init__(self) -> None:
        findings = list(self._findings())
        if findings:
            raise InputError(findings).in_file(f"graph {self.name}")

    def _findings(self) -> Iterator[Finding]:
        counts = {len(self.names), len(self.operators), len(self.sources)}
        if len(counts) > 1 or not self.names:
            expected = "one name and one list of sources per operator, at least one"
            yield Finding("operators", str(sorted(counts)), expected, "complete them")
            return
        for number, (name, operator) in enumerate(zip(self.names, self.operators, strict=True)):
            where, sources = f"operator {name!r} sources", self.sources[number]
            if len(sources) != len(operator.inputs):
                expected = f"{len(operator.inputs)}, one per input"
                yield Finding(where, str(len(sources)), expected, "complete them")
                continue
            for source, tensor in zip(sources, operator.inputs, strict=True):
                if source is None:
                    continue
                if not 0 <= source < number:
                    yield Finding(where, str(source), "an earlier operator", "reorder")
                    continue
                made = self.operators[source].output
                if len(made.dims) != len(tensor.dims):
                    expected = f"the {len(tensor.dims)} dimensions of input {tensor.name!r}"
                    found = f"{self.names[source]!r} with {len(made.dims)} dimensions"
                    yield Finding(where, found, expected, "reshape in between")

    @property
    def readers(self) -> list[int]:
        """Return the number of inputs that each operator's output feeds."""
        counts = [0] * len(self.names)
        for sources in self.sources:
            for source in sources:
                if source is not None:
                    counts[source] += 1
        return counts

    def edges(self) -> Iterator[tuple[int, int, int]]:
        """Yield (producer, consumer, number of the consumer's input)."""
        for consumer, sources in enumerate(self.sources):
            for port, source in enumerate(sources):
                if source is not None:
                    yield source, consumer, port

    def strategies(self, setting: Setting) -> list[list[ParallelStrategy]]:
        """Return the strategies of every operator; equal operators share one list."""
        known: dict[tuple[object, ...], list[ParallelStrategy]] = {}
        lists = []
        for operator, sources, readers in zip(
            self.operators, self.sources, self.readers, strict=True
        ):
            outside = tuple(source is None for source in sources)
            key = (operator, outside, min(readers, 2))
            if key not in known:
                rows = strategies(operator, setting, readers=min(readers, 2))
                known[key] = [row for row in rows if _fed(row, outside)]
            lists.append(known[key])
        return lists


def _fed(strategy: ParallelStrategy, outside: tuple[bool, ...]) -> bool:
    """Return whether no input from outside would have to be a pending sum."""
    pairs = zip(strategy.reads, outside, strict=True)
    return not any(layout.partial and free for layout, free in pairs)


def mesh_problem(
    graph: MeshGraph, setting: Setting, *, limit: int | None = None, name: str | None = None
) -> ShardingProblem:
    """Return a problem of choosing strategies: least total time within ``limit`` bytes per device.

    Parameters
    ----------
    graph, setting
        The operators, and mesh and mode.
    limit
        Bytes of a device; ``None`` without a limit.
    name
        Name of the problem; derived from graph and mesh by default.
    """
    rows = graph.strategies(setting)
    flat = [row for own in rows for row in own]
    run = OperatorTables(
        graph.names,
        integers([len(own) for own in rows]),
        integers([row.cost_ns for row in flat]),
        integers([row.memory.total for row in flat]),
        tuple(_label(row) for row in flat),
    )
    between = _between(graph, setting, rows)
    mode = "training" if setting.training else "inference"
    title = name or f"{graph.name}-{mode}-{setting.mesh.text}"
    details = {
        "generator": "milp_plan.cost.mesh",
        "mode": mode,
        "mesh": _mesh_text(setting.mesh),
        "zero levels": " ".join(map(str, setting.zero_levels)),
    }
    if setting.micro_batches == 1:
        problem = unrolled(title, NOTHING, run, NO_PAIRS, between, 1)
    else:
        details["micro-batches"] = str(setting.micro_batches)
        each = integers([row.cost_ns - row.once_ns for row in flat])
        run = replace(run, cost=each, usage=integers([row.memory.transient for row in flat]))
        stores, links = parameter_stores(graph.names, graph.operators, rows, setting)
        problem = unrolled(title, stores, run, links, between, setting.micro_batches)
    return replace(problem, limit=limit, provenance=details)


def _between(graph: MeshGraph, setting: Setting, rows: list[list[ParallelStrategy]]) -> EdgeTables:
    """Return edges of the graph, with costs of resharding; equal tables are made once."""
    edges = list(graph.edges())
    known: dict[tuple[int, int, Tensor], np.ndarray] = {}
    tables = []
    for first, second, port in edges:
        tensor = graph.operators[second].inputs[port]
        key = (id(rows[first]), id(rows[second]), tensor)
        if key not in known:
            known[key] = transitions(setting, tensor, port, rows[first], rows[second]).ravel()
        tables.append(known[key])
    return EdgeTables(
        integers([edge[:2] for edge in edges]).reshape(-1, 2),
        integers([len(table) for table in tables]),
        np.concatenate([integers([]), *tables]),
    )


def transitions(
    setting: Setting,
    tensor: Tensor,
    port: int,
    made: list[ParallelStrategy],
    read: list[ParallelStrategy],
) -> np.ndarray:
    """Return the ticks of resharding an input and its gradient, for each pair; -1 if impossible.

    Parameters
    ----------
    setting
        Mesh and mode.
    tensor, port
        The consumer's input, and its number.
    made, read
        Strategies of producer and consumer.
    """
    tiling = Tiling(setting.mesh, tensor.extents, tensor.element_bytes)
    returns = setting.training is not None and tensor.gradient
    known: dict[tuple[Layout, ...], int] = {}
    table = np.empty((len(made), len(read)), dtype=np.int64)
    for row, source in enumerate(made):
        for column, reader in enumerate(read):
            ways = [(source.writes, reader.reads[port])]
            ways += [(reader.gradients[port], source.takes)] if returns else []
            key = tuple(layout for way in ways for layout in way)
            if key not in known:
                known[key] = _ticks(tiling, ways)
            table[row, column] = known[key]
    return table


def _ticks(tiling: Tiling, ways: list[tuple[Layout, Layout]]) -> int:
    total = 0
    for before, after in ways:
        fits = all(lay.fits(tiling.mesh, tiling.extents) for lay in (before, after))
        ticks = tiling.change_ns(before, after) if fits else None
        if ticks is None:
            return -1
        total += ticks
    return total


def _label(row: ParallelStrategy) -> str:
    return f"{row.name} -> {row.writes.text}"


def _mesh_text(mesh: Mesh) -> str:
    links = ", ".join(f"{axis.name} {axis.size} on {axis.link.name}" for axis in mesh.axes)
    return f"{mesh.text} {mesh.device.name}" + (f" ({links})" if links else "")
