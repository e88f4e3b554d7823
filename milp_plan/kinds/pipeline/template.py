"""A pipeline as data: stages with costs, unrolled over micro-batches into a planning problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm

from milp_plan.core import (
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    Objective,
    Operator,
    Option,
    PlanningProblem,
    Units,
    Value,
)

from .placement import Route

FORWARD, BACKWARD, WEIGHT = "forward", "backward-input", "backward-weight"
"""Kinds of operators; a joint backward (input and weight gradient in one) is ``backward``."""
JOINT = "backward"

_INSTANT = 10**18
"""Bandwidth of channels that carry no bytes: only their latency counts."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Costs of one stage for one micro-batch, in ticks and bytes.

    Parameters
    ----------
    forward_ticks, backward_ticks, weight_ticks
        Forward pass, gradient of the input, gradient of the weights.
    backward_bytes
        Activations held from the start of the forward pass to the end of the input gradient.
    weight_bytes
        Activations held from the start of the forward pass to the end of the weight gradient.
    gradient_bytes
        Bytes held from the start of the input gradient to the end of the weight gradient.
    parameter_bytes
        Bytes of weights (with their gradients and optimizer state), held all the time.
    workspace_bytes
        Bytes held during the weight gradient alone, where it is an operator of its own.
    """

    forward_ticks: int
    backward_ticks: int
    weight_ticks: int
    backward_bytes: int = 0
    weight_bytes: int = 0
    gradient_bytes: int = 0
    parameter_bytes: int = 0
    workspace_bytes: int = 0


@dataclass(frozen=True)
class Template:
    """A pipeline before it is placed.

    Parameters
    ----------
    stages
        In the order of the forward pass; they may differ (embedding, output layer).
    micro_batches
        Number of micro-batches per step.
    transfer_ticks
        Ticks from one device to another, either way; 0 on the same device.
    joint_backward
        Whether one operator makes both gradients: the input gradient waits for the other one.
    transfers
        ``DELAY``: a transfer takes time and holds nothing; ``CHANNEL``: it holds its directed
        channel, one at a time.
    units
        Unit of a tick.
    workspace_bytes
        Bytes of each device that are always in use, whatever it runs.
    """

    stages: tuple[Stage, ...]
    micro_batches: int
    transfer_ticks: int = 0
    joint_backward: bool = False
    transfers: CommunicationModel = CommunicationModel.DELAY
    units: Units = field(default_factory=Units)
    workspace_bytes: int = 0


def uniform(
    devices: int,
    micro_batches: int,
    times: tuple[Fraction | int, Fraction | int, Fraction | int] = (1, 1, 1),
    *,
    transfer: Fraction | int = 0,
    chunks: int = 1,
    freed_at_backward: Fraction | int = 0,
    joint_backward: bool = False,
) -> tuple[Template, int]:
    """Return a template of equal stages, and the bytes that stand for one activation.

    Parameters
    ----------
    devices, micro_batches
        Sizes; the template has ``devices * chunks`` stages.
    times
        F, B and W of one micro-batch on **one device's share** of the model; a stage takes
        1/chunks of it.
    transfer
        Time between neighbouring stages on different devices.
    chunks
        Stages per device.
    freed_at_backward
        Part of an activation that is released when the input gradient is done (the rest stays to
        the end of the weight gradient).
    joint_backward
        See :class:`Template`.

    Returns
    -------
    template, activation_bytes
        Ticks per unit of time are ``template.units.time_scale``; one device's share of the
        activations of one micro-batch counts ``activation_bytes``.
    """
    split = Fraction(freed_at_backward)
    shares = [Fraction(time) / chunks for time in times]
    scale = lcm(*(number.denominator for number in [*shares, Fraction(transfer)]))
    forward, backward, weight = (int(share * scale) for share in shares)
    activation = chunks * split.denominator
    early = int(activation * split) // chunks
    stage = Stage(forward, backward, weight, early, activation // chunks - early)
    template = Template(
        stages=(stage,) * (devices * chunks),
        micro_batches=micro_batches,
        transfer_ticks=int(Fraction(transfer) * scale),
        joint_backward=joint_backward,
        units=Units(time="unspecified", size="unspecified", time_scale=scale),
    )
    return template, activation


def pipeline_problem(
    name: str,
    template: Template,
    routes: Sequence[Route] | None,
    *,
    devices: int | None = None,
    memory_bytes: Sequence[int | None] | int | None = None,
    objective: Objective = Objective.MAKESPAN,
    provenance: Mapping[str, str] | None = None,
) -> PlanningProblem:
    """Return a template unrolled over its micro-batches.

    Operators are ``F3@5``, ``B3@5`` and ``W3@5`` for stage 3 of micro-batch 5. With several
    routes the first micro-batches take the first one, in equal parts.

    Parameters
    ----------
    name, template
        Name of the problem, and its template.
    routes
        Routes of a placement family; ``None`` leaves every stage free to choose its device
        (all micro-batches of a stage run on the same one).
    devices
        Number of devices; by default as many as the routes name.
    memory_bytes
        Limit of every device, or one per device.
    objective
        Makespan, or span.
    provenance
        Provenance of the problem.

    Raises
    ------
    ValueError
        Routes and template do not fit together.
    """
    ways = [None] if routes is None else list(routes)
    for route in ways:
        if route is not None and len(route) != len(template.stages):
            raise ValueError(f"a route has {len(route)} stages, expected {len(template.stages)}")
    if devices is None:
        if routes is None:
            raise ValueError("devices is missing: without routes nothing says how many there are")
        devices = 1 + max(d for route in routes for d in route)
    if template.micro_batches < 1:
        raise ValueError(f"micro_batches is {template.micro_batches}, expected at least 1")
    limits = [memory_bytes] * devices if not isinstance(memory_bytes, Sequence) else memory_bytes
    if len(limits) != devices:
        raise ValueError(f"{len(limits)} memory limits for {devices} devices")
    graph = _graph(template, ways, devices)
    return PlanningProblem(
        name=name,
        graph=graph,
        cluster=_cluster(template, devices, limits),
        objective=objective,
        units=template.units,
        provenance=dict(provenance or {}),
    )


def _cluster(template: Template, devices: int, limits: Sequence[int | None]) -> Cluster:
    names = [f"d{number}" for number in range(devices)]
    return Cluster(
        device_classes=tuple(DeviceClass(n, limit) for n, limit in zip(names, limits, strict=True)),
        devices=tuple(Device(n, n, limit) for n, limit in zip(names, limits, strict=True)),
        channels=tuple(
            Channel(a, b, template.transfer_ticks, _INSTANT) for a in names for b in names if a != b
        ),
        communication=template.transfers,
    )


def _graph(template: Template, ways: Sequence[Route | None], devices: int) -> ComputationGraph:
    operators: list[Operator] = []
    values: list[Value] = []
    readers: dict[int, list[str]] = {s: [] for s in range(len(template.stages))}
    for batch in range(template.micro_batches):
        way = batch * len(ways) // template.micro_batches
        for index in readers:
            route = ways[way]
            places = range(devices) if route is None else [route[index]]
            made = _stage_operators(template, index, batch, places, f"stage {index}/{way}")
            operators += made
            values += _stage_values(template, index, batch)
            readers[index] += [operator.name for operator in made]
    for index, stage in enumerate(template.stages):
        if stage.parameter_bytes:
            size = {"full": stage.parameter_bytes}
            values.append(Value(f"weights {index}", None, tuple(readers[index]), size))
    if template.workspace_bytes:
        every = tuple(name for names in readers.values() for name in names)
        values.append(Value("workspace", None, every, {"full": template.workspace_bytes}))
    return ComputationGraph(tuple(operators), tuple(values))


def _stage_operators(
    template: Template, index: int, batch: int, places: Iterable[int], group: str
) -> list[Operator]:
    stage = template.stages[index]
    classes = [f"d{place}" for place in places]

    def operator(letter: str, kind: str, ticks: int, workspace: int = 0) -> Operator:
        option = Option("run", dict.fromkeys(classes, ticks), workspace_bytes=workspace)
        return Operator(f"{letter}{index}@{batch}", (option,), kind, group, batch, f"stage {index}")

    forward = operator("F", FORWARD, stage.forward_ticks)
    if template.joint_backward:
        return [forward, operator("B", JOINT, stage.backward_ticks + stage.weight_ticks)]
    backward = operator("B", BACKWARD, stage.backward_ticks)
    return [forward, backward, operator("W", WEIGHT, stage.weight_ticks, stage.workspace_bytes)]


def _stage_values(template: Template, index: int, batch: int) -> list[Value]:
    stage = template.stages[index]
    last = index == len(template.stages) - 1

    def value(label: str, producer: str, readers: Sequence[str], size: int) -> Value:
        read = tuple(f"{reader}@{batch}" for reader in readers)
        return Value(f"{label}{index}@{batch}", f"{producer}@{batch}", read, {"full": size})

    f, b, w = (f"{letter}{index}" for letter in "FBW")
    early, late = stage.backward_bytes, stage.weight_bytes
    if template.joint_backward:
        early, late = early + late, 0
    values = [value("a", f, [b], early)]
    if not template.joint_backward:
        values.append(value("g", b, [w], stage.gradient_bytes))
        if late:
            values.append(value("s", f, [b, w], late))
    if not last:
        values.append(value("y", f, [f"F{index + 1}"], 0))
    if index > 0:
        values.append(value("x", b, [f"B{index - 1}"], 0))
    return values
