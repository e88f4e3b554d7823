"""Builds sharding problems of captured graphs: a placement of every node, on a mesh of processes.

Nodes are the inputs, kernels and views of the graph, and an update for each trained parameter.

====================== ====================================================================
input                  lies whole or cut; bytes for the whole step
kernel, view           its strategies (:mod:`.nests`): placements read and written
``update of NAME``     parameter and gradient at one placement; what the optimizer keeps
edge                   the change of placement that a reader needs (``milp_plan.cost.mesh``)
====================== ====================================================================

Costs are nanoseconds of a step, one after the other, as PyTorch runs it; views cost nothing.
Memory is that of the results of nodes, from when they are written to the last kernel that reads
them or their views; gradients stay until the updates at the end. Copies of a value at
another placement are not counted.

A label contains PyTorch's placements: those read, written, and, where the node itself changes its
result, retained: ``"S(0),R > P > R"``. Collectives inside an operator follow:
``"S(0),R > S(0),R + all_reduce"``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from milp_plan.core import Finding, InputError, Units
from milp_plan.core.sharding import ShardingProblem, StrategyTable, TransitionTable, offsets_of
from milp_plan.cost.mesh import Dim, Layout, Mesh, ParallelStrategy, Setting, Tiling, strategies
from milp_plan.cost.mesh import Tensor as MeshTensor
from milp_plan.cost.roofline import roofline_ns
from milp_plan.io.capture_wire import Capture, Kernel, Result, Tensor, View

from .layouts import in_order, placement_of, resting, whole
from .nests import GETITEM, Nested, nested
from .optimizers import OPTIMIZERS, Optimizer
from .record import ELEMENT_BYTES, captured_with, fingerprint, tensors_of
from .work import flops_of, require_known

UPDATE = "update of "
"""Prefix of the name of the node that updates a parameter."""

INPUT, CONSTANT = "input ", "constant "
"""Prefixes of the names of nodes that exist before the step."""

Source = tuple[int, int]
"""Number of a node, and of its result."""


@dataclass(frozen=True)
class Row:
    """One strategy of a node.

    Parameters
    ----------
    reads
        Layout of each tensor read.
    raw
        Layout of each result as the operator makes it; ``None`` for missing ones.
    kept
        Layout of the first result for its readers.
    ticks, num_bytes
        Time, and bytes on a device.
    inside
        Collectives inside the operator, by kind.
    """

    reads: tuple[Layout, ...]
    raw: tuple[Layout | None, ...]
    kept: Layout | None
    ticks: int
    num_bytes: int = 0
    inside: tuple[str, ...] = ()

    def writes(self, result: int) -> Layout:
        """Return the layout of a result for its readers."""
        layout = self.kept if result == 0 else self.raw[result]
        assert layout is not None
        return layout


@dataclass
class Node:
    """One operator of the problem.

    Parameters
    ----------
    name
        Name of PyTorch's node, or of an input.
    rows
        Its strategies.
    tensors
        Tensors read.
    sources
        Sources of these tensors.
    start, stop
        First and last kernel, by number, during which its bytes are in memory.
    fixed
        Inputs, by number, whose placement cannot change on the edge.
    first
        Number of the first result that exists.
    """

    name: str
    rows: list[Row]
    tensors: tuple[MeshTensor, ...] = ()
    sources: tuple[Source, ...] = ()
    start: int = 0
    stop: int = 0
    fixed: frozenset[int] = field(default_factory=frozenset)
    first: int = 0


def sharding(
    capture: Capture,
    mesh: Mesh,
    *,
    optimizer: str = "adamw",
    limit: int | None = None,
    name: str | None = None,
) -> ShardingProblem:
    """Return a problem of placing everything in a training step, on one mesh.

    Parameters
    ----------
    capture
        The graph, recorded with its views.
    mesh
        The processes.
    optimizer
        One of :data:`OPTIMIZERS`.
    limit
        Bytes of a device; ``None`` without a limit.
    name
        Name of the problem; derived from graph and mesh by default.

    Raises
    ------
    InputError
        Views were not recorded, no training step, an unknown optimizer, or an operator without
        formula.
    """
    require_placeable(capture, optimizer)
    nodes = nodes_of(capture, mesh, OPTIMIZERS[optimizer])
    title = name or f"{capture.name}-{capture.mode}-{mesh.text}x{mesh.device.name}"
    details = {
        "generator": "milp_plan.capture.sharding",
        "model": capture.name,
        "captured with": captured_with(capture),
        "captured graph": fingerprint(capture),
        "mesh": mesh.text,
        "device": mesh.device.name,
        "optimizer": optimizer,
    }
    return _problem(title, nodes, mesh, limit, details)


def require_placeable(capture: Capture, optimizer: str) -> None:
    """Check that the tensors of a graph can be placed.

    Raises
    ------
    InputError
        Views were not recorded, no training step, an unknown optimizer, or an operator without
        formula.
    """
    require_known(capture)
    findings = list(_findings(capture, optimizer))
    if findings:
        raise InputError(findings)


def nodes_of(capture: Capture, mesh: Mesh, optimizer: Optimizer) -> list[Node]:
    """Return inputs, kernels, views and updates with their strategies, producers first.

    Parameters
    ----------
    capture
        See :func:`sharding`; :func:`require_placeable` checks it.
    mesh
        The processes; without axes, one device.
    optimizer
        Optimizer of the updates.
    """
    return _Draft(capture, mesh, optimizer).nodes()


def _findings(capture: Capture, optimizer: str) -> Iterator[Finding]:
    if optimizer not in OPTIMIZERS:
        expected = f"one of {', '.join(OPTIMIZERS)}"
        yield Finding("optimizer", repr(optimizer), expected, "correct it")
    if capture.mode != "training":
        yield Finding("mode", repr(capture.mode), "'training'", "capture it with --mode training")
    if not capture.views:
        remedy = "capture the model again: older files leave them out"
        yield Finding("views", "none", "the views of the graph", remedy)


class _Draft:
    """Nodes under construction, producers first."""

    def __init__(self, capture: Capture, mesh: Mesh, optimizer: Optimizer) -> None:
        self.capture = capture
        self.mesh = mesh
        self.setting = Setting(mesh)
        self.optimizer = optimizer
        self.found: list[Node] = []
        self._stored: dict[int, Source] = {}
        self._viewed: dict[int, int] = {}
        self._known: dict[tuple[Nested, int, bool], list[Row]] = {}
        self._readers = _reader_counts(capture)
        self._last = _last_readers(capture)
        self._end = len(capture.kernels)

    def nodes(self) -> list[Node]:
        """Return all nodes."""
        for place, storage in enumerate(self.capture.storages):
            if storage.kind != "result":
                self._input(place)
        skipped: set[int] = set()
        for place, kernel in enumerate(self.capture.kernels):
            if place not in skipped:
                parts = [kernel]
                if place + 1 < self._end and _parted(kernel, self.capture.kernels[place + 1]):
                    parts.append(self.capture.kernels[place + 1])
                    skipped.add(place + 1)
                self._kernel(place, parts)
        for place in range(len(self.capture.views)):
            self._view(place)
        for result in self.capture.results:
            if result.kind == "gradient" and result.of is not None:
                storage = self.capture.storages[result.storage]
                gradient = Tensor(result.storage, (), storage.dtype, result.view)
                self._update(result.of, self._source(gradient))
        return self.found

    def _add(self, node: Node) -> int:
        self.found.append(node)
        return len(self.found) - 1

    # what is there before ------------------------------------------------------------------------

    def _input(self, place: int) -> None:
        storage = self.capture.storages[place]
        shape = self._shape(place)
        element = ELEMENT_BYTES[storage.dtype]
        movable = storage.kind != "constant" and shape is not None
        layouts = (
            list(resting(shape, self.mesh)) if movable and shape else [whole(len(shape or ()))]
        )
        tiling = Tiling(self.mesh, shape or (), element)
        rows = [Row((), (one,), one, 0, tiling.local_bytes(one)) for one in layouts]
        name = (CONSTANT if storage.kind == "constant" else INPUT) + storage.name
        self._stored[place] = (self._add(Node(name, rows, stop=self._end)), 0)

    def _shape(self, place: int) -> tuple[int, ...] | None:
        """Return the shape of a storage that exists before, from a direct reader."""
        for tensor in _read(self.capture):
            if tensor.storage == place and tensor.view is None:
                return tensor.shape
        return None

    # calls ---------------------------------------------------------------------------------------

    def _kernel(self, place: int, parts: Sequence[Kernel]) -> None:
        kernel = parts[0]
        for part in parts[1:]:
            results = tuple(a or b for a, b in zip(kernel.results, part.results, strict=True))
            kernel = msgspec.structs.replace(kernel, results=results)
        flops = sum(flops_of(part) or 0 for part in parts)
        sources = tuple(self._source(tensor) for tensor in tensors_of(kernel))
        several = sum(made is not None for made in kernel.results) > 1
        stored = {
            made.storage: number for number, made in enumerate(kernel.results) if made is not None
        }
        last = max(self._last[storage] for storage in stored)
        readers = 1 if several else self._readers[next(iter(stored))]
        rows = self._rows(nested(kernel, flops), readers, views=False)
        node = Node(kernel.name, rows, *self._ends(kernel, sources), place, last)
        number = self._add(node)
        node.first = next(n for n, made in enumerate(kernel.results) if made is not None)
        for storage, result in stored.items():
            self._stored[storage] = (number, result - node.first)

    def _view(self, place: int) -> int:
        if place not in self._viewed:
            view = self.capture.views[place]
            sources = tuple(self._source(tensor) for tensor in tensors_of(view))
            several = len(view.results) > 1
            readers = 1 if several else self._readers[-1 - place]
            rows = self._rows(nested(view), readers, views=True)
            node = Node(view.name, rows, *self._ends(view, sources))
            if view.operator == GETITEM:
                node.fixed = frozenset({0})
            self._viewed[place] = self._add(node)
        return self._viewed[place]

    def _source(self, tensor: Tensor) -> Source:
        if tensor.view is not None:
            return self._view(tensor.view), 0
        if tensor.storage not in self._stored:
            found = "read before anything makes it"
            remedy = "capture the model again"
            where = f"storage {self.capture.storages[tensor.storage].name!r}"
            raise InputError([Finding(where, found, "made first", remedy)])
        return self._stored[tensor.storage]

    def _ends(
        self, call: Kernel | View, sources: tuple[Source, ...]
    ) -> tuple[tuple[MeshTensor, ...], tuple[Source, ...]]:
        return nested(call).operator.inputs, sources

    def _rows(self, nest: Nested, readers: int, *, views: bool) -> list[Row]:
        key = (nest, min(readers, 2), views)
        if key not in self._known:
            self._known[key] = list(self._made(nest, min(readers, 2), views))
        return self._known[key]

    def _made(self, nest: Nested, readers: int, views: bool) -> Iterator[Row]:
        required = max(readers, 2) if nest.masked else readers
        for strategy in strategies(nest.operator, self.setting, readers=required):
            raw = nest.written(strategy.mapping)
            pairs = zip(raw, nest.results, strict=True)
            fits = all(
                layout is None or result is None or layout.fits(self.mesh, result.extents)
                for layout, result in pairs
            )
            layouts = [*strategy.reads, strategy.writes, *(one for one in raw if one is not None)]
            if not fits or not all(in_order(one, self.mesh) for one in layouts):
                continue
            if strategy.writes.partial and any(loop in nest.masked for _, loop in strategy.mapping):
                continue
            yield Row(
                strategy.reads,
                raw,
                strategy.writes,
                _ticks(strategy, views),
                0 if views else self._bytes(nest, raw, strategy.writes),
                nest.inside(strategy.mapping),
            )

    def _bytes(self, nest: Nested, raw: Sequence[Layout | None], kept: Layout) -> int:
        return sum(
            Tiling(self.mesh, result.extents, result.element_bytes).local_bytes(
                kept if place == 0 else layout
            )
            for place, (result, layout) in enumerate(zip(nest.results, raw, strict=True))
            if result is not None and layout is not None
        )

    # updates -------------------------------------------------------------------------------------

    def _update(self, parameter: int, gradient: Source) -> None:
        storage = self.capture.storages[parameter]
        source = self._stored[parameter]
        lies = [row.writes(0) for row in self.found[source[0]].rows]
        shape = self._shape(parameter) or ()
        element = ELEMENT_BYTES[storage.dtype]
        count = storage.bytes // element
        rows = []
        for layout in lies:
            own = count // layout.parts(self.mesh)
            ticks = roofline_ns(self.mesh.device, 0, own * self.optimizer.moved_bytes(element))
            state = own * self.optimizer.state_bytes(element)
            rows.append(Row((layout, layout), (), None, ticks, state))
        dims = MeshTensor("x", tuple(Dim(extent) for extent in shape), element)
        node = Node(UPDATE + storage.name, rows, (dims, dims), (gradient, source), 0, self._end)
        node.fixed = frozenset({1})
        self._add(node)


def _parted(kernel: Kernel, other: Kernel) -> bool:
    """Return whether two kernels are one node of PyTorch's: the backward of a convolution."""
    return other.name == f"{kernel.name}:weights"


