"""Interchangeable devices, for symmetry breaking."""

from __future__ import annotations

from milp_plan.core import Cluster, PlanningProblem


def interchangeable_devices(problem: PlanningProblem) -> tuple[tuple[str, ...], ...]:
    """Return classes of two or more interchangeable devices.

    Two devices may change places when they are of one class with the same memory, have equal
    channels to and from every third device and to each other, and the process groups that some
    option may hold stay what they are: either the swap maps the list of groups onto itself, order
    within groups included, or no group holds just one of the two (then every group is mapped onto
    itself as a set, its order is kept, and the channels of all its pairs are equal). So every plan
    turns into a plan of the same value. Swaps generate all permutations, and the relation is
    transitive (conjugate one swap by the other), so classes are found against one representative.

    Returns
    -------
    tuple of tuple of str
        In device order; devices without a twin are left out.
    """
    cluster, graph = problem.cluster, problem.graph
    gangs = {option.gang for operator in graph.operators for option in operator.options}
    groups = {group for group in cluster.groups if len(group) in gangs}
    classes: list[list[str]] = []
    for name in cluster.device_names:
        for members in classes:
            if _swappable(cluster, groups, members[0], name):
                members.append(name)
                break
        else:
            classes.append([name])
    return tuple(tuple(members) for members in classes if len(members) > 1)


def _swappable(cluster: Cluster, groups: set[tuple[str, ...]], first: str, second: str) -> bool:
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
    if {tuple(swap.get(d, d) for d in group) for group in groups} == groups:
        return True
    return all((first in group) == (second in group) for group in groups)


def _link(cluster: Cluster, source: str, target: str) -> tuple[int, int] | None:
    channel = cluster.channel(source, target)
    return None if channel is None else (channel.latency_ticks, channel.bandwidth_bytes_per_s)
