"""All planners on one problem: the baselines of every table, and the first incumbent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from milp_plan.check import verify
from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.budget import Budget

from .baselines import PLANNERS
from .iterated import iterated_greedy
from .late import put_off
from .planner import Planner

OWN = "operator_schedule"
"""The formulation of every problem whose plans have times."""

QUICK = frozenset({"single_device", "list_critical_path", "heft", "etf_memory", "dfs_release"})
"""List schedules whose best plan is the start of a model with ``only``."""

FIRST_LISTS = ("heft", "list_critical_path", "list_most_successors", "etf_memory", "contiguous")
"""Planners that are best most often, or need little memory; they run before the others."""

LISTS = {name: PLANNERS[name] for name in dict.fromkeys((*FIRST_LISTS, *PLANNERS))}
del LISTS["iterated_greedy"]
"""List schedules: what makes a plan in one pass, without a search."""


def best_plan(
    problem: PlanningProblem,
    planners: Mapping[str, Planner] | None = None,
    *,
    seed: int = 0,
    budget: Budget | None = None,
    on_plan: Callable[[Plan], object] = lambda _plan: None,
    on_defect: Callable[[str], object] | None = None,
) -> tuple[Plan | None, dict[str, int | None]]:
    """Run planners, check every plan, keep the best.

    Where operators may run again or values may wait on hosts, they plan without.

    Parameters
    ----------
    problem
        What to plan.
    planners
        Name -> planner; all of :data:`PLANNERS` by default.
    seed
        Handed to every planner.
    budget
        No further planner is started when it is over; the first one always is. One of ours that
        goes on in rounds ends with it.
    on_plan
        Called at once with each plan that is better than those before, with its value claimed:
        what comes later may be interrupted.
    on_defect
        Called with a message when the plan of a planner breaks a law; the plan is ignored.

    Returns
    -------
    plan, values
        The best plan with its value claimed (``None`` if there is none), and the value per
        planner that was started (``None`` where it found no plan).

    Raises
    ------
    RuntimeError
        A planner returned a plan that breaks a law, and there is no ``on_defect``.
    """
    best: Plan | None = None
    values: dict[str, int | None] = {}
    plain = problem.without_memory_saving
    if planners is None:
        planners = PLANNERS | {"iterated_greedy": partial(iterated_greedy, budget=budget)}
    for name, planner in planners.items():
        if values and budget is not None and budget.over:
            break
        plan = planner(plain, seed=seed)
        if plan is None:
            values[name] = None
            continue
        plan = put_off(plain, plan)
        verdict = verify(problem, plan)
        if not verdict.ok or verdict.value is None:
            message = f"planner {name!r} broke a law: {verdict.violations[0]}"
            if on_defect is None:
                raise RuntimeError(message)
            on_defect(message)
            values[name] = None
            continue
        values[name] = verdict.value
        if best is None or best.value is None or verdict.value < best.value:
            best = plan.claimed(problem.objective.value, verdict.value, name)
            on_plan(best)
    return best, values


def list_start(problem: PlanningProblem) -> tuple[Plan, int] | None:
    """Return the best plan of the list schedules, and its value: the start of a model alone."""
    lists = {name: planner for name, planner in PLANNERS.items() if name in QUICK}
    plan, values = best_plan(problem, lists, on_defect=lambda _said: None)
    reached = [value for value in values.values() if value is not None]
    return None if plan is None else (plan, min(reached))
