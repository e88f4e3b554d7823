"""Reader of the benchmark of Piper (Tarnawski, Narayanan, Phanishayee, NeurIPS 2021).

Source: https://github.com/msr-fiddle/piper, MIT licence. See ``instances/formats/piper.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import msgspec

from milp_plan.core import Finding, InputError
from milp_plan.io.defects import in_words
from milp_plan.io.files import Document, read_document
from milp_plan.io.pipeline_file import exact
from milp_plan.io.wire import Count, Positive, decode, lay_out

from .problem import Configuration, Flow, HybridProblem, Layer, Limits

TITLE = "hybrid parallelism of Piper, NeurIPS 2021 (JSON)"

RECOMPUTATION = "recomp"
"""Part of the ``id`` of configurations that recompute activations."""

_PROVENANCE = {
    "source": "https://github.com/msr-fiddle/piper (MIT licence)",
    "paper": "Tarnawski, Narayanan, Phanishayee, Piper, NeurIPS 2021",
}

_Number = Count | Annotated[float, msgspec.Meta(ge=0)]


class PiperConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    """A configuration (the source says TMPC): times in seconds, sizes in bytes."""

    id: str
    time_per_sample: _Number
    parameter_size: _Number
    memory_usage_a: _Number
    memory_usage_b: _Number
    sync_time_fw: dict[str, _Number]
    sync_time_bw: dict[str, _Number]


class PiperNode(msgspec.Struct, frozen=True):
    """A layer: tensor degree -> configurations."""

    id: int
    ways: dict[str, list[PiperConfiguration]] = msgspec.field(name="TMPCs")
    name: str = ""


class Edge(msgspec.Struct, frozen=True, rename="camel"):
    """A flow."""

    source_id: int
    dest_id: int
    communication_cost: _Number


class Workload(msgspec.Struct, frozen=True, rename="camel"):
    """A file of the source; fields that planning does not need are ignored."""

    max_devices: Positive
    max_memory_per_device: _Number
    bandwidth: _Number
    mbs_in_batch: Positive
    nodes: list[PiperNode]
    edges: list[Edge]


_WORDS = {
    "devices": "maxDevices",
    "memory_bytes": "maxMemoryPerDevice",
    "bandwidth_bytes_per_s": "bandwidth",
    "micro_batches": "mbsInBatch",
    "layer": "node",
    "layers": "nodes",
    "flow": "edge",
    "flows": "edges",
    "configuration": "TMPC",
    "configurations": "TMPCs",
}
"""Words of a problem and the words of these files for them."""


def can_read(document: Document) -> bool:
    """Return whether the document has the members of such a file."""
    return {"maxDevices", "mbsInBatch", "nodes"} <= set(document.top_level)


def read_hybrid(path: str | Path) -> HybridProblem:
    """Read a file; its limits are the file's own, see ``HybridProblem.with_limits``.

    Raises
    ------
    InputError
        The file has defects; the error lists all of them.
    """
    document = read_document(path)
    try:
        return read(document)
    except InputError as error:
        raise error.in_file(document.file) from None


def read(document: Document) -> HybridProblem:
    """Read a document.

    Raises
    ------
    InputError
        The document has defects; the error lists all of them.
    """
    if not can_read(document):
        keys = ", ".join(list(document.top_level)[:6]) or "none"
        expected = "a file of the Piper benchmark: members maxDevices, mbsInBatch, nodes, edges"
        finding = Finding("file", f"the members {keys}", expected, "name another file")
        raise InputError([finding])
    workload = decode(document.data, Workload, document.file)
    findings = [*_node_findings(workload), *_edge_findings(workload)]
    if findings:
        raise InputError(findings)
    names = _names(workload.nodes)
    with in_words(_WORDS):
        return HybridProblem(
            document.path.name.removesuffix(".gz").removesuffix(".json"),
            tuple(_layer(node, names) for node in workload.nodes),
            tuple(
                Flow(names[e.source_id], names[e.dest_id], exact(e.communication_cost))
                for e in workload.edges
            ),
            Limits(
                workload.max_devices,
                exact(workload.max_memory_per_device),
                exact(workload.bandwidth),
                workload.mbs_in_batch,
            ),
            provenance={**_PROVENANCE, "file": document.path.name},
        )


def to_json(problem: HybridProblem) -> bytes:
    """Return a problem as a file of the benchmark, exact; the format cannot store all of it.

    Raises
    ------
    InputError
        A number cannot be written as a decimal of the format.
    """
    number = {layer.name: place for place, layer in enumerate(problem.layers)}

    def extra(amounts: Mapping[str, Fraction]) -> dict[str, int | float]:
        return {str(number[name]): _decimal(amount) for name, amount in amounts.items()}

    def way(entry: Configuration) -> dict[str, Any]:
        return {
            "id": entry.name,
            "timePerSample": _decimal(entry.seconds),
            "parameterSize": _decimal(entry.parameter_bytes),
            "memoryUsageA": _decimal(entry.flight_bytes),
            "memoryUsageB": _decimal(entry.fixed_bytes),
            "syncTimeFw": extra(entry.receive_bytes),
            "syncTimeBw": extra(entry.send_bytes),
        }

    limits = problem.limits
    return lay_out(
        {
            "maxDevices": limits.devices,
            "maxMemoryPerDevice": _decimal(limits.memory_bytes),
            "bandwidth": _decimal(limits.bandwidth_bytes_per_s),
            "mbsInBatch": limits.micro_batches,
            "nodes": [
                {
                    "id": number[layer.name],
                    "name": layer.name,
                    "TMPCs": {
                        str(degree): [way(entry) for entry in ways]
                        for degree, ways in layer.configurations.items()
                    },
                }
                for layer in problem.layers
            ],
            "edges": [
                {
                    "sourceId": number[flow.source],
                    "destId": number[flow.target],
                    "communicationCost": _decimal(flow.bytes),
                }
                for flow in problem.flows
            ],
        }
    )


def _decimal(amount: Fraction) -> int | float:
    """Return the number that a reader turns into this amount."""
    if amount.denominator == 1:
        return amount.numerator
    if exact(float(amount)) != amount:
        expected = "a decimal of at most 17 digits"
        raise InputError([Finding("amounts", str(amount), expected, "choose other limits")])
    return float(amount)


def _names(nodes: list[PiperNode]) -> dict[int, str]:
    """Return node id -> the name in the file, made unique by the id where it is not."""
    count = Counter(node.name for node in nodes)
    return {
        node.id: node.name if node.name and count[node.name] == 1 else f"{node.name}#{node.id}"
        for node in nodes
    }


def _layer(node: PiperNode, names: dict[int, str]) -> Layer:
    return Layer(
        names[node.id],
        {
            int(degree): tuple(_configuration(way, names) for way in ways)
            for degree, ways in node.ways.items()
        },
    )


def _configuration(way: PiperConfiguration, names: dict[int, str]) -> Configuration:
    return Configuration(
        way.id,
        exact(way.time_per_sample),
        exact(way.parameter_size),
        exact(way.memory_usage_a),
        exact(way.memory_usage_b),
        RECOMPUTATION in way.id,
        _extra(way.sync_time_fw, names),
        _extra(way.sync_time_bw, names),
    )


def _extra(amounts: dict[str, int | float], names: dict[int, str]) -> dict[str, Fraction]:
    return {names[int(key)]: exact(amount) for key, amount in amounts.items()}


def _node_findings(workload: Workload) -> Iterator[Finding]:
    ids = Counter(node.id for node in workload.nodes)
    sources: dict[int, set[int]] = {number: set() for number in ids}
    targets: dict[int, set[int]] = {number: set() for number in ids}
    for edge in workload.edges:
        sources.setdefault(edge.dest_id, set()).add(edge.source_id)
        targets.setdefault(edge.source_id, set()).add(edge.dest_id)
    for position, node in enumerate(workload.nodes):
        at = f"nodes[{position}]"
        if ids[node.id] > 1:
            found = f"{node.id} in {ids[node.id]} nodes"
            yield Finding(f"{at}.id", found, "unique numbers", "renumber the nodes")
        for degree, ways in node.ways.items():
            where = f"{at}.TMPCs[{degree!r}]"
            if not _is_number(degree) or int(degree) < 1:
                yield Finding(where, repr(degree), "a tensor degree, 1 or more", "correct it")
            for number, way in enumerate(ways):
                yield from _way_findings(
                    f"{where}[{number}]", way, sources[node.id], targets[node.id]
                )


def _way_findings(
    where: str, way: PiperConfiguration, sources: set[int], targets: set[int]
) -> Iterator[Finding]:
    for label, nodes, known, ends in (
        ("syncTimeFw", way.sync_time_fw, sources, "the id of a node with an edge to this one"),
        ("syncTimeBw", way.sync_time_bw, targets, "the id of a node with an edge from this one"),
    ):
        for key in nodes:
            if not _is_number(key) or int(key) not in known:
                yield Finding(f"{where}.{label}", repr(key), ends, "correct it, or add the edge")


def _edge_findings(workload: Workload) -> Iterator[Finding]:
    ids = {node.id for node in workload.nodes}
    for position, edge in enumerate(workload.edges):
        for label, end in (("sourceId", edge.source_id), ("destId", edge.dest_id)):
            if end not in ids:
                where = f"edges[{position}].{label}"
                yield Finding(where, f"unknown node {end}", "the id of a node", "correct it")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
