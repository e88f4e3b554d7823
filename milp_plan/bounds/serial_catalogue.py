"""Bounds of problems under the serial law, by objective."""

from __future__ import annotations

import logging
from collections.abc import Callable

from milp_plan.serial import SerialGraph

from .bound import Bound, Deadline, OutOfTime
from .serial_load import class_bound, work_bound

logger = logging.getLogger(__name__)


def serial_bounds(graph: SerialGraph, deadline: Deadline) -> tuple[Bound, ...]:
    """Lower bounds on the largest load, simple ones first; those out of time are left out.

    For objective latency they hold as well: a device's calls run one after the other, and their
    loads together are no less than the load of all its classes at once.
    """
    found = [work_bound(graph)]
    makers: list[tuple[str, Callable[[], Bound]]] = [
        ("cheapest set", lambda: class_bound(graph, deadline)),
    ]
    for name, make in makers:
        try:
            deadline.check()
            found.append(make())
        except OutOfTime:
            logger.info("%s: bound %r left out, no time", graph.problem.name, name)
    return tuple(found)
