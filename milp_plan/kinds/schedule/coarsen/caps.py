"""Limits and costs of a merge: scales, caps, paths and transfer times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .nodes import Caps
from .quotient import Quotient

WEIGHT_OF_STRETCH = 1.5
"""Weight of a longer critical path against time saved on channels."""
WEIGHT_OF_WORK = 0.5
"""Weight of a cluster's size against time saved on channels: small clusters merge first."""


@dataclass(frozen=True)
class Scale:
    """Typical sizes in a problem.

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
    """Return the scale of a problem."""
    problem = quotient.problem
    total = sum(node.work for node in quotient.nodes.values())
    speed: dict[str, float] = {}
    for entry in problem.cluster.device_classes:
        fastest = own = 0
        for operator in problem.graph.operators:
            able = [o for o in operator.options if entry.name in o.duration_ticks]
            if able:
                own += min(o.gang * o.duration_ticks[entry.name] for o in able)
                fastest += min(o.gang * min(o.duration_ticks.values()) for o in operator.options)
        speed[entry.name] = fastest / own if own else 0.0
    devices = max(1.0, sum(speed[device.device_class] for device in problem.cluster.devices))
    heads, _ = quotient.paths()
    path = max(heads[i] + node.span for i, node in quotient.nodes.items())
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
    strict: bool


RUNGS = (
    Rung(1.5, 0.25, 1.0, 0.25, True),
    Rung(2.0, 0.34, 1.05, 0.34, True),
    Rung(3.0, 0.5, 1.15, 0.5, True),
    Rung(4.0, 0.75, 1.3, 0.5, False),
    Rung(8.0, 1.1, 2.0, 0.75, False),
    Rung(float("inf"), float("inf"), float("inf"), 1.0, False),
)
"""From strict to loose; the next rung is used if the target is not reached."""


def caps_of(rung: Rung, size: Scale, target: int) -> Caps:
    """Return relative caps as amounts."""
    return Caps(
        work=size.total / target * rung.work,
        component_work=size.total / size.devices * rung.tied,
        path=size.limit * rung.path,
        memory_bytes=None if size.room is None else int(size.room * rung.memory),
        strict=rung.strict,
    )


def path_through(
    quotient: Quotient, nodes: list[int], heads: dict[int, float], tails: dict[int, float]
) -> float:
    """Return the longest path through the clusters after their merge, in ticks."""
    inside = set(nodes)
    head = tail = 0.0
    for i in nodes:
        node = quotient.nodes[i]
        before = (heads[j] + quotient.way_ticks(j, i) for j in node.before if j not in inside)
        after = (quotient.back_ticks(i, j) + tails[j] for j in node.after if j not in inside)
        head = max(head, max(before, default=0.0))
        tail = max(tail, max(after, default=0.0))
    return head + sum(quotient.nodes[i].span for i in nodes) + tail


def saved_ticks(quotient: Quotient, i: int, j: int) -> float:
    """Return the transfer time a merge saves: of their edge and of a copy of shared inputs."""
    first, second = quotient.nodes[i], quotient.nodes[j]
    between = first.after.get(j, set()) | first.before.get(j, set())
    shared: set[str] = set()
    for k in first.before.keys() & second.before.keys():
        shared |= first.before[k] & second.before[k]
    return quotient.travel_ticks(between) + quotient.travel_ticks(shared - between) / 2


def cost_of(
    quotient: Quotient,
    caps: Caps,
    size: Scale,
    pair: tuple[int, int],
    paths: tuple[dict[int, float], dict[int, float]],
) -> float | None:
    """Return the cost of merging two clusters, in ticks; ``None`` when beyond the caps.

    Two clusters that cost more to keep apart, in travel, than the smaller has work, may exceed
    the cap on work.
    """
    first, second = quotient.nodes[pair[0]], quotient.nodes[pair[1]]
    work = first.work + second.work
    path = path_through(quotient, list(pair), *paths)
    saved = saved_ticks(quotient, *pair)
    glued = saved >= min(first.work, second.work)
    if path - saved > caps.path or (work > caps.work and not glued):
        return None
    stretch = max(0.0, path - size.limit)
    return WEIGHT_OF_STRETCH * stretch + WEIGHT_OF_WORK * work - saved
