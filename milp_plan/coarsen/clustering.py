"""Heuristic clustering: chains, colocation groups, and any acyclic merge down to a target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from milp_plan.core import PlanningProblem

from .contraction import contract
from .quotient import Caps, Quotient
from .reduction import Reduction

SHARE_OF_PATH = 1.5
"""Weight of a longer critical path against time saved on channels."""
SHARE_OF_WORK = 0.5
"""Weight of a cluster's size against time saved on channels: small clusters merge first."""


@dataclass(frozen=True)
class Scale:
    """What is large and small in a problem.

    Parameters
    ----------
    total
        Device time of all operators with their best options, in ticks.
    devices
        Devices, counted by their speed relative to the fastest class.
    limit
        Time no plan can beat by much: the longest path, or the work spread over the devices.
    room
        Memory of the smallest limited device; ``None`` if none is limited.
    """

    total: float
    devices: float
    limit: float
    room: int | None


def scale(quotient: Quotient) -> Scale:
    """Measure a problem."""
    problem = quotient.problem
    total = sum(node.work for node in quotient.nodes.values())
    devices = 0.0
    for device in problem.cluster.devices:
        fastest = own = 0.0
        for operator in problem.graph.operators:
            able = [o for o in operator.options if device.device_class in o.duration_ns]
            if able:
                own += min(o.gang * o.duration_ns[device.device_class] for o in able)
                fastest += min(o.gang * min(o.duration_ns.values()) for o in operator.options)
        devices += fastest / own if own else 0.0
    devices = max(devices, 1.0)
    heads, _ = quotient.paths()
    path = max(heads[i] + node.work for i, node in quotient.nodes.items())
    limits = [device.memory_bytes for device in problem.cluster.devices]
    room = min((number for number in limits if number is not None), default=None)
    return Scale(total, devices, max(path, total / devices), room)


class Rung(NamedTuple):
    """Caps in relative terms.

    ``work`` is a multiple of the mean cluster at the target, ``tied`` a share of the work a
    device gets, ``path`` a multiple of the limit, ``memory`` a share of the smallest device.
    """

    work: float
    tied: float
    path: float
    memory: float
    keep_gangs: bool


RUNGS = (
    Rung(1.5, 0.25, 1.0, 0.25, True),
    Rung(2.0, 0.34, 1.02, 0.34, True),
    Rung(3.0, 0.5, 1.1, 0.5, True),
    Rung(4.0, 0.7, 1.3, 0.5, False),
    Rung(8.0, 1.1, 2.0, 0.75, False),
    Rung(float("inf"), float("inf"), float("inf"), 1.0, False),
)
"""From strict to loose; the next rung is for when the target is not reached yet."""


def caps_of(rung: Rung, size: Scale, target: int) -> Caps:
    """Turn relative caps into amounts."""
    return Caps(
        work=size.total / target * rung.work,
        component_work=size.total / size.devices * rung.tied,
        path=size.limit * rung.path,
        memory_bytes=None if size.room is None else int(size.room * rung.memory),
        keep_gangs=rung.keep_gangs,
    )


def _reduction(name: str, quotient: Quotient) -> Reduction | None:
    clusters = quotient.clusters()
    if not clusters:
        return None
    return contract(quotient.problem, clusters, name=name)


@dataclass(frozen=True)
class ChainContraction:
    """Contract chains: an operator with one reader, which reads nothing else. Heuristic.

    Nothing waits for anything new; but other work can no longer run between the two, and the two
    cannot use two devices.

    Parameters
    ----------
    target
        Operators wanted; a cluster gets at most a share of the work that fits it.
    """

    target: int
    name = "chains"
    exact = False

    def apply(self, problem: PlanningProblem) -> Reduction | None:
        """Contract chains link by link, within the strictest caps."""
        quotient = Quotient(problem)
        caps = caps_of(RUNGS[0], scale(quotient), self.target)
        for i in quotient.order():
            while len(quotient) > self.target and i in quotient.nodes:
                (j, *others) = [*quotient.nodes[i].after, -1, -1][:2]
                if j < 0 or others != [-1] or len(quotient.nodes[j].before) > 1:
                    break
                if not quotient.may_merge([i, j], caps):
                    break
                quotient.merge([i, j])
        return _reduction(self.name, quotient)


@dataclass(frozen=True)
class ColocationMerging:
    """Make one operator of a colocation group, where no path leaves and re-enters. Heuristic.

    The members run on one site anyway; merged they also run without a break. A group stays apart
    where that would stretch the longest path beyond what bounds a plan from below.

    Parameters
    ----------
    target
        Operators wanted.
    """

    target: int
    name = "colocation groups"
    exact = False

    def apply(self, problem: PlanningProblem) -> Reduction | None:
        """Merge the groups that may, smallest work first."""
        quotient = Quotient(problem)
        caps = caps_of(RUNGS[0], scale(quotient), self.target)
        place = {name: i for i, name in enumerate(quotient.names)}
        groups = [[place[m] for m in group] for group in problem.graph.groups.values()]
        groups.sort(key=lambda nodes: sum(quotient.nodes[i].work for i in nodes))
        for nodes in groups:
            if len(quotient) <= self.target:
                break
            if len(nodes) > 1 and quotient.may_merge(nodes, caps):
                heads, tails = quotient.paths()
                if path_through(quotient, nodes, heads, tails) <= caps.path:
                    quotient.merge(nodes)
        return _reduction(self.name, quotient)


