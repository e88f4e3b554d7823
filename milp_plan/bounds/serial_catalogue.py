"""Bounds of problems under the serial law, by objective."""

from __future__ import annotations

import logging
from collections.abc import Callable

from milp_plan.serial import SerialGraph

from .bound import Bound, Deadline, OutOfTime
from .serial_latency import latency_bounds
from .serial_load import class_bound, work_bound
from .serial_pigeonhole import pigeonhole_bound

logger = logging.getLogger(__name__)


def serial_bounds(
    graph: SerialGraph, deadline: Deadline, upper: int | None = None
) -> tuple[Bound, ...]:
    """Lower bounds on the objective, simple ones first; those out of time are left out.

    ``upper`` is the value of a known plan, which helps some of them to choose what to look at.

    Those on the largest load say nothing about latency, where a host runs operators side by side.
    """
    if graph.law.calls is not None:
        return latency_bounds(graph, deadline)
    found = [work_bound(graph)]

    def pigeonhole() -> Bound | None:
        lower = max(bound.value for bound in found)
        return pigeonhole_bound(graph, lower, deadline, upper)

    makers: list[tuple[str, Callable[[], Bound | None]]] = [
        ("cheapest set", lambda: class_bound(graph, deadline)),
        ("pigeonhole", pigeonhole),
    ]
    for name, make in makers:
        try:
            deadline.check()
            bound = make()
            if bound is not None:
                found.append(bound)
        except OutOfTime:
            logger.info("%s: bound %r left out, no time", graph.problem.name, name)
    return tuple(found)
