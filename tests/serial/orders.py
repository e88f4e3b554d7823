"""Chain orders of planted problems."""

from __future__ import annotations

from milp_plan.core import Contiguity, PlanningProblem
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.placement.serial.graph import SerialGraph, read_serial


def graph_of(problem: PlanningProblem) -> SerialGraph:
    """Return the hypergraph of a problem that has one."""
    graph = read_serial(problem)
    assert isinstance(graph, SerialGraph), graph
    return graph


def planted_graph(seed: int, separate: bool | None = None) -> SerialGraph:
    """Return the hypergraph of a planted problem under the chain law."""
    problem, _ = planted_serial(seed, contiguous=True, separate=separate)
    assert problem.serial is not None
    assert problem.serial.contiguity is Contiguity.CHAIN
    return graph_of(problem)
