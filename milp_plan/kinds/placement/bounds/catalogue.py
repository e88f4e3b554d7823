"""Bounds of problems under the serial law, by objective."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget, OutOfTime

from ..serial.graph import SerialGraph
from .latency import latency_bounds
from .load import class_bound, work_bound
from .pigeonhole import pigeonhole_bound

logger = logging.getLogger(__name__)


def serial_bounds(
    graph: SerialGraph, budget: Budget, incumbent: int | None = None
) -> Iterator[Bound]:
    """Yield lower bounds on the objective, simple ones first; those out of time are left out.

    ``incumbent`` is the value of a known plan, which guides the choices of some bounds.

    Bounds on the largest load do not apply to latency, where a host runs operators concurrently.
    """
    if graph.law.calls is not None:
        yield from latency_bounds(graph, budget, incumbent)
        return
    best = work_bound(graph)
    yield best
    makers: list[tuple[str, Callable[[], Bound | None]]] = [
        ("cheapest set", lambda: class_bound(graph, budget)),
        ("pigeonhole", lambda: pigeonhole_bound(graph, best.value, budget, incumbent)),
    ]
    for name, make in makers:
        try:
            budget.check()
            bound = make()
        except OutOfTime:
            logger.info("%s: bound %r left out, no time", graph.problem.name, name)
            continue
        if bound is not None:
            best = max(best, bound, key=lambda entry: entry.value)
            yield bound
