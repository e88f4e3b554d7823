"""Readers of the public graphs for rematerialisation: node-link JSON of networkx, two schemas.

Training graphs of Checkmate (Jain et al., MLSys 2020: ``cost_cpu``, ``cost_ram``) and random
layered graphs (Gagrani et al., NeurIPS 2022: ``duration``, ``out_cost``), as MOCCASIN (Bartan et
al., ICML 2023) collects them. Described in ``instances/formats/training-graph.md``.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from milp_plan.core import Finding, InputError, Units
from milp_plan.core.quantity import exact_scale, to_ticks
from milp_plan.io.defects import in_words
from milp_plan.io.files import Document
from milp_plan.io.wire import Count, decode

from .problem import Computation, RematerialisationProblem

TITLE = "graph with costs and output sizes for rematerialisation (networkx node-link JSON)"

_Number = Count | Annotated[float, msgspec.Meta(ge=0)]
_Key = int | str

_PROVENANCE = {"format": "https://github.com/haoming-codes/moccasin"}


class TrainingNode(msgspec.Struct, frozen=True):
    """An operator of a training graph."""

    id: _Key
    cost: _Number = msgspec.field(name="cost_cpu")
    size: _Number = msgspec.field(name="cost_ram")
    name: _Key = ""


class LayeredNode(msgspec.Struct, frozen=True):
    """An operator of a random layered graph, which its name identifies."""

    name: _Key
    cost: _Number = msgspec.field(name="duration")
    size: _Number = msgspec.field(name="out_cost")


class TrainingLink(msgspec.Struct, frozen=True):
    """An edge from an operator to one that reads it."""

    source: _Key
    target: _Key


class LayeredLink(msgspec.Struct, frozen=True):
    """An edge from an operator to one that reads it."""

    source: _Key = msgspec.field(name="0")
    target: _Key = msgspec.field(name="1")


class Facts(msgspec.Struct, frozen=True):
    """Facts of a file about its graph; other members are ignored."""

    name: str = ""
    order: list[_Key] | None = None


class TrainingGraph(msgspec.Struct, frozen=True):
    """A training graph."""

    nodes: list[TrainingNode]
    links: list[TrainingLink] | None = None
    edges: list[TrainingLink] | None = None
    graph: Facts = Facts()


class LayeredGraph(msgspec.Struct, frozen=True):
    """A random layered graph."""

    nodes: list[LayeredNode]
    links: list[LayeredLink] | None = None
    edges: list[LayeredLink] | None = None
    graph: Facts = Facts()


EDGES, LINKS = "edges", "links"
"""Names of the list of edges in networkx, from 3.4 on and before."""

_TRAINING = {"operator": "node", "operators": "nodes", "cost": "cost_cpu", "costs": "cost_cpu"}
_TRAINING |= {"bytes": "cost_ram"}
_LAYERED = {"operator": "node", "operators": "nodes", "cost": "duration", "costs": "duration"}
_LAYERED |= {"bytes": "out_cost", "source": "0", "target": "1"}
"""Words of a problem and the words of these files for them."""


@dataclass(frozen=True)
class _Node:
    """An operator of either schema: its key, its display name, its figures."""

    key: _Key
    name: str
    cost: float
    size: float


def can_read(document: Document) -> bool:
    """Return whether it is a node-link graph: networkx says so, or nodes of either schema do."""
    return {"directed", "nodes"} <= set(document.top_level) or _layered(document) is not None


def _layered(document: Document) -> bool | None:
    """Return whether the nodes are those of the second schema; ``None`` for neither."""
    top = document.top_level
    if "nodes" not in top:
        return None
    nodes = bytes(top["nodes"])
    if b'"cost_cpu"' in nodes and b'"cost_ram"' in nodes:
        return False
    return True if b'"duration"' in nodes and b'"out_cost"' in nodes else None


def read(document: Document) -> RematerialisationProblem:
    """Read a graph, without a budget.

    The order is the stored one; without one that of the nodes, if it is topological, else the
    topological order that departs least from it.

    Raises
    ------
    InputError
        The file has defects; the error lists all of them.
    """
    graph: TrainingGraph | LayeredGraph
    if _layered(document):
        graph = layered = decode(document.data, LayeredGraph, document.file)
        nodes = [_Node(n.name, str(n.name), n.cost, n.size) for n in layered.nodes]
        words = _LAYERED
    else:
        graph = wire = decode(document.data, TrainingGraph, document.file)
        count = Counter(node.name for node in wire.nodes)
        nodes = [_Node(n.id, _unique(n, count), n.cost, n.size) for n in wire.nodes]
        words = _TRAINING
    name, links = _links(graph)
    stem = document.path.name.removesuffix(".gz").removesuffix(".json")
    facts = graph.graph
    about = {"file": document.path.name} | ({"graph": facts.name} if facts.name else {})
    lines = {"links": name, "link": name.removesuffix("s"), "inputs": name}
    with in_words(words | lines):
        findings = list(_findings(nodes, links, facts.order))
        if findings:
            raise InputError(findings)
        return _problem(stem, nodes, links, facts.order, {**_PROVENANCE, **about})


def _links(graph: TrainingGraph | LayeredGraph) -> tuple[str, list[tuple[_Key, _Key]]]:
    """Return the file's name of the list of edges, and the ends of each edge.

    Raises
    ------
    InputError
        The file has no such list, or two.
    """
    known = {name: getattr(graph, name) for name in (EDGES, LINKS)}
    lists = {name: lines for name, lines in known.items() if lines is not None}
    if len(lists) != 1:
        found = "both" if lists else "neither"
        expected = f"{EDGES} (networkx 3.4 and later) or {LINKS} (before)"
        remedy = "remove one of them" if lists else "add the list: node_link_data writes it"
        raise InputError([Finding(f"{EDGES} and {LINKS}", found, expected, remedy)])
    ((name, lines),) = lists.items()
    return name, [(line.source, line.target) for line in lines]


def _unique(node: TrainingNode, count: Mapping[_Key, int]) -> str:
    """Return the node's name, with its id where others have the same."""
    alone = node.name != "" and count[node.name] == 1
    return str(node.name) if alone else f"{node.name}#{node.id}"


