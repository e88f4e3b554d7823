"""Every way to run an operator on a mesh, and what each costs.

A strategy maps each mesh axis to a loop it splits, or to nothing (all devices along it do the
same), or, for linear operators, to ``sum``: inputs are pending sums along that axis, and so is the
output. Splits must divide. From the mapping follow the layouts of all tensors, hence

* time to compute, the roofline of one device's share, forward and backward;
* collectives inside: exchanges of the operator, the sum of weight gradients over the axes that
  split loops the weights do not have (or what ZeRO does instead), and the sum of the output where
  the strategy resolves it itself;
* bytes that a device keeps (:mod:`.memory`).

An output may stay a pending sum; then whoever reads it pays for the sum on the edge, where
all-reduce and slice become a reduce-scatter. That is never dearer for a single reader; for several
ones there are also strategies that resolve it. Nobody reads the network's own output, which must
not be a pending sum. Gradients of inputs that are sums are always paid on the edge.
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
from .memory import ZERO_LEVELS, Memory, Training, kept_bytes
from .operators import Exchange, MeshOperator, Tensor

SUM = "sum"
"""Stands for a loop: inputs and output are pending sums along the axis."""

Mapping = tuple[tuple[str, str], ...]
"""(axis, loop) for each axis that is mapped."""


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective inside an operator.

    Parameters
    ----------
    kind, axes
        What, and along which axes.
    num_bytes, ticks
        Bytes of one, and ticks of all of them.
    why
        What it is for.
    backward
        Whether it belongs to the backward pass.
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
        What each axis splits.
    reads
        Layout of each input.
    gradients
        Layout in which the gradient of each input is made, sums pending; none in inference.
    writes
        Layout of the output.
    takes
        Layout in which the gradient of the output is needed.
    forward_ns, backward_ns
        Time to compute; the backward one is 0 in inference.
    collectives
        Inside the operator.
    memory
        Kept by each device.
    zero
        What replicas share.
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
        """The part of it that a step pays once, however many micro-batches it has."""
        return sum(one.ticks for one in self.collectives if one.once)

    def pass_ns(self, *, backward: bool) -> int:
        """Time of one pass, collectives included."""
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
    """What is common to all strategies of a problem.

    Parameters
    ----------
    mesh
        Where it runs.
    training
        Bytes per parameter of a training step; ``None`` for inference.
    zero_levels
        Levels of ZeRO to offer; level 0 is always there.
    micro_batches
        How often each operator runs in a step, one run after the other; weights stay as they are.
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
    """Every assignment of axes to loops that divides all tensors; nothing mapped comes first."""
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
    """Every strategy that no other one beats.

    Parameters
    ----------
    operator
        What runs.
    setting
        Where, and what for.
    readers
        Operators that read the output.

    Returns
    -------
    list of Strategy
        A strategy is left out only if another one has the same layouts everywhere, costs no more
        and keeps no more: whatever it can do, the other one can, so an optimum stays. With several
        micro-batches the other one also keeps its parameters in the same way.
    """
    made = operator.output
    tiling = Tiling(setting.mesh, made.extents, made.element_bytes)
    found: list[ParallelStrategy] = []
    for mapping in mappings(operator, setting.mesh):
        found += _variants(operator, setting, mapping, tiling, readers)
    if setting.micro_batches == 1:
        return undominated(found)
    return undominated(found, lambda row: keeping(operator, setting, row))


@dataclass(frozen=True, slots=True)
class Keeping:
    """How a strategy stores the parameters of its operator between micro-batches.

    Parameters
    ----------
    layouts
        Of each parameter.
    pending
        Axes along which the gradient of each is a pending sum; empty in inference.
    zero
        What replicas share.
    """

    layouts: tuple[Layout, ...]
    pending: tuple[tuple[str, ...], ...]
    zero: int

    @property
    def text(self) -> str:
        """Such as ``"2:x zero2"``, of all parameters that differ."""
        words = dict.fromkeys(layout.text for layout in self.layouts)
        sums = dict.fromkeys(axis for axes in self.pending for axis in axes)
        parts = [*words, *(f"sum:{axis}" for axis in sums)]
        return " ".join([*parts, f"zero{self.zero}"] if self.zero else parts)


