"""Cheapest sets of classes on one paying device, as minimum cuts; compiled.

A set S of classes costs the work of its classes plus the cost of each net that it holds in part.
With an arc from each class to the sink (its work) and, per net, a node *any* and a node *all* with

    class -> any (free),  any -> all (cost of the net),  all -> class (free),

a cut with S on the source side costs just that: a class in S pulls *any* along, and unless *all*
stays behind, where the net is paid, the whole net follows. So the cheapest set that holds some
classes and keeps out others is a maximum flow (Lawler 1973 for hypergraphs). Capacities are
integers rounded down, so a flow is a lower bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled, copy_into

Ints = NDArray[np.int64]
FREE = 1 << 60
"""Capacity that no flow can exhaust."""


class Network(NamedTuple):
    """Arcs by node: those of a node are ``start[node]:start[node + 1]``.

    ``back`` is the reverse arc, ``capacity`` that of the arc, ``sink`` that from a node to the
    sink.
    """

    start: Ints
    head: Ints
    back: Ints
    capacity: Ints
    sink: Ints


def network(work: list[int], nets: list[tuple[tuple[int, ...], int]]) -> Network:
    """Return the network of classes with integer work, and nets with members and integer cost."""
    count = len(work)
    arcs: list[tuple[int, int, int, int]] = []
    for members, cost in nets:
        if len(members) == 2:
            arcs.append((members[0], members[1], cost, cost))
            continue
        some, every = count, count + 1
        count += 2
        arcs.append((some, every, cost, 0))
        for member in members:
            arcs.append((member, some, FREE, 0))
            arcs.append((every, member, FREE, 0))
    degree = np.zeros(count + 1, dtype=np.int64)
    for one, two, _, _ in arcs:
        degree[one + 1] += 1
        degree[two + 1] += 1
    start = np.cumsum(degree)
    at = start[:-1].copy()
    head = np.empty(2 * len(arcs), dtype=np.int64)
    back, capacity = head.copy(), head.copy()
    for one, two, ahead, behind in arcs:
        first, second = int(at[one]), int(at[two])
        at[one] += 1
        at[two] += 1
        head[first], head[second] = two, one
        back[first], back[second] = second, first
        capacity[first], capacity[second] = ahead, behind
    sink = np.zeros(count, dtype=np.int64)
    sink[: len(work)] = work
    return Network(start, head, back, capacity, sink)


@compiled
def push(  # noqa: C901, PLR0912, PLR0915 (one loop nest)
    net: Network, sources: Ints, many: int, enough: int
) -> int:
    """Push flow from the sources, in place, until it is maximal or at least ``enough``.

    Dinic's algorithm: levels by breadth, then blocking flow by depth. Returns the flow pushed.
    """
    nodes = len(net.sink)
    level = np.empty(nodes, dtype=np.int64)
    turn = np.empty(nodes, dtype=np.int64)
    queue = np.empty(nodes, dtype=np.int64)
    path = np.empty(nodes + 1, dtype=np.int64)
    total = 0
    while total < enough:
        level[:] = -1
        last = 0
        for at in range(many):
            if level[sources[at]] < 0:
                level[sources[at]] = 0
                queue[last] = sources[at]
                last += 1
        first, reached = 0, False
        while first < last:
            node = queue[first]
            first += 1
            if net.sink[node] > 0:
                reached = True
            for arc in range(net.start[node], net.start[node + 1]):
                other = net.head[arc]
                if net.capacity[arc] > 0 and level[other] < 0:
                    level[other] = level[node] + 1
                    queue[last] = other
                    last += 1
        if not reached:
            break
        copy_into(net.start[:-1], turn)
        for at in range(many):
            depth, node = 0, sources[at]
            if level[node] != 0:
                continue
            while total < enough:
                if net.sink[node] > 0:
                    amount = net.sink[node]
                    for step in range(depth):
                        amount = min(amount, net.capacity[path[step]])
                    net.sink[node] -= amount
                    total += amount
                    keep = depth
                    for step in range(depth - 1, -1, -1):
                        net.capacity[path[step]] -= amount
                        net.capacity[net.back[path[step]]] += amount
                        if net.capacity[path[step]] == 0:
                            keep = step
                    if keep < depth:
                        node = net.head[net.back[path[keep]]]
                        depth = keep
                    continue
                moved = False
                while turn[node] < net.start[node + 1]:
                    arc = turn[node]
                    if net.capacity[arc] > 0 and level[net.head[arc]] == level[node] + 1:
                        path[depth] = arc
                        depth += 1
                        node = net.head[arc]
                        moved = True
                        break
                    turn[node] += 1
                if not moved:
                    if depth == 0:
                        break
                    depth -= 1
                    node = net.head[net.back[path[depth]]]
                    turn[node] += 1
    return total


@compiled
def cheapest(net: Network, members: Ints, barred: NDArray[np.bool_], enough: int) -> int:
    """Cost of the cheapest set with all members and nothing barred; ``enough`` if not less."""
    work = Network(net.start, net.head, net.back, net.capacity.copy(), net.sink.copy())
    for number in range(len(barred)):
        if barred[number]:
            work.sink[number] = FREE
    return push(work, members, len(members), enough)


@compiled
def probe(
    net: Network, number: int, barred: NDArray[np.bool_], limit: int, found: NDArray[np.int8]
) -> int:
    """Derive consequences of a class being on a payer whose set costs less than ``limit``.

    ``found[other]`` becomes 1 where the other class cannot be in the set, 2 where it must be, 3
    where neither is possible, else 0. Barred classes are known to be outside. Returns the cost of
    the cheapest set.
    """
    base = Network(net.start, net.head, net.back, net.capacity.copy(), net.sink.copy())
    classes = len(barred)
    for other in range(classes):
        if barred[other]:
            base.sink[other] = FREE
    sources = np.empty(2, dtype=np.int64)
    sources[0] = number
    found[:] = 0
    value = push(base, sources, 1, limit)
    if value >= limit:
        found[:] = 3
        return value
    # classes on the source side of the cheapest cut may be in for nothing, others may be out
    inside = np.zeros(len(net.sink), dtype=np.bool_)
    stack = np.empty(len(net.sink), dtype=np.int64)
    inside[number] = True
    stack[0] = number
    many = 1
    while many > 0:
        many -= 1
        node = stack[many]
        for arc in range(net.start[node], net.start[node + 1]):
            other = net.head[arc]
            if base.capacity[arc] > 0 and not inside[other]:
                inside[other] = True
                stack[many] = other
                many += 1
    trial = Network(net.start, net.head, net.back, net.capacity.copy(), net.sink.copy())
    for other in range(classes):
        if other == number or barred[other]:
            continue
        copy_into(base.capacity, trial.capacity)
        copy_into(base.sink, trial.sink)
        if inside[other]:
            trial.sink[other] = FREE
            if value + push(trial, sources, 1, limit - value) >= limit:
                found[other] = 2
        else:
            sources[1] = other
            if value + push(trial, sources, 2, limit - value) >= limit:
                found[other] = 1
    return value


@compiled
def cheapest_choice(  # noqa: PLR0917 (compiled)
    net: Network, choice: Ints, many: int, barred: NDArray[np.bool_], best: int, nodes: int
) -> int:
    """Return the least cost of a set that holds at least ``many`` of the chosen classes.

    Depth first over the choices in ascending order; a partial choice that costs as much as the
    best known is given up, since costs grow with the classes required. Flows are continued from
    those of the partial choice.

    Parameters
    ----------
    best
        Cost that is known to be reached, or an upper limit to look below.
    nodes
        Flows after which the search gives up.

    Returns
    -------
    int
        The least cost, or ``best`` if none is below; -1 when it gave up.
    """
    capacity = np.empty((many + 1, len(net.capacity)), dtype=np.int64)
    sink = np.empty((many + 1, len(net.sink)), dtype=np.int64)
    cost = np.zeros(many + 1, dtype=np.int64)
    at = np.full(many + 1, -1, dtype=np.int64)
    members = np.empty(many + 1, dtype=np.int64)
    capacity[0], sink[0] = net.capacity, net.sink
    for number in range(len(barred)):
        if barred[number]:
            sink[0, number] = FREE
    depth = 0
    while depth >= 0:
        at[depth] += 1
        if at[depth] > len(choice) - (many - depth):
            depth -= 1
            continue
        nodes -= 1
        if nodes < 0:
            return -1
        capacity[depth + 1], sink[depth + 1] = capacity[depth], sink[depth]
        members[depth] = choice[at[depth]]
        trial = Network(net.start, net.head, net.back, capacity[depth + 1], sink[depth + 1])
        cost[depth + 1] = cost[depth] + push(trial, members, depth + 1, best - cost[depth])
        if cost[depth + 1] >= best:
            continue
        if depth + 1 == many:
            best = cost[depth + 1]
            continue
        depth += 1
        at[depth] = at[depth - 1]
    return best
