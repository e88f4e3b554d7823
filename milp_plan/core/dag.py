"""Orders and paths of acyclic graphs: what every room counts down in the same way."""

from __future__ import annotations

from .graph import ComputationGraph


def depth(graph: ComputationGraph) -> int:
    """Operators on the longest path."""
    found: dict[str, int] = {}
    for name in graph.topological_order:
        found[name] = 1 + max((found[other] for other in graph.predecessors[name]), default=0)
    return max(found.values(), default=0)
