"""Panels of a sharding plan: memory in use at every instant, and the most expensive operators."""

from __future__ import annotations

from itertools import accumulate

from milp_plan.core import Finding, InputError, Units
from milp_plan.core.sharding import ShardingPlan, ShardingProblem
from milp_plan.draw.canvas import Scale, size_scale, time_scale
from milp_plan.draw.panels import Axis, Curve, Panel, row_box

from .check import verify_sharding

FLAT = 4
"""Multiple of the peak above which a limit is a note, not a line: the curve would be flat."""

MAX_NAMED = 20
"""Largest number of operators whose strategies are named."""


def usage_panels(problem: ShardingProblem, plan: ShardingPlan) -> tuple[Panel, ...]:
    """Return the memory in use at every instant and its limit, and the most expensive operators.

    Operators are drawn where strategies have names.

    Raises
    ------
    InputError
        The plan does not choose a strategy for every operator.
    """
    verdict = verify_sharding(problem, plan)
    if any(violation.rule == "assignment" for violation in verdict.violations):
        expected = f"a strategy for each of {len(problem.operators)} operators"
        raise InputError([Finding("plan", "other choices", expected, "plan the instance again")])
    instants, used = _used(problem, plan)
    panels = [_memory(problem, instants, used)] if instants else []
    if problem.labels:
        panels.append(_dearest(problem, plan))
    return tuple(panels)


def _memory(problem: ShardingProblem, instants: list[int], used: list[int]) -> Panel:
    limit = problem.limit
    near = limit is not None and limit <= FLAT * max(used)
    scale = size_scale(Units(), max([*used, (limit or 0) if near else 0]))
    points = [(at, scale(amount)) for at, amount in zip(instants, used, strict=True)]
    curves, notes = [Curve("in use", points, "#0072B2")], []
    if limit is not None and near:
        ends = [(at, scale(limit)) for at in (instants[0], instants[-1])]
        curves.append(Curve("limit", ends, "#D55E00", limit=True))
    elif limit is not None:
        notes.append(f"The limit, {size_scale(Units(), limit).text(limit)}, is far above.")
    x, y = Axis("instant", Scale(1, "")), Axis("memory", scale)
    return Panel("Memory at every instant", x, y, curves=curves, notes=notes, from_zero=True)


def _dearest(problem: ShardingProblem, plan: ShardingPlan) -> Panel:
    """Return a bar for each of the most expensive operators, with the name of its strategy."""
    table = problem.strategies
    costs = [int(table.cost[int(table.offsets[k]) + pick]) for k, pick in enumerate(plan.chosen)]
    which = sorted(range(len(costs)), key=lambda k: -costs[k])[:MAX_NAMED]
    most = max(costs, default=0)
    scale = Scale(1, "") if problem.units is None else time_scale(problem.units, most)
    rows = [problem.operators[k] for k in which]
    labels = [problem.label(k, plan.chosen[k]) for k in which]
    boxes = [
        row_box(row, labels[row], (0, scale(costs[k])), "cost", rows[row], tooltip=labels[row])
        for row, k in enumerate(which)
    ]
    more = len(costs) - len(which)
    return Panel(
        "Most expensive operators",
        Axis("cost of the strategy", scale),
        rows=rows,
        ends=labels,
        boxes=boxes,
        fills={"cost": "#56B4E9"},
        notes=[f"{more:,} operators cost less."] if more else [],
    )


def _used(problem: ShardingProblem, plan: ShardingPlan) -> tuple[list[int], list[int]]:
    """Return instants at which memory changes, and the bytes from then on."""
    changes: dict[int, int] = {}
    rows = problem.strategies.offsets[:-1] + list(plan.chosen)
    used = problem.strategies.usage[rows].tolist()
    for (start, stop), usage in zip(problem.intervals.tolist(), used, strict=True):
        if start < stop:
            changes[start] = changes.get(start, 0) + usage
            changes[stop] = changes.get(stop, 0) - usage
    instants = sorted(changes)
    return instants, list(accumulate(changes[instant] for instant in instants))