def _ticks(strategy: ParallelStrategy, views: bool) -> int:
    sent = sum(one.ticks for one in strategy.collectives)
    return sent + (0 if views else strategy.forward_ns)


def _reader_counts(capture: Capture) -> dict[int, int]:
    """Return storage, or -1 - view -> number of direct readers, with results of the step."""
    counts = dict.fromkeys(range(-len(capture.views), len(capture.storages)), 0)
    for tensor in _read(capture):
        counts[_as_read(tensor)] += 1
    for result in capture.results:
        if result.kind == "gradient":
            counts[_as_read(result)] += 1
    return counts


def _as_read(tensor: Tensor | Result) -> int:
    return tensor.storage if tensor.view is None else -1 - tensor.view


def _read(capture: Capture) -> Iterator[Tensor]:
    """Yield tensors that kernels and views read."""
    for kernel in capture.kernels:
        yield from tensors_of(kernel)
    for view in capture.views:
        yield from tensors_of(view)


def _last_readers(capture: Capture) -> list[int]:
    """Return storage -> end of the last kernel that reads it; results stay to the end."""
    last = [0] * len(capture.storages)
    for place, kernel in enumerate(capture.kernels):
        for tensor in (*tensors_of(kernel), *(made for made in kernel.results if made)):
            last[tensor.storage] = place + 1
    for result in capture.results:
        last[result.storage] = len(capture.kernels)
    return last


