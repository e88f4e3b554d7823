"""Picture of a sharding plan: memory in use at every instant, against the limit."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from milp_plan.check.sharding import verify_sharding
from milp_plan.core import Finding, InputError, Units, Verdict
from milp_plan.core.amounts import time_text
from milp_plan.core.sharding import ShardingPlan, ShardingProblem

from .canvas import Scale, axis_label, new_figure, size_scale, time_scale
from .panels import Axis, Curve, Panel
from .style import drawing_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


FLAT = 4
"""Limits above so many times the peak are told, not drawn: the curve would lie flat."""

MOST = 20
"""Operators whose strategies are named."""


def _dearest(axes: Axes, problem: ShardingProblem, plan: ShardingPlan, which: list[int]) -> None:
    """A bar for each of the dearest operators, with the name of its strategy."""
    offsets = problem.strategies.offsets
    costs = [int(problem.strategies.cost[int(offsets[k]) + plan.chosen[k]]) for k in which]
    scale = Scale(1, "") if problem.units is None else time_scale(problem.units, max(costs))
    axes.barh(range(len(which)), [scale(cost) for cost in costs], color="#56B4E9")
    for place, k in enumerate(which):
        text = f" {problem.label(k, plan.chosen[k])}"
        axes.text(0, place, text, verticalalignment="center", fontsize=6)
    axes.set_yticks(range(len(which)), [problem.operators[k] for k in which])
    axes.invert_yaxis()
    more = len(problem.operators) - len(which)
    unit = f" ({scale.unit})" if scale.unit else ""
    others = f"; {more:,} operators cost less" if more else ""
    axes.set_xlabel(f"cost of the strategy{unit}{others}")


def usage_figure(problem: ShardingProblem, plan: ShardingPlan) -> Figure:
    """Draw a plan, valid or not.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    InputError
        It does not choose a strategy for every operator.
    """
    verdict = verify_sharding(problem, plan)
    instants, held = _held(problem, plan, verdict)
    shown = problem.limit is not None and problem.limit <= FLAT * max(held, default=0)
    limit = problem.limit or 0
    scale = size_scale(Units(), max([*held, limit if shown else 0], default=0))
    named = bool(problem.labels)
    table = problem.strategies
    costs = [int(table.cost[int(table.offsets[k]) + pick]) for k, pick in enumerate(plan.chosen)]
    dearest = sorted(range(len(costs)), key=lambda k: -costs[k])[:MOST]
    figure = new_figure(9.0, 3.2 + 0.17 * len(dearest) if named else 3.0)
    with drawing_style():
        from matplotlib.ticker import MaxNLocator

        if named:
            axes, below = figure.subplots(2, 1, height_ratios=[3.0, 0.4 + 0.17 * len(dearest)])
            _dearest(below, problem, plan, dearest)
        else:
            axes = figure.subplots()
        amounts = [scale(amount) for amount in held]
        axes.step(instants, amounts, where="post", color="#0072B2")
        if shown:
            axes.axhline(scale(limit), color="black", linewidth=0.8, linestyle="--")
        axes.set_ylim(0, 1.05 * max([*amounts, scale(limit) if shown else 0.0], default=0) or None)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        above = f"; the limit, {size_scale(Units(), limit).text(limit)}, is far above"
        axes.set_xlabel("instant" + (above if problem.limit is not None and not shown else ""))
        axes.set_ylabel(axis_label("memory", scale))
        cost = "" if verdict.value is None else f": total cost {_cost(problem, verdict.value)}"
        axes.set_title(f"{problem.name}{cost}", loc="left")
    return figure


def _cost(problem: ShardingProblem, value: int) -> str:
    return f"{value:,}" if problem.units is None else time_text(problem.units, value)


def usage_panels(problem: ShardingProblem, plan: ShardingPlan) -> tuple[Panel, ...]:
    """Return the memory in use at every instant and its limit.

    Raises
    ------
    InputError
        The plan does not choose a strategy for every operator.
    """
    instants, held = _held(problem, plan, verify_sharding(problem, plan))
    if not instants:
        return ()
    scale = size_scale(Units(), max([*held, problem.limit or 0]))
    points = [(at, scale(amount)) for at, amount in zip(instants, held, strict=True)]
    curves = [Curve("in use", points, "#0072B2")]
    if problem.limit is not None:
        ends = [(instants[0], scale(problem.limit)), (instants[-1], scale(problem.limit))]
        curves.append(Curve("limit", ends, "#D55E00", limit=True))
    x, y = Axis("instant", Scale(1, "")), Axis("memory", scale)
    return (Panel("Memory at every instant", x, y, curves=curves, from_zero=True),)


def _held(
    problem: ShardingProblem, plan: ShardingPlan, verdict: Verdict
) -> tuple[list[int], list[int]]:
    """Instants at which memory changes, and the bytes from then on."""
    if any(violation.rule == "assignment" for violation in verdict.violations):
        expected = f"a strategy for each of {len(problem.operators)} operators"
        raise InputError([Finding("plan", "other choices", expected, "plan the instance again")])
    changes: dict[int, int] = {}
    rows = problem.strategies.offsets[:-1] + list(plan.chosen)
    used = problem.strategies.usage[rows].tolist()
    for (start, stop), usage in zip(problem.intervals.tolist(), used, strict=True):
        if start < stop:
            changes[start] = changes.get(start, 0) + usage
            changes[stop] = changes.get(stop, 0) - usage
    instants = sorted(changes)
    held = list(accumulate(changes[instant] for instant in instants))
    return instants, held
