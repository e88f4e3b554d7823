"""Fewer micro-batches at once, for tight memory: each begins after an earlier one has ended.

A schedule that never waits starts as many forward passes as it can, and what they keep may leave no
room for anything backward. With a gate, the first operators of micro-batch ``m`` wait for the last
ones of micro-batch ``m - w``, as in one-forward-one-backward schedules (Narayanan et al., SOSP
2019). The gate is a value of no bytes; without it, a schedule obeys the same laws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from milp_plan.core import FULL, InputError, Plan, PlanningProblem, Value
from milp_plan.core.budget import Budget

from ..decoder import Decoder, compiled_problem
from ..decoder.layout import LIMITED
from ..indexed import indexed
from .portfolio import Start, best_starts, placed
from .structure import Pass, Structure, structure

FEWER_SCHEDULES = 200
"""Most schedules for each number of micro-batches at once."""


class Gated(NamedTuple):
    """The best start for some number of micro-batches at once.

    Parameters
    ----------
    window
        How many; ``None`` without a gate.
    problem
        The problem with its gates.
    start
        A start of that problem.
    plan
        Its plan, of the problem without gates.
    """

    window: int | None
    problem: PlanningProblem
    start: Start
    plan: Plan


def memory_binds(problem: PlanningProblem) -> bool:
    """Return whether a device has a memory limit that plans can exceed."""
    return bool(compiled_problem(problem).memory.size(LIMITED))


def best_gated(
    problem: PlanningProblem, budget: Budget | None = None, *, most: int = FEWER_SCHEDULES
) -> Gated | None:
    """Return the best construction with or without gates; ``None`` if nothing fits.

    Parameters
    ----------
    problem
        What to plan. Gates are tried where it has micro-batches and memory binds.
    budget
        Nothing further is begun when it is over.
    most
        Schedules for each number of micro-batches at once.
    """
    budget = budget or Budget()
    best: Gated | None = None
    for window in _windows(problem):
        if budget.over and best is not None:
            break
        result = _constructed(problem, window, budget, most)
        if result is not None and (best is None or result.plan.stop_ticks < best.plan.stop_ticks):
            best = result
    return best


def _windows(problem: PlanningProblem) -> Iterator[int | None]:
    """No gate, then fewer and fewer micro-batches at once; of many, not every number."""
    yield None
    window = structure(problem).num_batches
    if indexed(problem).memory_binds:
        while window > 1:
            window -= max(1, window // 4 if window > 8 else 1)
            yield window


def _constructed(
    problem: PlanningProblem, window: int | None, budget: Budget, most: int
) -> Gated | None:
    try:
        narrow = problem if window is None else gated(problem, window)
    except InputError:
        return None  # a later micro-batch goes ahead of an earlier one: gates close a cycle
    decoder = Decoder(narrow)
    starts = best_starts(narrow, decoder, budget, count=1, most=most, window=window)
    if not starts:
        return None
    value = decoder.decode(*placed(decoder, starts[0]))
    assert value == starts[0].value, "a start that leads to another schedule"
    return Gated(window, narrow, starts[0], ungated(problem, decoder.plan("constructions")))


def gated(problem: PlanningProblem, window: int) -> PlanningProblem:
    """Return the problem with at most ``window`` micro-batches at once.

    Parameters
    ----------
    problem
        A problem with micro-batches.
    window
        At least 1.
    """
    result = structure(problem)
    known = {value.name for value in problem.graph.values}
    gates: list[Value] = []
    for operator, last in _ends(result, window):
        name = _unused(f"gate {len(gates)}", known)
        names = result.view.names
        gates.append(Value(name, names[last], (names[operator],), {FULL: 0}))
    graph = replace(problem.graph, values=(*problem.graph.values, *gates))
    return replace(problem, graph=graph)


def ungated(problem: PlanningProblem, plan: Plan) -> Plan:
    """Return a plan of a problem with gates as one of the problem without them."""
    known = {value.name for value in problem.graph.values}
    return replace(plan, transfers=tuple(t for t in plan.transfers if t.value in known))


def _ends(found: Structure, window: int) -> list[tuple[int, int]]:
    """Return the first operators of a micro-batch, each with the operator it waits for."""
    view, batches = found.view, found.num_batches
    rows: list[list[int]] = [[] for _ in range(batches + 1)]
    for operator in view.topological:
        rows[found.batch[operator]].append(operator)
    ends = []
    for batch in range(window, batches):
        before = rows[batch - window]
        for operator in rows[batch]:
            if any(found.batch[other] == batch for other in view.predecessors[operator]):
                continue
            unit = view.unit[operator]
            own = [
                other
                for other in before
                if view.unit[other] == unit and found.passes[other] is not Pass.FORWARD
            ]
            ends.append((operator, own[-1] if own else before[-1]))
    return ends


def _unused(name: str, known: set[str]) -> str:
    while name in known:
        name += "'"
    return name
