"""All ways to run an operator on a mesh, and their costs.

A strategy maps each mesh axis to a loop it splits, or to nothing (all devices along it do the
same), or, for linear operators, to ``sum``: inputs are pending sums along that axis, and so is the
output. Splits must divide. From the mapping follow the layouts of all tensors, hence

* time to compute, the roofline of one device's share, forward and backward;
* collectives inside: exchanges of the operator, the sum of weight gradients over the axes that
  split loops the weights do not have (or what ZeRO does instead), and the sum of the output where
  the strategy resolves it itself;
* bytes that a device stores (:mod:`.memory`).

An output may stay a pending sum; then its reader pays for the sum on the edge, where
all-reduce and slice become a reduce-scatter. That is never more expensive for a single reader; for
several ones there are also strategies that resolve it. The network's own output has no reader, and
must not be a pending sum. Gradients of inputs that are sums are always paid on the edge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from milp_plan.core import Finding, InputError, ceil_div

from ..collectives import point_to_point_ns
from ..roofline import roofline_ns
from .axes import Mesh
from .layouts import Layout, Tiling
from .memory import ZERO_LEVELS, Memory, Training, resident_bytes
from .operators import Exchange, MeshOperator, Tensor

SUM = "sum"
"""Replaces a loop: inputs and output are pending sums along the axis."""

Mapping = tuple[tuple[str, str], ...]
"""(axis, loop) for each axis that is mapped."""


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective inside an operator.

    Parameters
    ----------
    kind, axes
        Type of the collective, and its axes.
    num_bytes, ticks
        Bytes of one, and ticks of all of them.
    why
        Its purpose.
    backward
        Whether it is part of the backward pass.
    once
        Whether a step needs it once, however many micro-batches it has.
    """

    kind: str
    axes: tuple[str, ...]
    num_bytes: int
    ticks: int
    why: str
    backward: bool = False
    once: bool = False


@dataclass(frozen=True)
class ParallelStrategy:
    """One way to run an operator.

    Parameters
    ----------
    mapping
        Loop that each axis splits.
    reads
        Layout of each input.
    gradients
        Layout of the gradient of each input, with sums pending; none in inference.
    writes
        Layout of the output.
    takes
        Required layout of the gradient of the output.
    forward_ns, backward_ns
        Time to compute; the backward one is 0 in inference.
    collectives
        Collectives inside the operator.
    memory
        Bytes on each device.
    zero
        Level of ZeRO.
    """

    mapping: Mapping
    reads: tuple[Layout, ...]
    gradients: tuple[Layout, ...]
    writes: Layout
    takes: Layout
    forward_ns: int
    backward_ns: int
    collectives: tuple[Collective, ...]
    memory: Memory
    zero: int = 0

    @property
    def cost_ns(self) -> int:
        """Time to compute and to communicate, one after the other."""
        return self.pass_ns(backward=False) + self.pass_ns(backward=True)

    @property
    def once_ns(self) -> int:
        """The part of it that a step pays once, for any number of micro-batches."""
        return sum(one.ticks for one in self.collectives if one.once)

    def pass_ns(self, *, backward: bool) -> int:
        """Return the time of one pass, collectives included."""
        sent = sum(one.ticks for one in self.collectives if one.backward == backward)
        return sent + (self.backward_ns if backward else self.forward_ns)

    @property
    def name(self) -> str:
        """Mapping and variant, such as ``"x:n y:b zero2"``; ``"copy"`` without any split."""
        words = [f"{axis}:{loop}" for axis, loop in self.mapping] or ["copy"]
        if self.zero:
            words.append(f"zero{self.zero}")
        return " ".join(words)


@dataclass(frozen=True)
class Setting:
    """Common settings of all strategies of a problem.

    Parameters
    ----------
    mesh
        The mesh.
    training
        Bytes per parameter of a training step; ``None`` for inference.
    zero_levels
        Levels of ZeRO to offer; level 0 is always included.
    micro_batches
        Number of runs of each operator in a step, one after the other; weights do not change.
    """

    mesh: Mesh
    training: Training | None = None
    zero_levels: tuple[int, ...] = (0,)
    micro_batches: int = 1

    def __post_init__(self) -> None:
        findings = []
        unknown = [level for level in self.zero_levels if level not in ZERO_LEVELS]
        if unknown:
            expected = f"some of {', '.join(map(str, ZERO_LEVELS))}"
            findings.append(Finding("zero_levels", str(unknown), expected, "correct them"))
        if self.micro_batches < 1:
            found = str(self.micro_batches)
            findings.append(Finding("micro_batches", found, "at least 1", "ask for more"))
        if findings:
            raise InputError(findings)


