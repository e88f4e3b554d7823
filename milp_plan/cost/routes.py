"""Routes of a value from its producer to its readers: the supply law, for planners.

The checker has its own reading of the same law (``milp_plan/check``); the two share no code.
"""

from __future__ import annotations

from dataclasses import dataclass

from milp_plan.core import FULL, Placement, PlanningProblem, Value
from milp_plan.core.schedule import transfer_resources


@dataclass(frozen=True, slots=True)
class Route:
    """A transfer that a pair of placements requires.

    ``key`` names the copy it makes, (value, target, layout): pairs with the same producer
    placement and the same key share one transfer.
    """

    value: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    layout: str
    duration_ticks: int
    resources: tuple[str, ...]

    @property
    def key(self) -> tuple[str, tuple[str, ...], str]:
        """Key of the copy that this transfer makes."""
        return (self.value, self.target, self.layout)


def routes(
    problem: PlanningProblem, value: Value, producer: Placement, consumer: str, reader: Placement
) -> tuple[Route, ...] | None:
    """Return the transfers that serve one consumer of a value.

    Parameters
    ----------
    problem, value
        A problem, and a value that has a producer.
    producer
        Placement of the operator that makes it.
    consumer, reader
        One of its consumers, and that operator's placement.

    Returns
    -------
    tuple of Route, or None
        Empty when the native copy serves; one send per missing device, or one reshard; ``None``
        when the law allows none (no channel, or no such change of layout).
    """
    graph = problem.graph
    assert value.producer is not None
    native = graph.operator(value.producer).option(producer.option).layout_written(value.name)
    needed = graph.operator(consumer).option(reader.option).layout_read(value.name)
    return route_between(problem, value, (producer.devices, native), (reader.devices, needed))


def route_between(
    problem: PlanningProblem,
    value: Value,
    made: tuple[tuple[str, ...], str],
    read: tuple[tuple[str, ...], str],
) -> tuple[Route, ...] | None:
    """Return :func:`routes` from (site, layout) to (site, layout)."""
    (source, native), (target, needed) = made, read
    if native == needed and (source == target or (native == FULL and set(target) <= set(source))):
        return ()
    if native == needed == FULL:
        sends = [_send(problem, value, source, d) for d in target if d not in source]
        return None if None in sends else tuple(send for send in sends if send is not None)
    duration = _reshard_ticks(problem, value, made, read)
    if duration is None:
        return None
    resources = transfer_resources(problem.cluster, source, target)
    return (Route(value.name, source, target, needed, duration, resources),)


def send_choices(
    problem: PlanningProblem, value: Value, route: Route, site: tuple[str, ...]
) -> tuple[Route, ...]:
    """Return all ways to make the copy of a route: a send may leave from any device of the site.

    ``route`` is one of :func:`routes`, from a producer at ``site``; a reshard has no alternative.
    """
    if len(site) == 1 or len(route.source) > 1:
        return (route,)
    sends = (_send(problem, value, (device,), route.target[0]) for device in site)
    return tuple(send for send in sends if send is not None)


def _send(
    problem: PlanningProblem, value: Value, source: tuple[str, ...], target: str
) -> Route | None:
    best: tuple[int, str] | None = None
    for device in source:
        channel = problem.cluster.channel(device, target)
        if channel is not None:
            ticks = channel.transfer_ticks(value.payload(FULL), value.messages)
            if best is None or ticks < best[0]:
                best = (ticks, device)
    if best is None:
        return None
    resources = transfer_resources(problem.cluster, (best[1],), (target,))
    return Route(value.name, (best[1],), (target,), FULL, best[0], resources)


def _reshard_ticks(
    problem: PlanningProblem,
    value: Value,
    made: tuple[tuple[str, ...], str],
    read: tuple[tuple[str, ...], str],
) -> int | None:
    (source, native), (target, needed) = made, read
    change: int | None = 0 if native == needed else value.reshard_ticks.get((native, needed))
    if change is None:
        return None
    if set(target) <= set(source) and native != needed:
        return change
    channel = problem.cluster.channel
    payload, messages = value.payload(needed), value.messages
    moves: list[int] = []
    if native == needed:
        for a, b in zip(source, target, strict=True):
            if a != b:
                link = channel(a, b)
                if link is None:
                    return None
                moves.append(link.transfer_ticks(payload, messages))
    else:
        for b in target:
            if b not in source:
                links = [link for a in source if (link := channel(a, b)) is not None]
                if not links:
                    return None
                moves.append(min(link.transfer_ticks(payload, messages) for link in links))
    return change + max(moves, default=0)
