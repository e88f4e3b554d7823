"""Bounds on the latency of one sample under the serial law.

The strongest ones come from the ideals, where there are few enough: of the whole graph
(:mod:`~..serial.lattice`), which are searched for as long as the budget allows, or of the
segments between its gates (:mod:`.gates`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from milp_plan.core.amounts import size_text
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget

from ..serial.atoms import merge_idle
from ..serial.graph import SerialGraph
from ..serial.operators import OperatorTables, operator_tables
from .gates import gate_bound


def latency_bounds(
    graph: SerialGraph, budget: Budget, incumbent: int | None = None
) -> Iterator[Bound]:
    """Yield lower bounds on the latency, cheap ones first.

    Parameters
    ----------
    graph
        A problem with objective latency.
    budget
        Budget; bounds that are not done by then are left out.
    incumbent
        Ticks of a known plan.
    """
    tables = operator_tables(graph)
    yield from simple_bounds(tables)
    if not budget.over:
        bound = gate_bound(merge_idle(tables), lambda: budget.left_s, incumbent)
        if bound is not None:
            yield bound


def simple_bounds(tables: OperatorTables) -> Iterator[Bound]:
    """Yield the bounds that take no time."""
    yield path_bound(tables)
    yield memory_bound(tables)


def path_bound(tables: OperatorTables) -> Bound:
    """Longest path of operators, each at its fastest.

    Proof: along a path, an operator on a host starts after the one before it; operators of the
    path in one call are all part of its load; and a call starts after the operators outside it
    that it reads from.
    """
    value, end = _longest(tables, _fastest(tables))
    name = tables.graph.problem.graph.operators[tables.parts[end][0]].name if len(tables) else ""
    return Bound("critical path", value, f"the longest chain ends with {name!r}")


def memory_bound(tables: OperatorTables) -> Bound:
    """Longest path, where devices cannot hold all classes: some are on a host.

    Proof: classes with more bytes than one device are on a host; each of their operators takes
    its host time. Of all others at most the bytes of all devices together are on devices, so that
    at least ``spill`` bytes are on hosts. Take the classes in order of the longest path through
    one of their operators at its host time, smallest first, until they have that many bytes: any
    choice of classes with that many bytes contains one with a path at least as long as the last
    one taken.
    """
    memory = tables.graph.memory
    work = _fastest(tables)
    if memory is None:
        value, _ = _longest(tables, work)
        return Bound("path with memory", value, "devices have no limit of memory")
    large = [kind for kind, size in enumerate(tables.size) if size > memory]
    for kind in large:
        for i in tables.members[kind]:
            work[i] = tables.host_work[i] or 0
    value, _ = _longest(tables, work)
    spill = sum(tables.size) - sum(tables.size[k] for k in large)
    spill -= memory * len(tables.graph.payers)
    left = size_text(tables.graph.problem.units, max(0, spill))
    detail = f"{len(large)} classes are too large for a device, {left} are left over"
    if spill <= 0:
        return Bound("path with memory", value, detail)
    through = _through(tables, work)
    held = 0
    for length, size in sorted(
        (max(through[i] for i in members), tables.size[kind])
        for kind, members in enumerate(tables.members)
        if kind not in large and members
    ):
        held += size
        if held >= spill:
            value = max(value, length)
            break
    return Bound("path with memory", value, detail)


def proved(name: str, value: float, tables: OperatorTables, detail: str) -> Bound:
    """Return a bound in the unit of the source, less its margin, in whole ticks."""
    return Bound(name, max(0, ceil(value * (1 - 1e-12) * tables.graph.scale)), detail)


def _fastest(tables: OperatorTables) -> list[int]:
    return [
        min([ticks for ticks in pair if ticks is not None], default=0)
        for pair in zip(tables.work, tables.host_work, strict=True)
    ]


def _heads(tables: OperatorTables, work: Sequence[int]) -> list[int]:
    """Return the longest path up to the start of each operator."""
    head = [0] * len(tables)
    for i in tables.order:
        head[i] = max((head[source] + work[source] for source in tables.before[i]), default=0)
    return head


def _longest(tables: OperatorTables, work: Sequence[int]) -> tuple[int, int]:
    head = _heads(tables, work)
    ends = [head[i] + work[i] for i in range(len(tables))]
    last = max(range(len(ends)), key=ends.__getitem__, default=0)
    return (ends[last] if ends else 0), last


def _through(tables: OperatorTables, work: Sequence[int]) -> list[int]:
    """Return the longest path through each operator, with that operator at its host time."""
    head, tail = _heads(tables, work), [0] * len(tables)
    for i in reversed(tables.order):
        tail[i] = max((tail[reader] + work[reader] for reader in tables.after[i]), default=0)
    return [head[i] + (tables.host_work[i] or 0) + tail[i] for i in range(len(tables))]