# tables ------------------------------------------------------------------------------------------


def _problem(
    title: str, nodes: list[Node], mesh: Mesh, limit: int | None, details: dict[str, str]
) -> ShardingProblem:
    ends, tables = [], []
    known: dict[tuple[object, ...], np.ndarray] = {}
    tilings: dict[tuple[tuple[int, ...], int], Tiling] = {}
    for number, node in enumerate(nodes):
        for port, (source, result) in enumerate(node.sources):
            key = (id(nodes[source].rows), result, id(node.rows), port, port in node.fixed)
            if key not in known:
                tensor = node.tensors[port]
                size = (tensor.extents, tensor.element_bytes)
                tiling = tilings.setdefault(size, Tiling(mesh, *size))
                known[key] = _changes(tiling, nodes[source], result, node, port)
            ends.append((source, number))
            tables.append(known[key].ravel())
    entries = np.concatenate([np.zeros(0, dtype=np.int64), *tables])
    flat = [row for node in nodes for row in node.rows]
    return ShardingProblem(
        title,
        tuple(node.name for node in nodes),
        StrategyTable(
            offsets_of([len(node.rows) for node in nodes]),
            np.array([row.ticks for row in flat], dtype=np.int64),
            np.array([row.num_bytes for row in flat], dtype=np.int64),
            np.ones(len(flat), dtype=bool),
        ),
        TransitionTable(
            np.array(ends, dtype=np.int64).reshape(-1, 2),
            offsets_of([len(table) for table in tables]),
            np.maximum(entries, 0),
            entries >= 0,
        ),
        np.array([(node.start, node.stop) for node in nodes], dtype=np.int64),
        limit,
        tuple(label_of_row(row, mesh) for row in flat),
        details,
        Units(),
    )