def _findings(
    nodes: Sequence[_Node], links: Sequence[tuple[_Key, _Key]], order: Sequence[_Key] | None
) -> Iterator[Finding]:
    keys = Counter(node.key for node in nodes)
    for key, count in keys.items():
        if count > 1:
            yield Finding(f"node {key!r}", f"{count} times", "once", "rename the others")
    for place, node in enumerate(nodes):
        if node.size != int(node.size):
            expected = "a whole number of bytes"
            yield Finding(f"nodes[{place}].bytes", f"{node.size}", expected, "correct it")
    for place, (source, target) in enumerate(links):
        for what, key in (("source", source), ("target", target)):
            if key not in keys:
                where = f"links[{place}].{what}"
                yield Finding(where, repr(key), "a node of the graph", "correct it")
        if source == target:
            remedy = "remove it"
            yield Finding(f"links[{place}]", f"a loop at {source!r}", "two nodes", remedy)
    for (source, target), count in Counter(links).items():
        if count > 1:
            where = f"link {source!r} to {target!r}"
            yield Finding(where, f"{count} times", "once", "remove the others")
    if order is not None and Counter(order) != keys:
        odd = sorted(str(key) for key in (Counter(order) - keys) + (keys - Counter(order)))
        found = f"another number of {', '.join(odd[:3])}"
        yield Finding("graph.order", found, "every node once", "correct the order")


def _problem(
    name: str,
    nodes: Sequence[_Node],
    links: Sequence[tuple[_Key, _Key]],
    order: Sequence[_Key] | None,
    provenance: Mapping[str, str],
) -> RematerialisationProblem:
    by_key = {node.key: node for node in nodes}
    inputs: dict[_Key, list[str]] = {node.key: [] for node in nodes}
    for source, target in links:
        inputs[target].append(by_key[source].name)
    scale = exact_scale(node.cost for node in nodes)
    keys = _topological([node.key for node in nodes], links) if order is None else order
    computations = tuple(
        Computation(
            by_key[key].name,
            to_ticks(by_key[key].cost, scale),
            int(by_key[key].size),
            tuple(inputs[key]),
        )
        for key in keys
    )
    units = Units("unspecified", "bytes", scale)
    return RematerialisationProblem(name, computations, None, units, provenance)


def _topological(keys: Sequence[_Key], links: Sequence[tuple[_Key, _Key]]) -> list[_Key]:
    """Return a topological order: of the possible next nodes, always the first of the file.

    Raises
    ------
    InputError
        The edges form a cycle.
    """
    place = {key: number for number, key in enumerate(keys)}
    readers: list[list[int]] = [[] for _ in keys]
    missing = [0] * len(keys)
    for source, target in links:
        readers[place[source]].append(place[target])
        missing[place[target]] += 1
    ready = [number for number, count in enumerate(missing) if not count]
    order: list[_Key] = []
    while ready:
        number = heapq.heappop(ready)
        order.append(keys[number])
        for reader in readers[number]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    if len(order) < len(keys):
        left: list[Any] = [key for key in keys if missing[place[key]]]
        where = f"{len(left)} nodes in circles or behind them, the first {left[0]!r}"
        raise InputError([Finding("links", where, "a graph without circles", "remove one of them")])
    return order
