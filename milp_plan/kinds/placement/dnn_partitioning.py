"""Reader of the device placement benchmark of Tarnawski et al. (NeurIPS 2020).

Source: https://github.com/msr-fiddle/dnn-partitioning, MIT licence, arXiv 2006.16423. The files
are read as the benchmark's own problems (objective bottleneck or latency: the serial law), or,
on request, as makespan problems; see ``instances/formats/dnn-partitioning.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec

from milp_plan.core import (
    FULL,
    TICKS_PER_SECOND,
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    Finding,
    InputError,
    MemoryLaw,
    Objective,
    Operator,
    Option,
    PlanningProblem,
    Units,
    Value,
    exact_scale,
    to_ticks,
)
from milp_plan.io.defects import in_words
from milp_plan.io.files import Document
from milp_plan.io.goal import Goal
from milp_plan.io.wire import Count, decode

ACCELERATOR = "accelerator"
CPU = "cpu"

MAX_DEVICES = 1_000
"""Largest number of devices of one sort in a file."""

_Number = Count | Annotated[float, msgspec.Meta(ge=0)]

_WORDS = {"operator": "node", "operators": "nodes", "value": "edge", "values": "edges"}
"""Words of a problem and the words of these files for them."""

_PROVENANCE = {
    "source": "https://github.com/msr-fiddle/dnn-partitioning",
    "licence": "MIT, copyright Microsoft Corporation",
    "paper": "Tarnawski et al., Efficient Algorithms for Device Placement of DNN Graph Operators, "
    "NeurIPS 2020, arXiv 2006.16423",
}


class Node(msgspec.Struct, frozen=True, rename="camel"):
    """A node of the source; times in milliseconds, size in bytes."""

    id: int
    supported_on_fpga: bool | int
    cpu_latency: _Number
    fpga_latency: _Number
    size: _Number
    is_backward_node: bool | int = False
    color_class: int | None = None
    layer_id: int | None = None
    name: str | None = None


class Edge(msgspec.Struct, frozen=True, rename="camel"):
    """An edge of the source; its cost, in milliseconds, is that of the node it leaves."""

    source_id: int
    dest_id: int
    cost: _Number


class Workload(msgspec.Struct, frozen=True):
    """A file of the source; fields that planning does not need are ignored."""

    accelerators: Count = msgspec.field(name="maxFPGAs")
    cpus: Count = msgspec.field(name="maxCPUs")
    accelerator_bytes: _Number = msgspec.field(name="maxSizePerFPGA")
    nodes: list[Node]
    edges: list[Edge]


def read(document: Document, goal: Goal) -> PlanningProblem:
    """Read an input file of the benchmark (latency or throughput) for a goal.

    Times become exact integers: ``units.time_scale`` is the smallest scale that achieves it
    (ticks per millisecond).

    Raises
    ------
    InputError
        The file has defects; the error lists all of them.
    """
    workload = decode(document.data, Workload, document.file)
    findings = [*goal.findings(), *_size_findings(workload), *_edge_findings(workload)]
    if findings:
        raise InputError(findings).in_file(document.file)
    scale = exact_scale(
        [time for node in workload.nodes for time in (node.cpu_latency, node.fpga_latency)]
        + [edge.cost for edge in workload.edges]
    )
    try:
        with in_words(_WORDS):
            problem = _problem(workload, document.path, scale, goal)
        if goal == Goal():
            return problem
        return replace(problem, parent=_problem(workload, document.path, scale).fingerprint)
    except InputError as error:
        raise error.in_file(document.file) from None


def _problem(
    workload: Workload, path: Path, scale: int, goal: Goal | None = None
) -> PlanningProblem:
    goal = goal or Goal()
    objective = goal.objective or (
        Objective.BOTTLENECK if goal.about_serial_law else Objective.MAKESPAN
    )
    serial = objective in (Objective.BOTTLENECK, Objective.LATENCY)
    return PlanningProblem(
        _instance_name(path),
        _graph(workload, scale),
        _cluster(workload, objective),
        objective,
        MemoryLaw.STATIC if serial else MemoryLaw.INSTANT,
        serial=goal.law((ACCELERATOR,)) if serial else None,
        units=Units("ms", "bytes", scale),
        provenance={**_PROVENANCE, "file": path.name},
    )


def _size_findings(workload: Workload) -> Iterator[Finding]:
    for where, count in (("maxFPGAs", workload.accelerators), ("maxCPUs", workload.cpus)):
        if count > MAX_DEVICES:  # each has a channel to every other
            expected = f"at most {MAX_DEVICES:,} devices"
            yield Finding(where, f"{count}", expected, "name fewer")
    sizes = [("maxSizePerFPGA", workload.accelerator_bytes)]
    sizes += [(f"nodes[{i}].size", node.size) for i, node in enumerate(workload.nodes)]
    for where, size in sizes:
        if size != int(size):
            yield Finding(where, repr(size), "a whole number of bytes", "round it up")


def _edge_findings(workload: Workload) -> Iterator[Finding]:
    ids = Counter(node.id for node in workload.nodes)
    for position, node in enumerate(workload.nodes):
        if ids[node.id] > 1:
            found = f"{node.id} in {ids[node.id]} nodes"
            yield Finding(f"nodes[{position}].id", found, "unique numbers", "renumber the nodes")
    first: dict[int, int] = {}
    for position, edge in enumerate(workload.edges):
        for label, end in (("sourceId", edge.source_id), ("destId", edge.dest_id)):
            if end not in ids:
                where = f"edges[{position}].{label}"
                yield Finding(where, f"unknown node {end}", "the id of a node", "correct it")
        earlier = first.setdefault(edge.source_id, position)
        cost = workload.edges[earlier].cost
        if edge.cost != cost:
            yield Finding(
                f"edges[{position}].cost",
                repr(edge.cost),
                f"{cost!r}, the cost of edges[{earlier}], which leaves the same node",
                "give all edges of a node one cost",
            )


def _graph(workload: Workload, scale: int) -> ComputationGraph:
    names = names_of(workload)
    consumers: dict[int, dict[str, None]] = {node.id: {} for node in workload.nodes}
    cost = dict.fromkeys(consumers, 0)
    for edge in workload.edges:
        consumers[edge.source_id][names[edge.dest_id]] = None
        cost[edge.source_id] = to_ticks(edge.cost, scale)
    values: list[Value] = []
    for node in workload.nodes:
        name = names[node.id]
        if node.size:
            values.append(Value(f"{name}:held", None, (name,), {FULL: int(node.size)}))
        if consumers[node.id]:
            readers = tuple(consumers[node.id])
            values.append(Value(f"{name}:out", name, readers, {FULL: 0}, {FULL: cost[node.id]}))
    operators = tuple(_operator(node, names[node.id], scale) for node in workload.nodes)
    return ComputationGraph(operators, tuple(values))


def _operator(node: Node, name: str, scale: int) -> Operator:
    durations = {CPU: to_ticks(node.cpu_latency, scale)}
    if node.supported_on_fpga:
        durations = {ACCELERATOR: to_ticks(node.fpga_latency, scale), **durations}
    return Operator(
        name,
        (Option("run", durations),),
        "backward" if node.is_backward_node else "forward",
        None if node.color_class is None else f"colour {node.color_class}",
        block=None if node.layer_id is None else f"layer {node.layer_id}",
    )


def names_of(workload: Workload) -> dict[int, str]:
    """Return node id -> the name in the file, made unique by the id where it is not."""
    nodes = workload.nodes
    count = Counter(node.name for node in nodes)
    return {
        node.id: node.name
        if node.name and count[node.name] == 1
        else f"{node.name or ''}#{node.id}"
        for node in nodes
    }


def _cluster(workload: Workload, objective: Objective) -> Cluster:
    """Devices of the file; for latency one host, which runs any number of nodes at a time."""
    cpus = min(workload.cpus, 1) if objective is Objective.LATENCY else workload.cpus
    memory = int(workload.accelerator_bytes)
    devices = [
        Device(f"{ACCELERATOR}{i}", ACCELERATOR, memory) for i in range(workload.accelerators)
    ]
    devices += [Device(f"{CPU}{i}", CPU, None) for i in range(cpus)]
    # Costs are times already: a byte per tick and no latency turn them into transfers.
    channels = tuple(
        Channel(a.name, b.name, 0, TICKS_PER_SECOND) for a in devices for b in devices if a is not b
    )
    classes = (DeviceClass(ACCELERATOR, memory), DeviceClass(CPU, None))
    return Cluster(classes, tuple(devices), channels, (), CommunicationModel.ENDPOINT)


def _instance_name(path: Path) -> str:
    """Return kind of problem, kind of graph and file stem: the stems alone are not unique."""
    labels = {
        "latency-inputs": "latency",
        "throughput-inputs": "throughput",
        "LayerGraphs": "layer",
        "OperatorGraphs": "operator",
    }
    folders = [labels[part] for part in path.absolute().parts[-3:-1] if part in labels]
    return "-".join([*folders, path.name.removesuffix(".gz").removesuffix(".json")])
