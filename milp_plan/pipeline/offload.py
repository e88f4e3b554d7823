"""Pipelines whose activations may leave to the host and come back, as ordinary problems.

No law is added. Every device ``d`` gets a host ``host-d`` without memory limit, joined by two
channels: the outbound lane and the inbound lane, each carrying one transfer at a time. For every
forward operator one operator of no length, of kind ``hold``, reads the activations that the
forward pass leaves for the backward pass and makes them anew for those who read them. It has two
places: on the device at the stop of the forward pass (the activation stays: the old copy ends
when the new one begins, since intervals are half-open), or on the host (it travels out, frees the
device when it has left, and takes memory again from the start of the journey back).

Source: the lanes are those of PipeOffload (arXiv 2503.01328) and OptPipe (arXiv 2510.05186); the
decision per stage and micro-batch is theirs too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from .template import BACKWARD, FORWARD, JOINT, Template, pipeline_problem

HOLD = "hold"
"""Kind of operators that keep an activation or send it to the host."""

HOST = "host-"
"""Prefix of the host of a device."""

_INSTANT = 10**18
"""Bandwidth of lanes of which only the ticks count: what travels there has no payload."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """How fast activations leave and return, the same for every device.

    Parameters
    ----------
    out_ns, back_ns
        Ticks per journey, whatever it carries; positive unless there is a bandwidth.
    bytes_per_s
        Bytes per 10^9 ticks in each direction; ``None`` when only the ticks count.
    """

    out_ns: int
    back_ns: int
    bytes_per_s: int | None = None


def offload_problem(
    name: str,
    template: Template,
    routes: Sequence[Route],
    lanes: Lanes,
    *,
    memory_bytes: Sequence[int | None] | int | None = None,
    objective: Objective = Objective.MAKESPAN,
) -> PlanningProblem:
    """Unroll a template as :func:`pipeline_problem` does, with a host beside every device.

    Transfers between stages hold their channel, as the lanes do. Input gradients read all the
    activations of their stage and micro-batch, weight gradients those that are kept for them.

    Raises
    ------
    ValueError
        As :func:`pipeline_problem`.
    """
    template = replace(template, transfers=CommunicationModel.CHANNEL)
    problem = pipeline_problem(
        name, template, routes, memory_bytes=memory_bytes, objective=objective
    )
    return with_lanes(problem, lanes)


def chain_problem(
    name: str,
    layers: int,
    times: tuple[int, int],
    lanes: Lanes,
    *,
    memory_bytes: int | None,
    activation_bytes: int = 1,
    time_scale: int = 1,
) -> PlanningProblem:
    """One device, one micro-batch, a chain of layers: forward through all, backward through all.

    Layer i makes activation i, which the next layer and the backward passes of layers i and i + 1
    read (its output, and the input of the next one).

    Parameters
    ----------
    name, layers
        What to build.
    times
        Ticks of a layer's forward and backward pass.
    lanes, memory_bytes, activation_bytes
        Of the only device.
    time_scale
        Ticks per unit of time.
    """
    forward, backward = times

    def operator(letter: str, kind: str, layer: int, ticks: int) -> Operator:
        option = Option("run", {"d0": ticks})
        return Operator(f"{letter}{layer}@0", (option,), kind, None, 0, f"layer {layer}")

    operators, values = [], []
    for layer in range(1, layers + 1):
        operators.append(operator("F", FORWARD, layer, forward))
        operators.append(operator("B", JOINT, layer, backward))
        readers = (f"F{layer + 1}@0", f"B{layer + 1}@0") if layer < layers else ()
        readers = (*readers, f"B{layer}@0")
        values.append(Value(f"a{layer}@0", f"F{layer}@0", readers, {"full": activation_bytes}))
        if layer > 1:
            edge = (f"B{layer - 1}@0",)
            values.append(Value(f"x{layer}@0", f"B{layer}@0", edge, {"full": 0}))
    cluster = Cluster((DeviceClass("d0", memory_bytes),), (Device("d0", "d0", memory_bytes),))
    problem = PlanningProblem(
        name,
        ComputationGraph(tuple(operators), tuple(values)),
        cluster,
        units=Units("unspecified", "unspecified", time_scale),
    )
    return with_lanes(problem, lanes)


def with_lanes(problem: PlanningProblem, lanes: Lanes) -> PlanningProblem:
    """Add a host to every device, and a hold to every forward operator that leaves activations.

    Parameters
    ----------
    problem
        Each operator runs on one device.
    lanes
        Speed of the lanes.
    """
    graph, cluster = problem.graph, problem.cluster
    place = {op.name: problem.placements(op.name)[0].devices[0] for op in graph.operators}
    operators: list[Operator] = []
    changed: dict[str, tuple[Value, ...]] = {}
    for operator in graph.operators:
        operators.append(operator)
        if operator.kind == FORWARD:
            hold = _hold(problem, operator, place, changed, lanes)
            if hold is not None:
                operators.append(hold)
    values = [v for value in graph.values for v in changed.get(value.name, (value,))]
    rate = _INSTANT if lanes.bytes_per_s is None else lanes.bytes_per_s
    hosts = [HOST + device for device in cluster.device_names]
    cluster = replace(
        cluster,
        device_classes=(*cluster.device_classes, *(DeviceClass(host, None) for host in hosts)),
        devices=(*cluster.devices, *(Device(host, host, None) for host in hosts)),
        channels=(
            *cluster.channels,
            *(Channel(d, HOST + d, lanes.out_ns, rate) for d in cluster.device_names),
            *(Channel(HOST + d, d, lanes.back_ns, rate) for d in cluster.device_names),
        ),
        communication=CommunicationModel.CHANNEL,
    )
    return replace(
        problem, graph=ComputationGraph(tuple(operators), tuple(values)), cluster=cluster
    )


def _hold(
    problem: PlanningProblem,
    forward: Operator,
    place: dict[str, str],
    changed: dict[str, tuple[Value, ...]],
    lanes: Lanes,
) -> Operator | None:
    """Return the hold of a forward operator; its values are split into before and after."""
    graph, device = problem.graph, place[forward.name]

    def far(value: Value) -> list[str]:
        """Readers of the backward pass on the same device."""
        return [
            c for c in value.consumers
            if place[c] == device and graph.operator(c).kind != FORWARD
        ]  # fmt: skip

    outputs = graph.outputs[forward.name]
    gradients = [
        c for value in outputs for c in far(value)
        if graph.operator(c).kind in (BACKWARD, JOINT)
    ]  # fmt: skip
    number = len(changed)
    base, _, batch = forward.name.removeprefix("F").partition("@")
    name = f"O{base}@{batch}"
    for value in outputs:
        readers = far(value)
        if not readers or not any(value.bytes.values()):
            continue
        near = tuple(c for c in value.consumers if c not in readers)
        label, _, suffix = value.name.partition("@")
        after = tuple(dict.fromkeys([*gradients, *readers]))
        load = {} if lanes.bytes_per_s is not None else dict.fromkeys(value.bytes, 0)
        left = replace(value, consumers=(*near, name), transfer_bytes=load)
        changed[value.name] = (
            left,
            replace(left, name=f"{label}'@{suffix}", producer=name, consumers=after),
        )
    if len(changed) == number:
        return None
    classes = problem.cluster.device(device).device_class
    option = Option(HOLD, {classes: 0, HOST + device: 0})
    return Operator(name, (option,), HOLD, None, forward.micro_batch, forward.block)
