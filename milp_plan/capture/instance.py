"""From a captured graph to a planning problem.

=================================== ============================================================
kernels of a module or block        an operator: forward, backward for inputs or for weights
storage                             a value of its bytes, whatever views there are of it
parameter, buffer, input            a persistent value; tied parameters once
storage born and dead in an operator its workspace: the peak in captured order
parameters of a module              an operator ``.U`` that updates them, with persistent state
readers and updater of a parameter, one colocation group, with what makes its gradient
trained
=================================== ============================================================

An operator takes the sum of its fused kernels: for each the larger of the time to compute and the
time to move bytes, plus the launch (``milp_plan.cost.roofline``). Rates are those of the device
class, whatever type of numbers the model uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

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
from milp_plan.cost import DeviceSpec, device_spec, roofline_ns
from milp_plan.io.capture_wire import Capture, Storage

from .fuse import alone, fused
from .merge import Part, merged
from .passes import BACKWARD_INPUT, BACKWARD_WEIGHT, FORWARD, block_of
from .record import ELEMENT_BYTES, fingerprint, made_by, read_by
from .work import bytes_read, coverage, flops_of, require_known

GENERATOR_VERSION = "1"
"""Raised when the same captured graph gives another problem."""

SUFFIXES = {FORWARD: "F", BACKWARD_INPUT: "B", BACKWARD_WEIGHT: "W"}
"""Kind -> end of an operator's name."""


@dataclass(frozen=True)
class Optimizer:
    """What an optimizer keeps for each parameter of up to 2 bytes, and of more.

    Parameters
    ----------
    moments
        Numbers of 4 bytes it keeps besides the parameter.
    """

    moments: int

    def state_bytes(self, element: int) -> int:
        """Bytes per parameter kept between steps; short ones have a master copy of 4 bytes."""
        return 4 * (self.moments + (element < 4))

    def moved_bytes(self, element: int) -> int:
        """Bytes per parameter read and written: gradient, state twice, parameter."""
        state = 2 * self.state_bytes(element)
        return element + state + (element if element < 4 else 2 * element)


OPTIMIZERS = {"adamw": Optimizer(2), "momentum": Optimizer(1), "sgd": Optimizer(0)}
"""Name -> what it keeps. AdamW of float32: 8 bytes of state, 28 moved per parameter."""


def instance(
    capture: Capture,
    cluster: Cluster,
    *,
    granularity: str = "block",
    optimizer: str = "adamw",
    fuse: bool = True,
    objective: Objective = Objective.MAKESPAN,
    name: str | None = None,
) -> PlanningProblem:
    """Build the planning problem of a captured graph.

    Parameters
    ----------
    capture
        The graph.
    cluster
        Where it shall run; device classes must be named ones (``milp_plan.cost.DEVICES``).
    granularity
        ``"kernel"``, ``"module"`` or ``"block"``.
    optimizer
        One of :data:`OPTIMIZERS`; counts for training only.
    fuse
        Whether chains of elementwise kernels run as one, as compiled; else as in eager PyTorch.
    objective, name
        Of the problem.

    Raises
    ------
    InputError
        Unknown granularity, optimizer, device class, or an operator without formula.
    """
    require_known(capture)
    if optimizer not in OPTIMIZERS:
        expected = f"one of {', '.join(OPTIMIZERS)}"
        raise InputError([Finding("optimizer", repr(optimizer), expected, "correct it")])
    units = fused(capture) if fuse else alone(capture)
    draft = _Draft(capture, cluster, merged(capture, units, granularity), granularity)
    if capture.mode == "training":
        draft.updates(OPTIMIZERS[optimizer])
    told = {
        "granularity": granularity,
        "kernels": "fused" if fuse else "as in eager PyTorch",
        **({"optimizer": optimizer} if capture.mode == "training" else {}),
    }
    title = name or f"{capture.name}-{capture.mode}"
    provenance = _provenance(capture, cluster) | told
    return PlanningProblem(title, draft.graph(), cluster, objective, provenance=provenance)


