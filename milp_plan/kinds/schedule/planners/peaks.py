"""Low peaks: the same dispatchers, in devices made smaller and smaller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from milp_plan.core import Objective, Plan, PlanningProblem

from .dispatch import Rule, dispatch
from .indexed import indexed
from .objective import objective_value
from .planner import seedless
from .priorities import frugal_order

Attempt = Callable[[Sequence[int | None]], Plan | None]

_HALVINGS = 7


@seedless
def low_peak(problem: PlanningProblem) -> Plan | None:
    """Frugal and depth-first dispatch under a memory limit, bisected down to where they fail.

    Only for the objective ``peak_memory``.
    """
    if problem.objective is not Objective.PEAK_MEMORY:
        return None
    best: tuple[int, Plan] | None = None
    for order in (frugal_order(problem), problem.graph.depth_first_order):
        for rule in (Rule.LEAN, Rule.START):
            for headroom in (0, 1):
                attempt = partial(_attempt, problem, order, rule, headroom)
                best = _squeeze(problem, attempt, best)
    return None if best is None else best[1]


def _attempt(
    problem: PlanningProblem,
    order: Sequence[str],
    rule: Rule,
    headroom: int,
    memory: Sequence[int | None],
) -> Plan | None:
    return dispatch(
        problem, priority=order, rule=rule, insertion=False, memory=memory, headroom=headroom
    )


def _squeeze(
    problem: PlanningProblem, attempt: Attempt, best: tuple[int, Plan] | None
) -> tuple[int, Plan] | None:
    view = indexed(problem)
    plan = attempt(view.memory)
    if plan is None:
        return best
    value = objective_value(problem, plan)
    if best is None or value < best[0]:
        best = (value, plan)
    low, high = 0, best[0]
    for _ in range(_HALVINGS):
        if high - low <= 1:
            break
        middle = (low + high) // 2
        caps = [middle if limit is None else min(middle, limit) for limit in view.memory]
        plan = attempt(caps)
        if plan is None:
            low = middle
            continue
        value = objective_value(problem, plan)
        high = min(middle, value)
        if value < best[0]:
            best = (value, plan)
    return best
