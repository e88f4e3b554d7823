"""A plan as a start of a coarser problem: the same sites, options and orders, timed anew."""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.check import verify
from milp_plan.coarsen import Coarsening, coarsen
from milp_plan.core import Plan, PlanningProblem

from .dispatch import dispatch_order
from .retiming import Retiming

GROWTH = 1.5
"""Operators of the next problem tried, in terms of those of one that does not have the plan."""


def projected(coarsening: Coarsening, plan: Plan) -> Plan | None:
    """Return the valid plan of the coarse problem that decides what a plan decides.

    The best by the objective of those that keep its orders; ``None`` where a cluster is on
    several of its sites, or memory does not admit it: a cluster has all of its inputs and outputs
    from its start to its stop.

    Parameters
    ----------
    coarsening
        Of the plan's problem.
    plan
        A valid plan with times.
    """
    rough = coarsening.project(plan)
    if rough is None:
        return None
    best: tuple[int, Plan] | None = None
    for made in _timed(coarsening.problem, rough):
        verdict = None if made is None else verify(coarsening.problem, made)
        if made is None or verdict is None or not verdict.ok or verdict.value is None:
            continue
        if best is None or verdict.value < best[0]:
            best = verdict.value, made
    return None if best is None else best[1]


def _timed(problem: PlanningProblem, rough: Plan) -> Iterator[Plan | None]:
    timing = Retiming(problem, rough)
    for memory in (False, True):
        yield timing.earliest(memory=memory)
    if timing.placed and not problem.has_memory_ways:
        yield dispatch_order(problem, timing.placements, timing.order)


def coarsen_along(
    problem: PlanningProblem, plan: Plan, target: int
) -> tuple[Coarsening, Plan] | None:
    """Return a coarse problem that has a plan, and that plan as its start.

    Parameters
    ----------
    problem
        What the plan is of.
    plan
        Valid, with times.
    target
        Operators wanted. There are more where fewer have not got the plan.

    Returns
    -------
    tuple or None
        The start has the plan's sites and its orders on devices, and so has what becomes of it by
        ``undo``. Its value is the cutoff of the coarse problem. ``None`` where even small clusters
        do not fit.
    """
    size, count = target, len(problem.graph.operators)
    while size < count:
        coarsening = coarsen(problem, size, guide=plan)
        start = projected(coarsening, plan)
        if start is not None:
            return coarsening, start
        size = int(GROWTH * max(size, len(coarsening.problem.graph.operators)))
    return None