class _Draft:
    """Operators and values while they are put together."""

    def __init__(
        self, capture: Capture, cluster: Cluster, parts: Sequence[Part], granularity: str
    ) -> None:
        self.capture = capture
        self.specs = [device_spec(entry.name) for entry in cluster.device_classes]
        self.granularity = granularity
        self.parts = parts
        self.sizes = [storage.bytes for storage in capture.storages]
        self.readers = read_by(capture)
        self.made = made_by(capture)
        self.kept = {result.storage for result in capture.results}
        self.names = self._names()
        self.part_of = {place: part for part, own in enumerate(parts) for place in own.kernels}
        self.operators = [
            self._operator(part, name) for part, name in zip(parts, self.names, strict=True)
        ]
        self.consumers = [
            list(dict.fromkeys(self.names[self.part_of[place]] for place in places))
            for places in self.readers.values()
        ]
        self.states: list[Value] = []

    # operators -----------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        taken: dict[str, int] = {}
        names = []
        for part in self.parts:
            label = part.label or "model"
            if self.granularity == "kernel":
                name = f"{label}/{self.capture.kernels[part.kernels[-1]].name}"
            else:
                name = f"{label}.{SUFFIXES[part.kind]}"
            taken[name] = taken.get(name, 0) + 1
            names.append(name if taken[name] == 1 else f"{name}.{taken[name]}")
        return names

    def _operator(self, part: Part, name: str) -> Operator:
        durations = dict.fromkeys((spec.name for spec in self.specs), 0)
        for unit in part.units:
            kernels = [self.capture.kernels[place] for place in unit]
            flops = sum(flops_of(kernel) or 0 for kernel in kernels)
            moved = self._moved(unit)
            for spec in self.specs:
                durations[spec.name] += roofline_ns(spec, flops, moved)
        option = Option("one", durations, workspace_bytes=self._workspace(part))
        return Operator(name, (option,), part.kind, block=_block_label(part.label))

    def _moved(self, unit: tuple[int, ...]) -> int:
        """Bytes that kernels run as one read from outside and leave for others."""
        own = {storage for storage, place in self.made.items() if place in unit}
        read = bytes_read((self.capture.kernels[place] for place in unit), self.sizes)
        inside = set(unit)
        outside = sum(size for storage, size in read.items() if storage not in own)
        left = sum(
            self.sizes[storage]
            for storage in own
            if storage in self.kept or not inside.issuperset(self.readers[storage])
        )
        return outside + left

    def _internal(self, storage: int) -> bool:
        """Whether nothing outside the operator that makes it reads a storage."""
        part = self.part_of[self.made[storage]]
        return storage not in self.kept and all(
            self.part_of[place] == part for place in self.readers[storage]
        )

    def _workspace(self, part: Part) -> int:
        """Largest sum of storages that live and die in an operator, in captured order."""
        places = set(part.kernels)
        changes: dict[int, int] = {}
        for storage, place in self.made.items():
            if place not in places or storage in self.kept:
                continue
            readers = self.readers[storage]
            if places.issuperset(readers):
                changes[place] = changes.get(place, 0) + self.sizes[storage]
                last = max(readers, default=place)
                changes[last + 1] = changes.get(last + 1, 0) - self.sizes[storage]
        held = peak = 0
        for place in sorted(changes):
            held += changes[place]
            peak = max(peak, held)
        return peak

    # updates -------------------------------------------------------------------------------------

    def updates(self, optimizer: Optimizer) -> None:
        """Add an operator for each module (or block) that updates its parameters."""
        gradients: dict[int, set[int]] = {}
        for result in self.capture.results:
            if result.kind == "gradient" and result.of is not None:
                gradients.setdefault(result.of, set()).add(result.storage)
        owners: dict[str, dict[str, list[int]]] = {}
        for parameter in sorted(gradients):
            module = self.capture.storages[parameter].name.rpartition(".")[0]
            label = block_of(module) if self.granularity == "block" else module
            owners.setdefault(label, {}).setdefault(module, []).append(parameter)
        joined = _Joined()
        for label, modules in owners.items():
            name = f"{label or 'model'}.U"
            durations = dict.fromkeys((spec.name for spec in self.specs), 0)
            state = 0
            for parameters in modules.values():
                work = [self._update(self.capture.storages[p], optimizer) for p in parameters]
                state += sum(kept for kept, _ in work)
                for spec in self.specs:
                    durations[spec.name] += roofline_ns(spec, 0, sum(moved for _, moved in work))
            option = Option("one", durations)
            self.operators.append(Operator(name, (option,), UPDATE_KIND, block=_block_label(label)))
            if state:
                self.states.append(Value(f"{name}.state", None, (name,), {FULL: state}))
            for parameter in (p for parameters in modules.values() for p in parameters):
                joined.join(name, self.consumers[parameter])
                for storage in {parameter, *gradients[parameter]}:
                    if name not in self.consumers[storage]:
                        self.consumers[storage].append(name)
                    if storage in self.made:
                        joined.join(name, [self.names[self.part_of[self.made[storage]]]])
        self.operators = joined.grouped(self.operators)

    def _update(self, storage: Storage, optimizer: Optimizer) -> tuple[int, int]:
        """Bytes kept and bytes moved for a parameter."""
        element = ELEMENT_BYTES[storage.dtype]
        count = storage.bytes // element
        return count * optimizer.state_bytes(element), count * optimizer.moved_bytes(element)

    # values --------------------------------------------------------------------------------------

    def graph(self) -> ComputationGraph:
        """Return the graph."""
        values = []
        for place, storage in enumerate(self.capture.storages):
            producer = None
            consumers = self.consumers[place]
            if storage.kind == "result":
                if place not in self.made or self._internal(place):
                    continue
                producer = self.names[self.part_of[self.made[place]]]
                consumers = [name for name in consumers if name != producer]
            elif not consumers:
                continue
            values.append(Value(storage.name, producer, tuple(consumers), {FULL: storage.bytes}))
        return ComputationGraph(tuple(self.operators), (*values, *self.states))