@dataclass(frozen=True)
class AcyclicClustering:
    """Merge clusters pairwise, keeping the graph acyclic, until the target is met. Heuristic.

    A round scores the pairs that share an edge, a supplier or a reader: time saved on channels,
    against the stretch of the longest path and the size. The best disjoint pairs merge; caps on
    work, tied work, path and memory start strict and are loosened when a round finds nothing
    (:data:`RUNGS`). Acyclic in the manner of multilevel DAG partitioning (Herrmann, Ozkaya,
    Ucar, Kaya, Catalyurek, SIAM J. Sci. Comput. 41(4), 2019), with exact reachability by bit
    sets in place of levels.

    Parameters
    ----------
    target
        Operators wanted; more remain only where memory or sites forbid every merge.
    """

    target: int
    name = "clustering"
    exact = False

    def apply(self, problem: PlanningProblem) -> Reduction | None:
        """Merge down to the target."""
        quotient = Quotient(problem)
        size = scale(quotient)
        for rung in RUNGS:
            caps = caps_of(rung, size, self.target)
            while len(quotient) > self.target and self._round(quotient, caps, size):
                pass
        return _reduction(self.name, quotient)

    def _round(self, quotient: Quotient, caps: Caps, size: Scale) -> int:
        """Merge the best disjoint pairs; returns how many."""
        heads, tails = quotient.paths()
        scored = []
        for i, j in _pairs(quotient, heads):
            work = quotient.nodes[i].work + quotient.nodes[j].work
            if work > caps.work:
                continue
            path = path_through(quotient, [i, j], heads, tails)
            if path <= caps.path:
                stretch = max(0.0, path - size.limit)
                score = SHARE_OF_PATH * stretch + SHARE_OF_WORK * work - saved_ns(quotient, i, j)
                scored.append((score, i, j))
        scored.sort()
        room = min(len(quotient) - self.target, max(1, len(quotient) // 4))
        used: set[int] = set()
        merged = 0
        for _, i, j in scored:
            if merged == room:
                break
            if i in used or j in used or not quotient.may_merge([i, j], caps):
                continue
            quotient.merge([i, j])
            used |= {i, j}
            merged += 1
        return merged


def _pairs(quotient: Quotient, heads: dict[int, float]) -> Iterator[tuple[int, int]]:
    """Pairs worth a look: both ends of an edge, and neighbours among siblings by their head."""
    seen: set[tuple[int, int]] = set()
    rank = {i: (heads[i], i) for i in quotient.nodes}
    for i, node in quotient.nodes.items():
        found = [(i, j) for j in node.after]
        for family in (node.after, node.before):
            row = sorted(family, key=rank.__getitem__)
            found += pairwise(row)
        for a, b in found:
            pair = (min(a, b), max(a, b))
            if pair not in seen:
                seen.add(pair)
                yield pair
    row = sorted(quotient.nodes, key=rank.__getitem__)
    for a, b in pairwise(row):
        pair = (min(a, b), max(a, b))
        if pair not in seen:
            seen.add(pair)
            yield pair


def path_through(
    quotient: Quotient, nodes: list[int], heads: dict[int, float], tails: dict[int, float]
) -> float:
    """Longest path of work through the clusters once they are merged, in ticks."""
    inside = set(nodes)
    head = tail = 0.0
    for i in nodes:
        node = quotient.nodes[i]
        if inside.isdisjoint(node.before):
            head = max(head, heads[i])
        else:
            others = (heads[j] + quotient.nodes[j].work for j in node.before if j not in inside)
            head = max(head, max(others, default=0.0))
        if inside.isdisjoint(node.after):
            tail = max(tail, tails[i])
        else:
            others = (tails[j] + quotient.nodes[j].work for j in node.after if j not in inside)
            tail = max(tail, max(others, default=0.0))
    return head + sum(quotient.nodes[i].work for i in nodes) + tail


def saved_ns(quotient: Quotient, i: int, j: int) -> float:
    """Travel that two clusters save by being one: their edge, and one copy of shared inputs."""
    first, second = quotient.nodes[i], quotient.nodes[j]
    between = first.after.get(j, set()) | first.before.get(j, set())
    shared: set[str] = set()
    for k in first.before.keys() & second.before.keys():
        shared |= first.before[k] & second.before[k]
    return quotient.travel_ns(between) + quotient.travel_ns(shared - between) / 2