def mappings(operator: MeshOperator, mesh: Mesh) -> Iterator[Mapping]:
    """Yield every assignment of axes to loops that divides all tensors, the empty one first."""
    names = [loop.name for loop in operator.loops if not loop.whole and loop.extent > 1]
    choices = ["", *names, *([SUM] if operator.linear else [])]
    extents = {loop.name: loop.extent for loop in operator.loops}
    for loops in product(choices, repeat=len(mesh.axes)):
        pairs = zip(mesh.axes, loops, strict=True)
        mapping = tuple((axis.name, loop) for axis, loop in pairs if loop)
        parts = {loop: _parts(mesh, mapping, (loop,)) for loop in set(loops) - {"", SUM}}
        if any(extents[loop] % number for loop, number in parts.items()):
            continue
        if all(_layout(t, mapping).fits(mesh, t.extents) for t in operator.tensors):
            yield mapping


def strategies(
    operator: MeshOperator, setting: Setting, *, readers: int = 1
) -> list[ParallelStrategy]:
    """Return the Pareto-optimal strategies of an operator.

    Parameters
    ----------
    operator
        The operator.
    setting
        Mesh and mode.
    readers
        Number of operators that read the output.

    Returns
    -------
    list of Strategy
        A strategy is left out only if another one has the same layouts everywhere, and costs and
        stores no more: it can replace it, so an optimum remains. With several
        micro-batches the other one also stores its parameters in the same way.
    """
    made = operator.output
    tiling = Tiling(setting.mesh, made.extents, made.element_bytes)
    rows: list[ParallelStrategy] = []
    for mapping in mappings(operator, setting.mesh):
        rows += _variants(operator, setting, mapping, tiling, readers)
    if setting.micro_batches == 1:
        return undominated(rows)
    return undominated(rows, lambda row: storage_of(operator, setting, row))


@dataclass(frozen=True, slots=True)
class ParameterStorage:
    """Storage of an operator's parameters by a strategy between micro-batches.

    Parameters
    ----------
    layouts
        Layouts of each parameter.
    pending
        Axes along which the gradient of each is a pending sum; empty in inference.
    zero
        Level of ZeRO.
    """

    layouts: tuple[Layout, ...]
    pending: tuple[tuple[str, ...], ...]
    zero: int

    @property
    def text(self) -> str:
        """Text such as ``"2:x zero2"``, of all parameters that differ."""
        words = dict.fromkeys(layout.text for layout in self.layouts)
        sums = dict.fromkeys(axis for axes in self.pending for axis in axes)
        parts = [*words, *(f"sum:{axis}" for axis in sums)]
        return " ".join([*parts, f"zero{self.zero}"] if self.zero else parts)


def storage_of(operator: MeshOperator, setting: Setting, row: ParallelStrategy) -> ParameterStorage:
    """Return how a strategy stores the parameters of its operator."""
    return ParameterStorage(
        tuple(_layout(tensor, row.mapping) for tensor in operator.parameters),
        tuple(_missing(t, row.mapping) for t in operator.parameters if setting.training),
        row.zero,
    )


def undominated(
    candidates: Iterable[ParallelStrategy],
    apart: Callable[[ParallelStrategy], object] = lambda _: None,
) -> list[ParallelStrategy]:
    """Leave out strategies that another one with the same layouts dominates; first ties stay.

    Strategies with different values of ``apart`` are not compared.
    """
    rows = list(candidates)
    groups: dict[tuple[object, ...], list[int]] = {}
    for number, row in enumerate(rows):
        key = (row.reads, row.gradients, row.writes, row.takes, apart(row))
        groups.setdefault(key, []).append(number)
    selected: set[int] = set()
    for group in groups.values():
        least: int | None = None
        for number in sorted(group, key=lambda n: (rows[n].cost_ns, rows[n].memory.total, n)):
            if least is None or rows[number].memory.total < least:
                least = rows[number].memory.total
                selected.add(number)
    return [row for number, row in enumerate(rows) if number in selected]


