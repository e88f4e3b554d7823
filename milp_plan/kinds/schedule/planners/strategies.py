"""Sharding first, places and times after: the baseline that separates the two decisions.

A search over strategies, devices and times together starts from this plan, and so is never worse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from milp_plan.core import Option, Plan, PlanningProblem

from .lists import heft, list_critical_path, list_topological
from .objective import objective_value
from .planner import seedless

AFTER = (list_topological, list_critical_path, heft)
"""List schedules that plan places and times after the options are chosen."""


@seedless
def sharding_first(problem: PlanningProblem) -> Plan | None:
    """Cheapest strategies in all, of all meshes or of the largest; then a schedule of them."""
    plans = [
        plan for left in _left(problem) for planner in AFTER if (plan := planner(left)) is not None
    ]
    best = min(plans, key=lambda plan: objective_value(problem, plan), default=None)
    return None if best is None else replace(best, fingerprint=None)


def _left(problem: PlanningProblem) -> Iterator[PlanningProblem]:
    """The problem with one option per operator, unless those of a group have no site in common."""
    gangs = {o.gang for op in problem.graph.operators for o in op.options if _fits(problem, o)}
    if gangs <= {1} or not problem.needs_schedule:
        return
    from milp_plan.cost.first import strategies_first, with_options
    from milp_plan.elimination.repeated import repeated
    from milp_plan.elimination.search import Caps, eliminate

    caps = Caps(largest=10**6, entries=10**8, stored=10**7)  # a second
    for offered in filter(None, (_only(problem, gangs), _only(problem, {max(gangs)}))):
        sharding = strategies_first(offered)
        result = eliminate(repeated(sharding), caps).chosen
        if result is not None:
            starts = sharding.strategies.offsets[:-1].tolist()
            names = [sharding.labels[s + pick] for s, pick in zip(starts, result, strict=True)]
            left = with_options(problem, dict(zip(sharding.operators, names, strict=True)))
            if left.unplaced is None:
                yield left


def _fits(problem: PlanningProblem, option: Option) -> bool:
    return bool(problem.cluster.sites_of(option.gang, option.duration_ticks))


def _only(problem: PlanningProblem, gangs: set[int]) -> PlanningProblem | None:
    """Return the problem with only the options that fit and use these numbers of devices.

    ``None`` where an operator has none, or a colocation group has no site in common.
    """
    operators = tuple(
        replace(
            operator,
            options=tuple(o for o in operator.options if o.gang in gangs and _fits(problem, o)),
        )
        for operator in problem.graph.operators
    )
    if not all(operator.options for operator in operators):
        return None
    rest = replace(problem, graph=replace(problem.graph, operators=operators))
    return rest if rest.unplaced is None else None
