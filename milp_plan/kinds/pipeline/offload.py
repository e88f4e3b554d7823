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

LISTED = "listed"
"""Layout of an input that the host has anyway: nothing of it has to travel there."""

_BYTE_A_TICK = 10**9
"""Bandwidth of lanes of which only the ticks count: as many bytes travel as the journey lasts."""


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
    time_scale: int = 1,
) -> PlanningProblem:
    """One device, one micro-batch, a chain of layers: forward through all, backward through all.

    Activation 0 is the input: on the device from the first instant, and on the host anyway, so it
    may be dropped there and then, and fetched for the last backward pass. Layer i reads activation
    i - 1 and makes activation i, one byte each; its backward pass reads activation i - 1 again.
    Nobody reads the last one after its layer. Gradients take no memory.

    Parameters
    ----------
    name, layers
        What to build.
    times
        Ticks of a layer's forward and backward pass.
    lanes, memory_bytes
        Of the only device; without a bandwidth.
    time_scale
        Ticks per unit of time.
    """
    size = {"full": 1}
    operators, values = [], []
    for layer in range(1, layers + 1):
        for letter, kind, ticks in zip("FB", (FORWARD, JOINT), times, strict=True):
            option = Option("run", {"d0": ticks})
            at = f"{letter}{layer}@0"
            operators.append(Operator(at, (option,), kind, None, 0, f"layer {layer}"))
        near = () if layer == layers else (f"F{layer + 1}@0", f"B{layer + 1}@0")
        # The published chains let go of what the last layer makes.
        values.append(Value(f"a{layer}@0", f"F{layer}@0", near, size, kept=False))
        if layer > 1:
            values.append(Value(f"x{layer}@0", f"B{layer}@0", (f"B{layer - 1}@0",), {"full": 0}))
    values.append(Value("loss@0", f"F{layers}@0", (f"B{layers}@0",), {"full": 0}))
    cluster = Cluster((DeviceClass("d0", memory_bytes),), (Device("d0", "d0", memory_bytes),))
    problem = PlanningProblem(
        name,
        ComputationGraph(tuple(operators), tuple(values)),
        cluster,
        units=Units("unspecified", "unspecified", time_scale),
    )
    return _with_input(with_lanes(problem, lanes), lanes)


def _with_input(chain: PlanningProblem, lanes: Lanes) -> PlanningProblem:
    """Add the input of a chain, of which the host has a copy.

    The host reads it in a layout without bytes, so that it leaves in no time.
    """
    here, there = chain.cluster.device_names
    options = (
        Option(HOLD, {here: 0}),
        Option("drop", {there: 0}, reads={"a0@0": LISTED}),
    )
    hold = Operator("O0@0", options, HOLD, None, 0, "input")
    given = Value(
        "a0@0", "F1@0", ("O0@0",), {"full": 1, LISTED: 0}, reshard_ns={("full", LISTED): 0}
    )
    again = Value("a0'@0", "O0@0", ("B1@0",), {"full": 1}, transfer_bytes={"full": lanes.back_ns})
    graph = ComputationGraph((*chain.graph.operators, hold), (*chain.graph.values, given, again))
    return replace(chain, graph=graph)


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
    timed = lanes.bytes_per_s is None
    rate = _BYTE_A_TICK if lanes.bytes_per_s is None else lanes.bytes_per_s
    out_ns, back_ns = (0, 0) if timed else (lanes.out_ns, lanes.back_ns)
    hosts = [HOST + device for device in cluster.device_names]
    cluster = replace(
        cluster,
        device_classes=(*cluster.device_classes, *(DeviceClass(host, None) for host in hosts)),
        devices=(*cluster.devices, *(Device(host, host, None) for host in hosts)),
        channels=(
            *cluster.channels,
            *(Channel(d, HOST + d, out_ns, rate) for d in cluster.device_names),
            *(Channel(HOST + d, d, back_ns, rate) for d in cluster.device_names),
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
        if not readers or value.is_kept or not any(value.bytes.values()):
            continue
        near = tuple(c for c in value.consumers if c not in readers)
        label, _, suffix = value.name.partition("@")
        after = tuple(dict.fromkeys([*gradients, *readers]))
        copy = replace(value, name=f"{label}'@{suffix}", producer=name, consumers=after)
        given = replace(value, consumers=(*near, name))
        if lanes.bytes_per_s is None:
            given = replace(given, transfer_bytes={"full": lanes.out_ns})
            copy = replace(copy, transfer_bytes={"full": lanes.back_ns})
        changed[value.name] = (given, copy)
    if len(changed) == number:
        return None
    classes = problem.cluster.device(device).device_class
    option = Option(HOLD, {classes: 0, HOST + device: 0})
    return Operator(name, (option,), HOLD, None, forward.micro_batch, forward.block)