def _variants(
    operator: MeshOperator, setting: Setting, mapping: Mapping, tiling: Tiling, readers: int
) -> Iterator[ParallelStrategy]:
    mesh, training = setting.mesh, setting.training
    reads = tuple(_input(t, mapping) for t in operator.inputs)
    gradients = tuple(_gradient(t, mapping) for t in operator.inputs if training)
    raw = written(operator.output, mapping)
    forward = compute_ns(operator, mesh, mapping)
    backward = operator.backward_passes * forward if training else 0
    inside = tuple(_exchanges(operator, setting, mapping))
    for writes in _written(tiling, raw, readers):
        resolving = tuple(_resolving(tiling, setting, raw, writes))
        for level in _levels(operator, setting, mapping):
            yield ParallelStrategy(
                mapping,
                reads,
                gradients,
                writes,
                writes.summed,
                forward,
                backward,
                (*inside, *resolving, *_weights(operator, setting, mapping, level)),
                _memory(operator, setting, mapping, writes, level),
                level,
            )


# -- layouts -------------------------------------------------------------------------------------


def _parts(mesh: Mesh, mapping: Mapping, loops: Iterable[str]) -> int:
    split_loops = set(loops)
    return mesh.parts(axis for axis, loop in mapping if loop in split_loops)


def _layout(tensor: Tensor, mapping: Mapping) -> Layout:
    """Return the layout by the mapping's splits of its loops; outer loops come first."""
    return Layout(
        tuple(
            tuple(axis for loop in dim.loops for axis, mapped in mapping if mapped == loop)
            for dim in tensor.dims
        )
    )


def _input(tensor: Tensor, mapping: Mapping) -> Layout:
    pending = tuple(axis for axis, loop in mapping if loop == SUM and tensor.term)
    return Layout(_layout(tensor, mapping).dims, pending)


def _missing(tensor: Tensor, mapping: Mapping) -> tuple[str, ...]:
    """Return axes that split loops which do not run over the tensor."""
    return tuple(axis for axis, loop in mapping if loop != SUM and loop not in tensor.loops)


def _gradient(tensor: Tensor, mapping: Mapping) -> Layout:
    """Return the gradient's layout: pending along axes of missing loops (or pending terms)."""
    pending = tuple(
        axis
        for axis, loop in mapping
        if (not tensor.term if loop == SUM else loop not in tensor.loops)
    )
    return Layout(_layout(tensor, mapping).dims, pending)


def written(tensor: Tensor, mapping: Mapping) -> Layout:
    """Return the layout of a written tensor: a sum along axes of loops that it lacks."""
    pending = tuple(axis for axis, loop in mapping if loop == SUM or loop not in tensor.loops)
    return Layout(_layout(tensor, mapping).dims, pending)


def _written(tiling: Tiling, raw: Layout, readers: int) -> Iterator[Layout]:
    """Yield the raw layout, and where it matters those in which its sums are resolved."""
    if readers:
        yield raw
    if not readers and not raw.partial:
        yield raw
    if not raw.partial or readers == 1:
        return
    seen, queue = {raw}, [raw]
    for layout in queue:  # grows while it is read
        for step in tiling.steps(layout):
            if step.kind in ("reduce", "scatter") and step.layout not in seen:
                seen.add(step.layout)
                queue.append(step.layout)
                if not step.layout.partial:
                    yield step.layout


# -- costs ---------------------------------------------------------------------------------------


def compute_ns(operator: MeshOperator, mesh: Mesh, mapping: Mapping) -> int:
    """Return the forward time of one device's share: its flops, or the bytes it touches."""
    splits = mesh.parts(axis for axis, loop in mapping if loop != SUM)
    touched = sum(_local_bytes(t, mesh, mapping) for t in (*operator.inputs, operator.output))
    if not operator.gathered:
        touched += sum(_local_bytes(t, mesh, mapping) for t in operator.parameters)
    element = operator.output.element_bytes
    touched += ceil_div(operator.moved_elements * element, splits)
    return roofline_ns(mesh.device, ceil_div(operator.flops, splits), touched)


def _local_bytes(tensor: Tensor, mesh: Mesh, mapping: Mapping) -> int:
    parts = _layout(tensor, mapping).parts(mesh)
    return tensor.elements * tensor.element_bytes // parts