def keeping(operator: MeshOperator, setting: Setting, row: ParallelStrategy) -> Keeping:
    """Return how a strategy stores the parameters of its operator."""
    return Keeping(
        tuple(_layout(tensor, row.mapping) for tensor in operator.parameters),
        tuple(_missing(t, row.mapping) for t in operator.parameters if setting.training),
        row.zero,
    )


def undominated(
    found: Iterable[ParallelStrategy], apart: Callable[[ParallelStrategy], object] = lambda _: None
) -> list[ParallelStrategy]:
    """Leave out strategies that another one with the same layouts beats; ties keep the first.

    Those for which ``apart`` says something else are not compared.
    """
    rows = list(found)
    groups: dict[tuple[object, ...], list[int]] = {}
    for number, row in enumerate(rows):
        key = (row.reads, row.gradients, row.writes, row.takes, apart(row))
        groups.setdefault(key, []).append(number)
    kept: set[int] = set()
    for group in groups.values():
        least: int | None = None
        for number in sorted(group, key=lambda n: (rows[n].cost_ns, rows[n].memory.total, n)):
            if least is None or rows[number].memory.total < least:
                least = rows[number].memory.total
                kept.add(number)
    return [row for number, row in enumerate(rows) if number in kept]


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
    asked = set(loops)
    return mesh.parts(axis for axis, loop in mapping if loop in asked)


def _layout(tensor: Tensor, mapping: Mapping) -> Layout:
    """Split as the mapping splits its loops; outer loops of a dimension first."""
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
    """Axes that split loops which do not run over the tensor."""
    return tuple(axis for axis, loop in mapping if loop != SUM and loop not in tensor.loops)


def _gradient(tensor: Tensor, mapping: Mapping) -> Layout:
    """Pending along axes of loops it lacks; that of a factor also where the terms are pending."""
    pending = tuple(
        axis
        for axis, loop in mapping
        if (not tensor.term if loop == SUM else loop not in tensor.loops)
    )
    return Layout(_layout(tensor, mapping).dims, pending)


def written(tensor: Tensor, mapping: Mapping) -> Layout:
    """Layout in which an operator writes a tensor: a sum along axes of loops that it lacks."""
    pending = tuple(axis for axis, loop in mapping if loop == SUM or loop not in tensor.loops)
    return Layout(_layout(tensor, mapping).dims, pending)


def _written(tiling: Tiling, raw: Layout, readers: int) -> Iterator[Layout]:
    """The raw layout, and where it matters those in which its sums are resolved."""
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
    """Forward time of one device's share: its flops, or the bytes it touches."""
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
    """Ticks of one exchange of ``size`` bytes per device."""
    if one.kind == "all_reduce":
        return mesh.all_reduce_ns(axes, size)
    along = [mesh.by_name[axis] for axis in axes]
    return max(2 * point_to_point_ns(axis.link, size) for axis in along)


def _resolving(
    tiling: Tiling, setting: Setting, raw: Layout, writes: Layout
) -> Iterator[Collective]:
    """Sum of the output, and what its gradient needs in return."""
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
    """Axes along which all devices hold the same part of a parameter."""
    used = set(_layout(tensor, mapping).axes)
    return tuple(axis.name for axis in mesh.axes if axis.name not in used)


def _levels(operator: MeshOperator, setting: Setting, mapping: Mapping) -> list[int]:
    """Levels of ZeRO that differ: only where something is replicated."""
    shared = any(_replicas(t, setting.mesh, mapping) for t in operator.parameters)
    if not shared:
        return [0]
    useful = ZERO_LEVELS if setting.training else (0, 3)
    return [level for level in useful if level == 0 or level in setting.zero_levels]


def _weights(
    operator: MeshOperator, setting: Setting, mapping: Mapping, level: int
) -> Iterator[Collective]:
    """Sum of weight gradients, and gathering of what replicas share; tensors alike in one go."""
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
        kept = kept_bytes(elements, replicas, level, training)
        weights, gradients, state = weights + kept[0], gradients + kept[1], state + kept[2]
    made = output.elements * output.element_bytes // writes.parts(mesh)
    splits = mesh.parts(axis for axis, loop in mapping if loop != SUM)
    saved = ceil_div(operator.saved_elements * output.element_bytes, splits) if training else 0
    return Memory(weights, gradients, state, made, saved)