class _Joined:
    """Sets of operators that share a device."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def join(self, name: str, others: Iterable[str]) -> None:
        """Put others where ``name`` is."""
        for other in others:
            self._parent[self._root(other)] = self._root(name)

    def _root(self, name: str) -> str:
        while self._parent.setdefault(name, name) != name:
            name = self._parent[name]
        return name

    def grouped(self, operators: Sequence[Operator]) -> list[Operator]:
        """Return the operators with their groups, each named after its first update."""
        names: dict[str, str] = {}
        for operator in operators:
            if operator.kind == UPDATE_KIND:
                names.setdefault(self._root(operator.name), operator.name.removesuffix(".U"))
        return [
            replace(operator, group=names[self._root(operator.name)])
            if operator.name in self._parent
            else operator
            for operator in operators
        ]


def _block_label(label: str) -> str | None:
    block = block_of(label)
    return block if block.rpartition(".")[2].isdecimal() else None


def _provenance(capture: Capture, cluster: Cluster) -> dict[str, str]:
    found = coverage(capture)
    types = sorted({s.dtype for s in capture.storages if s.kind == "parameter"})
    return {
        "generator": f"milp_plan.capture {GENERATOR_VERSION}",
        "model": capture.name,
        "captured with": f"PyTorch {capture.torch}",
        "captured graph": fingerprint(capture),
        "mode": capture.mode,
        "parameters": " ".join(types),
        "forward_flops": str(found.flops["forward"]),
        "backward_flops": str(found.flops["backward"]),
        **{f"device {spec.name}": _rates(spec) for spec in _specs(cluster)},
    }


def _specs(cluster: Cluster) -> list[DeviceSpec]:
    return [device_spec(entry.name) for entry in cluster.device_classes]


def _rates(spec: DeviceSpec) -> str:
    return (
        f"{spec.peak_flops_per_s} flop/s x {spec.compute_permille}/1000, "
        f"{spec.memory_bytes_per_s} byte/s x {spec.memory_permille}/1000, "
        f"{spec.launch_ns} ns per kernel"
    )