def _exchanges(operator: MeshOperator, setting: Setting, mapping: Mapping) -> Iterator[Collective]:
    for one in operator.exchanges:
        axes = tuple(axis for axis, loop in mapping if loop == one.loop)
        if not axes:
            continue
        size = ceil_div(one.elements * one.element_bytes, _parts(setting.mesh, mapping, one.loops))
        once = exchange_ns(setting.mesh, one, axes, size)
        for times, backward in ((one.forward, False), (one.backward, True)):
            if times and (setting.training or not backward):
                why = f"{times} x {one.loop}"
                yield Collective(one.kind, axes, size, times * once, why, backward)


def exchange_ns(mesh: Mesh, one: Exchange, axes: tuple[str, ...], size: int) -> int:
    """Return the ticks of one exchange of ``size`` bytes per device."""
    if one.kind == "all_reduce":
        return mesh.all_reduce_ns(axes, size)
    along = [mesh.by_name[axis] for axis in axes]
    return max(2 * point_to_point_ns(axis.link, size) for axis in along)


def _resolving(
    tiling: Tiling, setting: Setting, raw: Layout, writes: Layout
) -> Iterator[Collective]:
    """Yield the sum of the output, and the collectives of its gradient."""
    if raw == writes:
        return
    size = tiling.local_bytes(raw)
    moves = [(raw, writes, "output")]
    if setting.training:
        moves.append((writes, raw.summed, "output gradient"))
    for number, (before, after, why) in enumerate(moves):
        ticks = tiling.change_ns(before, after)
        assert ticks is not None
        kinds = "+".join(step.kind for step in tiling.path(before, after) or ())
        if ticks:
            yield Collective(kinds, raw.partial, size, ticks, why, number > 0)


# -- weights -------------------------------------------------------------------------------------


def _replicas(tensor: Tensor, mesh: Mesh, mapping: Mapping) -> tuple[str, ...]:
    """Return axes along which all devices hold the same part of a parameter."""
    used = set(_layout(tensor, mapping).axes)
    return tuple(axis.name for axis in mesh.axes if axis.name not in used)


def _levels(operator: MeshOperator, setting: Setting, mapping: Mapping) -> list[int]:
    """Return the distinct levels of ZeRO: others only where something is replicated."""
    shared = any(_replicas(t, setting.mesh, mapping) for t in operator.parameters)
    if not shared:
        return [0]
    useful = ZERO_LEVELS if setting.training else (0, 3)
    return [level for level in useful if level == 0 or level in setting.zero_levels]


def _weights(
    operator: MeshOperator, setting: Setting, mapping: Mapping, level: int
) -> Iterator[Collective]:
    """Yield sums of weight gradients, and gathering of shared state; equal tensors at once."""
    mesh, training = setting.mesh, setting.training
    bundles: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
    for tensor in operator.parameters:
        key = (_missing(tensor, mapping), _replicas(tensor, mesh, mapping))
        elements = tensor.elements // _layout(tensor, mapping).parts(mesh)
        bundles[key] = bundles.get(key, 0) + elements
    for (summed, replicas), elements in bundles.items():
        weights = elements * (training.weight if training else operator.output.element_bytes)
        if training and summed:
            kind = "reduce_scatter" if level else "all_reduce"
            reduce = mesh.reduce_scatter_ns if level else mesh.all_reduce_ns
            size = elements * training.gradient
            ticks = reduce(summed, size)
            yield Collective(kind, summed, size, ticks, "weight gradient", True, level < 2)
        if level and replicas:
            ticks = mesh.all_gather_ns(replicas, weights)
            if level == 3:
                yield Collective("all_gather", replicas, weights, ticks, "weights")
            if training:
                often = level == 3
                yield Collective("all_gather", replicas, weights, ticks, "weights", True, not often)


def _memory(
    operator: MeshOperator, setting: Setting, mapping: Mapping, writes: Layout, level: int
) -> Memory:
    mesh, training, output = setting.mesh, setting.training, operator.output
    weights = gradients = state = 0
    for tensor in operator.parameters:
        elements = tensor.elements // _layout(tensor, mapping).parts(mesh)
        replicas = mesh.parts(_replicas(tensor, mesh, mapping))
        share = resident_bytes(elements, replicas, level, training)
        weights, gradients, state = weights + share[0], gradients + share[1], state + share[2]
    made = output.elements * output.element_bytes // writes.parts(mesh)
    splits = mesh.parts(axis for axis, loop in mapping if loop != SUM)
    saved = ceil_div(operator.saved_elements * output.element_bytes, splits) if training else 0
    return Memory(weights, gradients, state, made, saved)
