"""Chain orders of planted problems."""

from __future__ import annotations

from milp_plan.core import Contiguity, PlanningProblem
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.placement.serial.graph import SerialGraph, read_serial
from milp_plan.kinds.placement.serial.operators import OperatorTables, operator_tables


def graph_of(problem: PlanningProblem) -> SerialGraph:
    """Return the hypergraph of a problem that has one."""
    graph = read_serial(problem)
    assert isinstance(graph, SerialGraph), graph
    return graph


def tables_of(problem: PlanningProblem) -> OperatorTables:
    """Return the tables of a problem that has them."""
    return operator_tables(graph_of(problem))


def planted_graph(seed: int, separate: bool | None = None) -> SerialGraph:
    """Return the hypergraph of a planted problem under the chain law."""
    problem, _ = planted_serial(seed, contiguous=True, separate=separate)
    assert problem.serial is not None
    assert problem.serial.contiguity is Contiguity.CHAIN
    return graph_of(problem)
