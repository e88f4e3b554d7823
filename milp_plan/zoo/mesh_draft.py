"""Operators and values of a planning problem whose options are strategies of device meshes.

Operators and values of a layer ``l``, in inference ``l`` and ``l.y`` alone:

=============== ==========================================================================
``l.F``         forward, with its collectives; writes ``l.y`` and ``l.saved``
``l.B``         backward for inputs and weights; writes ``l.dw`` and a gradient per input
``l.U``         optimizer update of a device's part; what ZeRO gathers is part of ``l.B``
``l.weights``   persistent: weights
``l.state``     persistent: optimizer state
=============== ==========================================================================

The three share one colocation group. ``l.saved`` and ``l.dw`` have the strategy's layouts and
cannot be resharded, so that all three use the same strategy. A layer with several readers sums
their gradients as it reads them. ``l.B`` reads the inputs of the layer, unless it is a plain sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from milp_plan.core import (
    FULL,
    UPDATE_KIND,
    ComputationGraph,
    Finding,
    InputError,
    Operator,
    Option,
    Value,
    ceil_div,
)
from milp_plan.cost.mesh import (
    Layout,
    Mesh,
    MeshGraph,
    ParallelStrategy,
    Setting,
    Tensor,
    Tiling,
    Training,
)
from milp_plan.cost.roofline import roofline_ns

from .architecture import Layer

SINGLE = "single"
"""Name of the option on one device."""

UPDATE_FLOPS = 12
"""Operations of the optimizer per parameter."""

Lies = tuple[Mesh, Layout]
"""Mesh and layout of a copy."""


@dataclass(frozen=True)
class MeshStrategy:
    """A strategy on a mesh."""

    mesh: Mesh
    strategy: ParallelStrategy

    @property
    def name(self) -> str:
        """Name of the option: mesh, mapping, and the layout written."""
        if not self.mesh.axes:
            return SINGLE
        return f"{self.mesh.text} {self.strategy.name} > {self.strategy.writes.text}"


def layout_name(lies: Lies) -> str:
    """Return the name of a layout; ``full`` is the same on every mesh."""
    grid, layout = lies
    return FULL if layout.text == FULL else f"{grid.text} {layout.text}"


@dataclass
class MeshedDraft:
    """A graph with the ways to run each operator.

    Parameters
    ----------
    graph, layers
        Loops and tensors, and their layers.
    settings
        Settings, one per mesh.
    device
        Class of the devices.
    moved_bytes
        Bytes per parameter that an update reads and writes.
    """

    graph: MeshGraph
    layers: list[Layer]
    settings: list[Setting]
    device: str
    moved_bytes: int = 0

    def __post_init__(self) -> None:
        listed = zip(*(self.graph.strategies(setting) for setting in self.settings), strict=True)
        self.rows = [
            [
                MeshStrategy(setting.mesh, strategy)
                for setting, rows in zip(self.settings, lists, strict=True)
                for strategy in rows
            ]
            for lists in listed
        ]
        self.readers: list[list[int]] = [[] for _ in self.layers]
        for reader, sources in enumerate(self.graph.sources):
            for source in sources:
                if source is not None:
                    self.readers[source].append(reader)

    @property
    def training(self) -> Training | None:
        """Bytes per parameter; ``None`` in inference."""
        return self.settings[0].training

    def made(self) -> ComputationGraph:
        """Return the graph.

        Raises
        ------
        InputError
            In training: no gradient comes back to a layer but the last.
        """
        numbers = range(len(self.layers))
        operators = [self._forward(number) for number in numbers]
        values = [value for number in numbers for value in self._forward_values(number)]
        if self.training is not None:
            for number in reversed(numbers):
                operators.append(self._backward(number))
                values += self._backward_values(number)
            for number in numbers:
                if self._has_weights(number):
                    operators.append(self._update(number))
        return ComputationGraph(tuple(operators), tuple(values))

    # names ---------------------------------------------------------------------------------------

    def _name(self, number: int, suffix: str) -> str:
        return self.layers[number].name + (f".{suffix}" if self.training else "")

    def _output(self, number: int, reader: int) -> str:
        layer = self.layers[number]
        return f"{layer.name}.y" + (f".{self.layers[reader].name}" if layer.scattered else "")

    def _outputs(self, number: int) -> list[str]:
        names = dict.fromkeys(self._output(number, reader) for reader in self.readers[number])
        return list(names) or [f"{self.layers[number].name}.y"]

    def _gradient(self, number: int, reader: int) -> str:
        return f"{self.layers[number].name}.dy.{self.layers[reader].name}"

    def _contributors(self, number: int) -> list[int]:
        """Return readers that send a gradient back."""
        return [reader for reader in self.readers[number] if self._port(number, reader)[1].gradient]

    def _port(self, number: int, reader: int) -> tuple[int, Tensor]:
        port = self.graph.sources[reader].index(number)
        return port, self.graph.operators[reader].inputs[port]

    def _inputs(self, number: int) -> Iterator[tuple[int, int, Tensor]]:
        """Yield (port, source, tensor) of the inputs from other layers."""
        operator = self.graph.operators[number]
        for port, source in enumerate(self.graph.sources[number]):
            if source is not None:
                yield port, source, operator.inputs[port]

    def _has_weights(self, number: int) -> bool:
        return bool(self.graph.operators[number].parameters)

    # operators -----------------------------------------------------------------------------------

    def _operator(self, number: int, suffix: str, kind: str, options: list[Option]) -> Operator:
        layer = self.layers[number]
        group = layer.name if self.training else None
        return Operator(self._name(number, suffix), tuple(options), kind, group, None, layer.block)

    def _option(
        self, way: MeshStrategy, ticks: int, reads: dict[str, str], writes: dict[str, str]
    ) -> Option:
        return Option(way.name, {self.device: ticks}, way.mesh.devices, 0, reads, writes)

    def _reads(self, number: int, way: MeshStrategy) -> dict[str, str]:
        return {
            self._output(source, number): layout_name((way.mesh, way.strategy.reads[port]))
            for port, source, _ in self._inputs(number)
        }

    def _kept(self, number: int, way: MeshStrategy, *parts: str) -> dict[str, str]:
        if not self._has_weights(number):
            return {}
        return {f"{self.layers[number].name}.{part}": way.name for part in parts}

    def _forward(self, number: int) -> Operator:
        name = self.layers[number].name
        options = []
        for way in self.rows[number]:
            reads = self._reads(number, way) | self._kept(number, way, "weights")
            written = layout_name((way.mesh, way.strategy.writes))
            writes = dict.fromkeys(self._outputs(number), written)
            if self.training:
                writes[f"{name}.saved"] = way.name
            options.append(self._option(way, way.strategy.pass_ns(backward=False), reads, writes))
        return self._operator(number, "F", "forward", options)

    def _backward(self, number: int) -> Operator:
        name, operator = self.layers[number].name, self.graph.operators[number]
        contributors = self._contributors(number)
        if self.readers[number] and not contributors:
            where, found = f"layer {name!r}", "no gradient comes back to it"
            raise InputError([Finding(where, found, "a path to the loss", "connect or remove it")])
        options = []
        for way in self.rows[number]:
            strategy = way.strategy
            taken = layout_name((way.mesh, strategy.takes))
            reads = {self._gradient(number, reader): taken for reader in contributors}
            if operator.backward_passes:
                reads |= self._reads(number, way)
            reads |= {f"{name}.saved": way.name} | self._kept(number, way, "weights")
            writes = self._kept(number, way, "dw")
            for port, source, tensor in self._inputs(number):
                if tensor.gradient:
                    lies = (way.mesh, strategy.gradients[port])
                    writes[self._gradient(source, number)] = layout_name(lies)
            options.append(self._option(way, strategy.pass_ns(backward=True), reads, writes))
        return self._operator(number, "B", "backward", options)

    def _update(self, number: int) -> Operator:
        options = []
        for way in self.rows[number]:
            memory, training = way.strategy.memory, self.training
            assert training is not None
            count = ceil_div(memory.state, training.state)
            ticks = roofline_ns(way.mesh.device, UPDATE_FLOPS * count, self.moved_bytes * count)
            reads = self._kept(number, way, "weights", "state", "dw")
            options.append(self._option(way, ticks, reads, {}))
        return self._operator(number, "U", UPDATE_KIND, options)

    # values --------------------------------------------------------------------------------------

    def _forward_values(self, number: int) -> Iterator[Value]:
        name, ways = self.layers[number].name, self.rows[number]
        forward, backward = self._name(number, "F"), self._name(number, "B")
        if self._has_weights(number):
            users = [forward, *([backward, self._name(number, "U")] if self.training else [])]
            weights = {way.name: way.strategy.memory.weights for way in ways}
            yield Value(f"{name}.weights", None, tuple(users), weights)
        written = [(way.mesh, way.strategy.writes) for way in ways]
        for value in self._outputs(number):
            readers = [r for r in self.readers[number] if self._output(number, r) == value]
            tensor = self.graph.operators[number].output
            if self.layers[number].scattered:
                tensor = self._port(number, readers[0])[1]
            read = [
                (way.mesh, way.strategy.reads[self._port(number, reader)[0]])
                for reader in readers
                for way in self.rows[reader]
            ]
            users = [self._name(reader, "F") for reader in readers]
            if self.training:
                users += [
                    self._name(reader, "B")
                    for reader in readers
                    if self.graph.operators[reader].backward_passes
                ]
            yield flowing(value, (forward, users), tensor, written, read)
        if self.training:
            saved = {way.name: way.strategy.memory.saved for way in ways}
            yield Value(f"{name}.saved", forward, (backward,), saved)

    def _backward_values(self, number: int) -> Iterator[Value]:
        name, ways = self.layers[number].name, self.rows[number]
        backward = self._name(number, "B")
        if self._has_weights(number):
            memories = {way.name: way.strategy.memory for way in ways}
            update = (self._name(number, "U"),)
            state = {key: memory.state for key, memory in memories.items()}
            yield Value(f"{name}.state", None, update, state)
            gradients = {key: memory.gradients for key, memory in memories.items()}
            yield Value(f"{name}.dw", backward, update, gradients)
        for port, source, tensor in self._inputs(number):
            if tensor.gradient:
                written = [(way.mesh, way.strategy.gradients[port]) for way in ways]
                taken = [(way.mesh, way.strategy.takes) for way in self.rows[source]]
                users = [self._name(source, "B")]
                title = self._gradient(source, number)
                yield flowing(title, (backward, users), tensor, written, taken)


def flowing(
    name: str,
    ends: tuple[str, Iterable[str]],
    tensor: Tensor,
    written: Iterable[Lies],
    read: Iterable[Lies],
) -> Value:
    """Return a value with the bytes of every layout, and the ticks from each to each.

    Parameters
    ----------
    name, ends
        Name of the value, of its producer and of its consumers.
    tensor
        Tensor that flows.
    written, read
        Layouts that the producer's and the consumers' options use.
    """
    made, needed = dict.fromkeys(written), dict.fromkeys(read)
    tilings = {
        grid: Tiling(grid, tensor.extents, tensor.element_bytes) for grid, _ in (*made, *needed)
    }
    sizes = {layout_name(lies): tilings[lies[0]].local_bytes(lies[1]) for lies in (*made, *needed)}
    table: dict[tuple[str, str], int] = {}
    for grid, before in made:
        for other, after in needed:
            pair = (layout_name((grid, before)), layout_name((other, after)))
            ticks = change_ns(tilings[grid], before, other, after)
            if pair[0] != pair[1] and ticks is not None:
                table[pair] = min(ticks, table.get(pair, ticks))
    producer, consumers = ends
    return Value(name, producer, tuple(consumers), sizes, reshard_ticks=table)


def change_ns(tiling: Tiling, before: Layout, other: Mesh, after: Layout) -> int | None:
    """Return the ticks between layouts on one or two meshes; ``None`` if impossible."""
    if not before.fits(tiling.mesh, tiling.extents) or not after.fits(other, tiling.extents):
        return None
    if other == tiling.mesh:
        return tiling.change_ns(before, after)
    if after.partial:
        return None
    return tiling.change_ns(before, Layout(tuple(() for _ in before.dims)))