def _changes(tiling: Tiling, source: Node, result: int, node: Node, port: int) -> np.ndarray:
    """Return the ticks of each pair of strategies; -1 if impossible."""
    ranks = {len(row.writes(result).dims) for row in source.rows}
    if ranks - {len(tiling.extents)}:
        found = f"{len(tiling.extents)} dimensions of {source.name!r}, which has {min(ranks)}"
        expected, remedy = "all of them", "capture the model again"
        raise InputError([Finding(f"node {node.name!r}", f"reads {found}", expected, remedy)])
    table = np.empty((len(source.rows), len(node.rows)), dtype=np.int64)
    known: dict[tuple[Layout, Layout], int] = {}
    for place, made in enumerate(source.rows):
        for column, read in enumerate(node.rows):
            pair = (made.writes(result), read.reads[port])
            if pair not in known:
                free = pair[0] == pair[1]
                ticks = 0 if free else None if port in node.fixed else tiling.change_ns(*pair)
                known[pair] = -1 if ticks is None else ticks
            table[place, column] = known[pair]
    return table


def label_of_row(row: Row, mesh: Mesh) -> str:
    """Return the label: placements read, written and retained; collectives inside."""
    words = [
        ",".join(placement_of(one, mesh) for one in row.reads),
        ",".join("-" if one is None else placement_of(one, mesh) for one in row.raw),
    ]
    if row.kept is not None and row.kept != row.raw[0]:
        words.append(placement_of(row.kept, mesh))
    return " + ".join([" > ".join(words), *row.inside])
