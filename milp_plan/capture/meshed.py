"""Builds problems of strategies, devices and times together from captured graphs.

Each kernel may run on one device, or on a group of devices that forms one of the requested meshes,
by any of the strategies of :mod:`.sharding` for that mesh. So a step may split its large
products over all devices and run independent kernels in parallel.

===================== =====================================================================
kernel                an operator; its options are the strategies of one device and of each mesh
storage               a value, in the layouts that its kernel writes and its readers take
view                  nothing: its readers take the storage in the layout that the view turns into
                      theirs without sending anything; strategies for which there is none are left
                      out
trained parameter     persistent; all that read it, and its update, have it in one layout
readers, updater and  one colocation group, on devices of one mesh
gradient of it
===================== =====================================================================

Collectives inside a kernel, and those that it makes of its own result, are part of its duration.
Other changes of layout are resharding, which occupies channels, not devices. Kernels run alone, as
in eager PyTorch. Pending sums that nothing reads (the loss) stay pending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from milp_plan.core import (
    FULL,
    UPDATE_KIND,
    Cluster,
    ComputationGraph,
    Finding,
    InputError,
    Objective,
    Operator,
    Option,
    PlanningProblem,
    Value,
)
from milp_plan.cost.clusters import plain
from milp_plan.cost.mesh import Dim, Layout, Mesh
from milp_plan.cost.mesh import Tensor as MeshTensor
from milp_plan.io.capture_wire import Capture, Tensor
from milp_plan.zoo import flowing, layout_name, meshes_on

from .colocation import Colocation
from .instance import block_label, provenance_of
from .optimizers import OPTIMIZERS, Optimizer
from .passes import homes, kinds
from .record import ELEMENT_BYTES, handed_out
from .sharding import UPDATE, Node, Row, Source, label_of_row, nodes_of, require_placeable

SINGLE = "single"
"""Name of the option on one device."""

Lies = tuple[Mesh, Layout]


def meshed(
    capture: Capture,
    cluster: Cluster,
    shapes: Iterable[str],
    *,
    optimizer: str = "adamw",
    objective: Objective = Objective.MAKESPAN,
    name: str | None = None,
) -> PlanningProblem:
    """Return a problem of strategies, devices and times of a captured training step.

    Parameters
    ----------
    capture
        The graph, recorded with its views.
    cluster
        Devices of one class, with groups of the sizes of the meshes.
    shapes
        Meshes such as ``"2"`` or ``"2x2"``, each with another number of devices.
    optimizer
        One of :data:`OPTIMIZERS`.
    objective, name
        Objective and name of the problem.

    Raises
    ------
    InputError
        See :func:`~milp_plan.capture.sharding.sharding`; also for several device classes, a mesh
        without a group, or two of the same size.
    """
    require_placeable(capture, optimizer)
    meshes = meshes_on(cluster, tuple(shapes))
    draft = _Draft(capture, cluster.device_classes[0].name, meshes, OPTIMIZERS[optimizer])
    details = provenance_of(capture, cluster) | {
        "generator": "milp_plan.capture.meshed",
        "optimizer": optimizer,
        "meshes": " ".join(grid.text for grid in meshes),
    }
    title = name or f"{capture.name}-{capture.mode}-meshed"
    return PlanningProblem(title, draft.graph(), plain(cluster), objective, provenance=details)


@dataclass(frozen=True)
class NodeStrategy:
    """A strategy of a node on a mesh, with storages in place of their views.

    Parameters
    ----------
    mesh, row
        The mesh, and the strategy.
    reads, writes
        Node and result -> layout.
    """

    mesh: Mesh
    row: Row
    reads: dict[Source, Layout]
    writes: dict[Source, Layout]

    @property
    def name(self) -> str:
        """Name of the option."""
        if not self.mesh.axes:
            return SINGLE
        return f"{self.mesh.text} {label_of_row(self.row, self.mesh)}"

    def layout_read(self, source: Source) -> str:
        """Return mesh and layout in which it reads a storage."""
        return layout_name((self.mesh, self.reads[source]))


@dataclass
class _Entry:
    """An operator under construction: additional values that it reads and writes, by way."""

    name: str
    kind: str
    block: str | None
    ways: list[NodeStrategy]
    reads: list[dict[str, str]] = field(default_factory=list)
    writes: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reads = [{} for _ in self.ways]
        self.writes = [{} for _ in self.ways]


class _Draft:
    """Operators and values under construction."""

    def __init__(
        self, capture: Capture, device: str, meshes: Sequence[Mesh], optimizer: Optimizer
    ) -> None:
        self.capture = capture
        self.device = device
        self.steps = [(mesh, nodes_of(capture, mesh, optimizer)) for mesh in meshes]
        self.nodes = self.steps[0][1]
        self.views = {view.name for view in capture.views}
        self.inputs = dict(
            enumerate(place for place, one in enumerate(capture.storages) if one.kind != "result")
        )
        self.storage_of = self._storages()
        self._origins: dict[tuple[int, Source, Layout], tuple[Source, Layout] | None] = {}
        self.entries = dict(self._entries())
        self.extra: list[Value] = []

    def graph(self) -> ComputationGraph:
        """Return the graph."""
        groups = self._colocated()
        operators = [self._operator(entry) for entry in self.entries.values()]
        operators = groups.grouped(operators)
        return ComputationGraph(tuple(operators), (*self._values(), *self.extra))

    def _storages(self) -> dict[Source, Tensor]:
        """Return result of a kernel -> its tensor."""
        number = {node.name: place for place, node in enumerate(self.nodes)}
        tensors: dict[Source, Tensor] = {}
        for kernel in self.capture.kernels:
            place = number.get(kernel.name, number.get(kernel.name.removesuffix(":weights")))
            assert place is not None
            listed = self.nodes[place].first
            for result, made in enumerate(kernel.results):
                if made is not None:
                    tensors[place, result - listed] = made
        return tensors

    # operators -----------------------------------------------------------------------------------

    def _entries(self) -> Iterator[tuple[int, _Entry]]:
        kind, home = kinds(self.capture), homes(self.capture)
        known = {kernel.name: place for place, kernel in enumerate(self.capture.kernels)}
        for number, node in enumerate(self.nodes):
            if number in self.inputs or node.name in self.views:
                continue
            ways = self._ways(number)
            if not any(not way.mesh.axes for way in ways):
                found, expected = "views that no strategy passes", "one that it runs whole by"
                remedy = "plan it by --sharding"
                raise InputError([Finding(f"node {node.name!r}", found, expected, remedy)])
            if node.name in known:
                path = home[known[node.name]]
                title = f"{path or 'model'}/{node.name}"
                yield number, _Entry(title, kind[known[node.name]], block_label(path), ways)
            else:
                path = node.name.removeprefix(UPDATE)
                yield number, _Entry(f"{path}.U", UPDATE_KIND, block_label(path), ways)

    def _ways(self, number: int) -> list[NodeStrategy]:
        """Return strategies of a node on all meshes; of those with equal layouts the fastest."""
        fastest: dict[object, NodeStrategy] = {}
        for place, (mesh, nodes) in enumerate(self.steps):
            for row in nodes[number].rows:
                reads = self._reads(place, nodes[number], row)
                if reads is None:
                    continue
                writes = {
                    (number, result): row.writes(result)
                    for result, layout in enumerate(row.raw)
                    if layout is not None
                }
                key = mesh.text, tuple(reads.items()), tuple(writes.items())
                if key not in fastest or row.ticks < fastest[key].row.ticks:
                    fastest[key] = NodeStrategy(mesh, row, reads, writes)
        return list({way.name: way for way in fastest.values()}.values())

    def _reads(self, place: int, node: Node, row: Row) -> dict[Source, Layout] | None:
        """Return storages in the layouts that a strategy needs; ``None`` if one would need two."""
        layouts: dict[Source, Layout] = {}
        for source, required in zip(node.sources, row.reads, strict=True):
            origin = self._origin(place, source, required)
            if origin is None or layouts.setdefault(*origin) != origin[1]:
                return None
        return layouts

    def _origin(self, place: int, source: Source, required: Layout) -> tuple[Source, Layout] | None:
        """Return the storage behind views, and its layout that they turn into the required one."""
        key = (place, source, required)
        if key not in self._origins:
            self._origins[key] = self._traced(place, source, required)
        return self._origins[key]

    def _traced(self, place: int, source: Source, required: Layout) -> tuple[Source, Layout] | None:
        number, result = source
        node = self.steps[place][1][number]
        if number in self.inputs:
            rests = any(row.writes(0) == required for row in node.rows)
            return (source, required) if rests else None
        if node.name not in self.views:
            self._require_rank(source, required)
            return source, required
        if len(node.sources) != 1:
            return None
        for row in node.rows:
            if row.ticks == 0 and row.writes(result) == required:
                origin = self._origin(place, node.sources[0], row.reads[0])
                if origin is not None:
                    return origin
        return None

    def _require_rank(self, source: Source, required: Layout) -> None:
        """Check that a reader takes as many dimensions as there are."""
        have = self.storage_of.get(source)
        if have is None or len(have.shape) != len(required.dims):
            name = self.nodes[source[0]].name
            found = f"read with {len(required.dims)} dimensions"
            expected = "a result" if have is None else f"the {len(have.shape)} that it has"
            remedy = "capture the model again"
            raise InputError([Finding(f"result of node {name!r}", found, expected, remedy)])

    def _operator(self, entry: _Entry) -> Operator:
        options = tuple(
            Option(
                way.name,
                {self.device: way.row.ticks},
                way.mesh.devices,
                0,
                self._named(way.mesh, way.reads) | read,
                self._named(way.mesh, way.writes) | written,
            )
            for way, read, written in zip(entry.ways, entry.reads, entry.writes, strict=True)
        )
        return Operator(entry.name, options, entry.kind, block=entry.block)

    def _named(self, mesh: Mesh, layouts: dict[Source, Layout]) -> dict[str, str]:
        return {self._title(at): layout_name((mesh, one)) for at, one in layouts.items()}

    def _title(self, source: Source) -> str:
        """Return the name of the storage of a result."""
        number = source[0]
        place = self.inputs[number] if number in self.inputs else self.storage_of[source].storage
        return self.capture.storages[place].name

    # what belongs together -----------------------------------------------------------------------

    def _colocated(self) -> Colocation:
        """Put readers, update and gradient of a parameter together, on one mesh, in one layout."""
        groups, updates = Colocation(), self._updates()
        for number, (gradient, parameter) in updates.items():
            users = self._readers(parameter)
            names = [self.entries[place].name for place in users]
            maker = [gradient[0]] if gradient[0] in self.entries else []
            groups.join(
                self.entries[number].name, [*names, *(self.entries[one].name for one in maker)]
            )
            entry_of = partial(NodeStrategy.layout_read, source=parameter)
            self._agree(f"layout of {self._title(parameter)}", users, entry_of)
        for members in self._members(groups):
            title = f"mesh of {self.entries[members[-1]].name.removesuffix('.U')}"
            self._agree(title, members, lambda way: way.mesh.text)
        return groups

    def _updates(self) -> dict[int, tuple[Source, Source]]:
        """Return update -> sources of gradient and parameter."""
        sources = {}
        for number, entry in self.entries.items():
            if entry.kind == UPDATE_KIND:
                gradient, parameter = self.nodes[number].sources
                while self.nodes[gradient[0]].name in self.views:
                    gradient = self.nodes[gradient[0]].sources[0]
                sources[number] = gradient, parameter
        return sources

    def _members(self, groups: Colocation) -> list[list[int]]:
        """Return numbers of the operators of each group, in captured order."""
        bare = [Operator(e.name, (), e.kind) for e in self.entries.values()]
        found: dict[str, list[int]] = {}
        for number, operator in zip(self.entries, groups.grouped(bare), strict=True):
            if operator.group is not None:
                found.setdefault(operator.group, []).append(number)
        return [members for members in found.values() if len(members) > 1]

    def _agree(
        self, title: str, numbers: Sequence[int], entry_of: Callable[[NodeStrategy], str]
    ) -> None:
        """Add a value without bytes that forces some operators to the same choice."""
        first, *others = numbers
        if not others:
            return
        words: dict[str, int] = {}
        for number in numbers:
            entry = self.entries[number]
            tables = entry.writes if number == first else entry.reads
            for way, table in zip(entry.ways, tables, strict=True):
                table[title] = entry_of(way)
                words[table[title]] = 0
        names = tuple(self.entries[number].name for number in others)
        self.extra.append(Value(title, self.entries[first].name, names, words))

    def _readers(self, source: Source) -> list[int]:
        """Return the operators that read a storage, in captured order."""
        return [
            number
            for number, entry in self.entries.items()
            if any(source in way.reads for way in entry.ways)
        ]

    # values --------------------------------------------------------------------------------------

    def _values(self) -> Iterator[Value]:
        readers: dict[Source, list[int]] = {}
        for number, entry in self.entries.items():
            for source in dict.fromkeys(at for way in entry.ways for at in way.reads):
                readers.setdefault(source, []).append(number)
        for number, place in self.inputs.items():
            users = readers.get((number, 0), [])
            if users:
                yield self._persistent((number, 0), place, users)
        outputs = handed_out(self.capture)
        for source, tensor in self.storage_of.items():
            written = self._lies(source, [source[0]], written=True)
            users = readers.get(source, [])
            names = [self.entries[one].name for one in users]
            title = self.capture.storages[tensor.storage].name
            shaped = _shaped(tensor.shape, tensor.dtype)
            ends = (self.entries[source[0]].name, names)
            value = flowing(title, ends, shaped, written, self._lies(source, users))
            kept = tensor.storage in outputs
            yield value if value.is_kept == kept else replace(value, kept=kept)
        for entry in self.entries.values():
            sizes = {
                layout_name((way.mesh, layout)): way.row.num_bytes
                for way in entry.ways
                for layout in way.reads.values()
                if entry.kind == UPDATE_KIND
            }
            yield from self._state(entry, sizes)

    def _state(self, entry: _Entry, sizes: dict[str, int]) -> Iterator[Value]:
        """Yield the optimizer's state, in the layout of the parameter."""
        if not any(sizes.values()):
            return
        title = f"{entry.name.removesuffix('.U')}.state"
        used = {}
        for way, table in zip(entry.ways, entry.reads, strict=True):
            table_name = layout_name((way.mesh, list(way.reads.values())[-1]))
            table[title] = table_name
            used[table_name] = sizes[table_name]
        yield Value(title, None, (entry.name,), used)

    def _lies(self, source: Source, numbers: Iterable[int], *, written: bool = False) -> list[Lies]:
        """Return the meshes and layouts in which a storage is written or read."""
        return [
            (way.mesh, (way.writes if written else way.reads)[source])
            for number in numbers
            for way in self.entries[number].ways
        ]

    def _persistent(self, source: Source, place: int, users: list[int]) -> Value:
        storage = self.capture.storages[place]
        names = tuple(self.entries[one].name for one in users)
        sizes = {}
        for mesh, layout in self._lies(source, users):
            parts = layout.parts(mesh)
            sizes[layout_name((mesh, layout))] = storage.bytes // parts
        return Value(storage.name, None, names, sizes or {FULL: storage.bytes})


def _shaped(shape: tuple[int, ...], dtype: str) -> MeshTensor:
    return MeshTensor("x", tuple(Dim(max(size, 1)) for size in shape), ELEMENT_BYTES[dtype])
