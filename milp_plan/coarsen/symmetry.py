"""Devices and operators that may change places: what symmetry breaking may use."""

from __future__ import annotations

from collections.abc import Hashable

from milp_plan.core import Cluster, ComputationGraph, Option, PlanningProblem, Value


def interchangeable_devices(problem: PlanningProblem) -> tuple[tuple[str, ...], ...]:
    """Classes of two or more devices that any permutation maps to an equivalent problem.

    Two devices may change places when they are of one class with the same memory, have equal
    channels to and from every third device and to each other, and the process groups stay what
    they are: either the swap maps the list of groups onto itself, order within groups included,
    or no group holds just one of the two (then every group is mapped onto itself as a set, its
    order is kept, and the channels of all its pairs are equal). So every plan turns into a plan
    of the same value. Swaps generate all permutations, and the relation is transitive
    (conjugate one swap by the other), so classes are found against one representative.

    Returns
    -------
    tuple of tuple of str
        In device order; devices without a twin are left out.
    """
    cluster = problem.cluster
    classes: list[list[str]] = []
    for name in cluster.device_names:
        for members in classes:
            if _swappable(cluster, members[0], name):
                members.append(name)
                break
        else:
            classes.append([name])
    return tuple(tuple(members) for members in classes if len(members) > 1)


def _swappable(cluster: Cluster, first: str, second: str) -> bool:
    a, b = cluster.device(first), cluster.device(second)
    if (a.device_class, a.memory_bytes) != (b.device_class, b.memory_bytes):
        return False
    swap = {first: second, second: first}
    for name in cluster.device_names:
        if name != first and _link(cluster, first, name) != _link(
            cluster, second, swap.get(name, name)
        ):
            return False
        if name != first and _link(cluster, name, first) != _link(
            cluster, swap.get(name, name), second
        ):
            return False
    groups = set(cluster.groups)
    if {tuple(swap.get(d, d) for d in group) for group in groups} == groups:
        return True
    return all((first in group) == (second in group) for group in groups)


def _link(cluster: Cluster, source: str, target: str) -> tuple[int, int] | None:
    channel = cluster.channel(source, target)
    return None if channel is None else (channel.latency_ns, channel.bandwidth_bytes_per_s)


def interchangeable_operators(problem: PlanningProblem) -> tuple[tuple[str, ...], ...]:
    """Classes of two or more operators that any permutation maps to an equivalent problem.

    Twins have options of the same names, durations, gangs and workspaces; read the same shared
    values, in the same layouts; own persistent values, and make values, of equal sizes and
    costs, made and read in the same layouts, by the same readers; and have the same colocation
    group, or none. Swapping twins with what they own and make maps every plan to a plan of the
    same value, so their starts may be put in order.

    Returns
    -------
    tuple of tuple of str
        In operator order; operators without a twin are left out.
    """
    graph = problem.graph
    classes: dict[Hashable, list[str]] = {}
    for operator in graph.operators:
        classes.setdefault(_operator_key(graph, operator.name), []).append(operator.name)
    return tuple(tuple(names) for names in classes.values() if len(names) > 1)


def _operator_key(graph: ComputationGraph, name: str) -> Hashable:
    operator = graph.operator(name)
    options = sorted(operator.options, key=lambda option: option.name)
    group = operator.group
    if group is not None and len(graph.groups[group]) == 1:
        group = None
    tables = tuple(
        (o.name, tuple(sorted(o.duration_ns.items())), o.gang, o.workspace_bytes) for o in options
    )
    read = sorted(_read_key(value, name, options) for value in graph.inputs[name])
    made = sorted(_made_key(graph, value, options) for value in graph.outputs[name])
    return (operator.kind, group, tables, tuple(read), tuple(made))


def _read_key(value: Value, reader: str, options: list[Option]) -> tuple[str, ...]:
    """Name of a shared value, or what a persistent value of its own amounts to."""
    asked = tuple(option.layout_read(value.name) for option in options)
    if value.persistent and value.consumers == (reader,):
        return ("own", repr(sorted(value.bytes.items())), *asked)
    return ("shared", value.name, *asked)


def _made_key(graph: ComputationGraph, value: Value, options: list[Option]) -> tuple[str, ...]:
    written = [option.layout_written(value.name) for option in options]
    sizes = [(k, v, value.payload(k)) for k, v in sorted(value.bytes.items())]
    asked = [
        (consumer, option.name, option.layout_read(value.name))
        for consumer in sorted(value.consumers)
        for option in graph.operator(consumer).options
    ]
    costs = (sizes, value.messages, sorted(value.reshard_ns.items()))
    return (repr(costs), repr(asked), *written)
