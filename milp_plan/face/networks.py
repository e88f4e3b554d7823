"""Placement problems from graphs of networkx, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milp_plan.core import Cluster, PlanningProblem, Value
from milp_plan.io.defects import nearest

from .given import a_problem
from .model import Model
from .quantities import quoted, refuse

if TYPE_CHECKING:
    import networkx

_OPERATOR = ("kind", "group", "block", "micro_batch", "recomputable")
_WAY = ("duration", "gang", "workspace", "reads", "writes")
_SETTINGS = ("objective", "memory_law", "serial", "provenance")
_NODE = (*_OPERATOR, "duration", "gang", "workspace", "options", "persistent")
_EDGE = ("bytes", "value", "transfer_bytes", "messages", "reshard", "kept")


def from_networkx(
    graph: networkx.DiGraph[Any],
    cluster: str | Path | Cluster | None = None,
    *,
    name: str | None = None,
    **settings: Any,
) -> PlanningProblem:
    """Return the placement problem of a directed graph: nodes are operators, edges carry values.

    Attributes are those of :meth:`milp_plan.Model.add_operator` and
    :meth:`milp_plan.Model.add_value`; any other is refused.

    Parameters
    ----------
    graph
        Nodes have ``duration`` (a number for every class of devices, or class -> number), and may
        have ``workspace``, ``gang``, ``kind``, ``group``, ``block``, ``micro_batch``,
        ``recomputable`` and ``persistent`` (bytes of weights that lie where it runs); or, in place
        of a duration, ``options``: name -> ``duration``, ``gang``, ``workspace``, ``reads``,
        ``writes`` (the last two: value -> layout). Edges may have ``bytes``, ``transfer_bytes``,
        ``messages``, ``reshard`` and ``kept``; edges from one node with the same ``value`` carry
        one value of that name, which travels once to each device. An edge without ``value`` carries
        one of its own. A multigraph may have several edges between two nodes.
    cluster
        Such as ``"4xH100"`` or ``"mine.toml"``, or a cluster; what :func:`to_networkx` left in the
        graph unless given.
    name
        Of the problem; that of the graph unless given.
    settings
        ``objective``, ``time_unit`` and the others of :class:`milp_plan.Model`; what
        :func:`to_networkx` left in the graph unless given.

    Raises
    ------
    InputError
        An attribute is missing, unknown or wrong; with the node or edge.

    Examples
    --------
    >>> import milp_plan as mp, networkx
    >>> graph = networkx.DiGraph(name="three")
    >>> graph.add_node("a", duration=2e-3, persistent="1GiB")
    >>> graph.add_node("b", duration={"H100": 1e-3, "A100": 2e-3})
    >>> graph.add_node("c", duration=1e-3)
    >>> graph.add_edge("a", "b", value="x", bytes="10MB")
    >>> graph.add_edge("a", "c", value="x", bytes="10MB")
    >>> problem = mp.from_networkx(graph, "1xH100+1xA100")
    >>> [value.name for value in problem.graph.values]
    ['a.persistent', 'x']
    """
    import networkx

    if not isinstance(graph, networkx.Graph) or not graph.is_directed():
        expected = "a directed graph of networkx, such as networkx.DiGraph"
        refuse("from_networkx, graph", quoted(graph), expected, "make one of it")
    left = {key: graph.graph[key] for key in _SETTINGS if key in graph.graph}
    given = {**left, **settings}
    machines = graph.graph.get("cluster") if cluster is None else cluster
    if machines is None:
        expected, remedy = 'such as "4xH100", or a Cluster', "name the machines"
        refuse("from_networkx, cluster", "none", expected, remedy)
    whole = graph.graph.get("values")
    if isinstance(whole, Mapping) and "time_unit" not in given:
        given["time_unit"] = "ns"
    title = str(name or graph.graph.get("name") or "graph")
    model = Model(title, cluster=machines, **given)
    for node, data in graph.nodes(data=True):
        _refuse_unknown(data, _NODE, f"node {node!r}")
        members = {key: data[key] for key in _OPERATOR if data.get(key) is not None}
        if "options" not in data:
            if "duration" not in data:
                refuse(f"node {node!r}", "no duration", "a duration, or options", "add it")
            members |= {key: data[key] for key in ("duration", "gang", "workspace") if key in data}
        model.add_operator(str(node), **members)
        if "persistent" in data:
            model.add_value(None, str(node), data["persistent"], f"{node}.persistent")
    if isinstance(whole, Mapping):
        _add_values(model, graph, whole)
    else:
        _add_edges(model, graph)
    for node, options in graph.nodes(data="options"):
        for title, entry in (options or {}).items():
            _refuse_unknown(entry, _WAY, f"node {node!r}, option {title!r}")
            model.add_option(str(node), name=title, **entry)
    problem = model.build()
    units = graph.graph.get("units")
    return problem if units is None else replace(problem, units=units)


def _add_values(
    model: Model, graph: networkx.DiGraph[Any], values: Mapping[str, Mapping[str, Any]]
) -> None:
    """Add the values that :func:`to_networkx` stored; the edges have to be the same."""
    for name, entry in values.items():
        model.add_value(name=name, **entry)
    made = [entry for entry in values.values() if entry["producer"] is not None]
    paths = {(str(entry["producer"]), str(c)) for entry in made for c in entry["consumers"]}
    edges = {(str(source), str(target)) for source, target in graph.edges()}
    for source, target in sorted(edges ^ paths):
        found = "an edge without a value" if (source, target) in edges else "a value without edge"
        remedy = 'change graph.graph["values"] as well, or remove it and give edges "bytes"'
        refuse(f"edge {source!r} to {target!r}", found, "edges and values that agree", remedy)


def _add_edges(model: Model, graph: networkx.DiGraph[Any]) -> None:
    """Add the values of edges; edges of one node with the same value have to agree on it."""
    values: dict[str, dict[str, Any]] = {}
    for source, target, data in graph.edges(data=True):
        where = f"edge {source!r} to {target!r}"
        _refuse_unknown(data, _EDGE, where)
        stem = title = str(data.get("value") or f"{source}->{target}")
        number = 1
        while "value" not in data and title in values:
            number += 1
            title = f"{stem} {number}"
        entry = {key: data[key] for key in _EDGE if key in data and key != "value"}
        entry |= {"producer": str(source)}
        known = values.setdefault(title, entry | {"consumers": []})
        if {key: known[key] for key in known if key != "consumers"} != entry:
            found_text = f"value {title!r} with other attributes than on an edge before"
            refuse(where, found_text, "one producer and one size of a value", "name them apart")
        known["consumers"].append(str(target))
    for title, entry in values.items():
        model.add_value(name=title, **entry)


def _refuse_unknown(data: Any, known: tuple[str, ...], where: str) -> None:
    if not isinstance(data, Mapping):
        refuse(where, quoted(data), f"a mapping with some of {', '.join(known)}")
    for key in data:
        if key not in known:
            remedy = nearest(str(key), known, "remove it")
            refuse(where, f"the attribute {key!r}", f"some of {', '.join(known)}", remedy)


def to_networkx(problem: PlanningProblem | Model) -> networkx.DiGraph[Any]:
    """Return a placement problem as a directed graph, from which it can be restored.

    Nodes have the attributes of their operators and ``options``, with durations in ticks per class
    of devices; edges have ``values``, the names of what they carry. The graph has ``name``,
    ``cluster``, ``objective``, ``memory_law``, ``units``, ``serial``, ``provenance`` and
    ``values``: name -> ``producer``, ``consumers``, ``bytes`` and so on, persistent ones included.

    Examples
    --------
    >>> import milp_plan as mp
    >>> problem = mp.read("instances/gang-beats-single.json")
    >>> graph = mp.to_networkx(problem)
    >>> graph.edges["m1", "m2"]["values"], graph.graph["values"]["x"]["bytes"]
    (['x'], {'full': 20, 'half2': 10})
    >>> mp.from_networkx(graph) == problem
    True
    """
    problem = a_problem(problem, "to_networkx, problem")
    if not isinstance(problem, PlanningProblem):
        expected = "a placement problem, or a Model"
        refuse("to_networkx, problem", quoted(problem), expected, "give one with a graph")
    graph: networkx.DiGraph[Any] = problem.graph.to_networkx()
    for operator in problem.graph.operators:
        members = {key: getattr(operator, key) for key in _OPERATOR}
        options = {
            option.name: {
                "duration": dict(option.duration_ticks),
                "gang": option.gang,
                "workspace": option.workspace_bytes,
                "reads": dict(option.reads),
                "writes": dict(option.writes),
            }
            for option in operator.options
        }
        graph.nodes[operator.name].update(members, options=options)
    graph.graph.update(
        name=problem.name,
        cluster=problem.cluster,
        objective=problem.objective,
        memory_law=problem.memory_law,
        units=problem.units,
        serial=problem.serial,
        provenance=dict(problem.provenance),
        values={value.name: _value(value) for value in problem.graph.values},
    )
    return graph


def _value(value: Value) -> dict[str, Any]:
    """Return a value as the arguments of :meth:`milp_plan.Model.add_value`."""
    return {
        "producer": value.producer,
        "consumers": list(value.consumers),
        "bytes": dict(value.bytes),
        "transfer_bytes": dict(value.transfer_bytes),
        "messages": value.messages,
        "reshard": dict(value.reshard_ticks),
        "kept": value.kept,
    }
