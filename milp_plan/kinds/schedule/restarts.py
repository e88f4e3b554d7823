"""Plans of a placement problem that keep what a plan from elsewhere decides, the nearest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from milp_plan.core import Finding, InputError, Plan, PlanningProblem
from milp_plan.run.kind import Restart

from .planners.dispatch import dispatch_order
from .planners.earliest import dispatch_earliest
from .planners.retiming import Retiming


def placement_restarts(problem: PlanningProblem, plan: Plan) -> Iterator[Restart]:
    """Yield the plan with times recomputed; later, or in another order, where memory requires it.

    Raises
    ------
    InputError
        The plan names an option or a device that the problem does not have.
    """
    findings = list(_unknown(problem, plan))
    if findings:
        raise InputError(findings)
    if problem.serial is not None:
        runs = tuple(replace(run, start_ticks=None, stop_ticks=None) for run in plan.runs)
        yield Restart(Plan(problem.name, runs, planner=plan.planner), "its value is recomputed")
        return
    timing = Retiming(problem, plan)
    for memory in (False, True):
        made = timing.earliest(memory=memory)
        if made is not None:
            late = "; later where memory asks for it, in the plan's order" if memory else ""
            yield Restart(made, _said(timing, made) + late)
    yield from _reordered(problem, plan, timing)


def _reordered(problem: PlanningProblem, plan: Plan, timing: Retiming) -> Iterator[Restart]:
    """Yield what list scheduling makes of the places and the order, or of the order alone."""
    single, order, placements = problem.without_memory_saving, timing.order, timing.placements
    tries: tuple[tuple[str, Callable[[], Plan | None]], ...] = (
        ("later where memory asks for it", lambda: dispatch_order(single, placements, order)),
        (
            "memory does not admit its order, which is a hint; its places are kept",
            lambda: dispatch_earliest(single, priority=order, placements=placements),
        ),
        (
            "its places cannot be kept; its order is a hint",
            lambda: dispatch_earliest(single, priority=order),
        ),
    )
    for reason, attempt in tries:
        made = attempt() if timing.placed or "cannot" in reason else None
        if made is not None:
            made = replace(made, planner=plan.planner, fingerprint=None, value=None)
            once = "; each operator runs once" if timing.several or timing.waits else ""
            yield Restart(replace(made, problem=problem.name), f"times recomputed: {reason}{once}")


def _said(timing: Retiming, made: Plan) -> str:
    if not timing.timed:
        return "times recomputed: the plan has places and order alone"
    count = timing.different(made)
    if not count:
        return "times recomputed: durations are the same"
    return f"times recomputed: {count:,} duration{' differs' if count == 1 else 's differ'}"


def _unknown(problem: PlanningProblem, plan: Plan) -> Iterator[Finding]:
    remedy = "rename it in the plan, or plan again"
    devices = set(problem.cluster.device_names)
    values = {value.name for value in problem.graph.values}
    used = {name for run in plan.runs for name in run.devices}
    used |= {name for trip in plan.transfers for name in (*trip.source, *trip.target)}
    for name in sorted(used - devices):
        yield Finding("start plan", f"device {name!r}", "a device of the problem", remedy)
    for name in sorted({trip.value for trip in plan.transfers} - values):
        yield Finding("start plan", f"value {name!r}", "a value of the problem", remedy)
    for run in plan.runs:
        options = [option.name for option in problem.graph.operator(run.operator).options]
        if run.option not in options:
            result = f"option {run.option!r} of operator {run.operator!r}"
            yield Finding("start plan", result, f"one of {', '.join(options)}", remedy)
