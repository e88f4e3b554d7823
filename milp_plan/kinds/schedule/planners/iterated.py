"""Iterated greedy: take part of a plan apart, let the dispatcher put it together again.

Compare R. Ruiz and T. Stützle, "A simple and effective iterated greedy algorithm for the
permutation flowshop scheduling problem", European Journal of Operational Research 177 (2007).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.budget import Budget

from .descent import descended
from .dispatch import Rule, dispatch
from .indexed import Indexed, indexed
from .lists import (
    dfs_release,
    etf_memory,
    heft,
    list_critical_path,
    list_most_successors,
    list_topological,
    single_device,
)
from .objective import objective_value
from .peaks import low_peak
from .priorities import bottom_levels, frugal_order
from .splits import contiguous, round_robin_blocks
from .stage_cuts import Placements

_EFFORT = 45_000
"""Operators scheduled in all, about."""
_MOST_ROUNDS = 120
_SMALL, _STEPS = 60, 1_000
"""Operators up to which a descent ends the search, and schedules that it may try."""
_FIRST = (
    single_device,
    list_topological,
    list_critical_path,
    list_most_successors,
    heft,
    etf_memory,
    dfs_release,
    contiguous,
    round_robin_blocks,
    low_peak,
)
_RULES = (Rule.FINISH, Rule.START, Rule.LEAN)


def iterated_greedy(
    problem: PlanningProblem, seed: int = 0, budget: Budget | None = None
) -> Plan | None:
    """Return the best plan of the other planners, or of random dispatches, improved iteratively.

    Each round frees the placements of some units, mostly neighbours, and schedules all again in
    nearly the order of the plan at hand; an equal or better plan takes its place. Small problems
    end with steps that nothing above takes (:func:`descended`). When the budget is over, no round
    begins, and of the other planners only the first one runs.
    """
    budget = budget or Budget()
    view = indexed(problem)
    rng = Random(seed)
    rounds = min(_MOST_ROUNDS, max(8, _EFFORT // view.num_operators))
    best = _start(problem, rng, rounds, budget)
    if best is None:
        return None
    value, plan = best
    for _ in range(rounds):
        if budget.over:
            return plan
        result = _round(problem, view, plan, rng)
        if result is None:
            continue
        new = objective_value(problem, result)
        if new <= value:
            value, plan = new, result
    return descended(problem, plan, _STEPS, budget) if view.num_operators <= _SMALL else plan


def _start(
    problem: PlanningProblem, rng: Random, rounds: int, budget: Budget
) -> tuple[int, Plan] | None:
    plans: list[Plan] = []
    for number, planner in enumerate(_FIRST):
        if number and budget.over:
            break
        if (plan := planner(problem)) is not None:
            plans.append(plan)
    if not plans:
        plans = _random_plans(problem, rng, rounds, budget)
    best: tuple[int, Plan] | None = None
    for plan in plans:
        value = objective_value(problem, plan)
        if best is None or value < best[0]:
            best = (value, plan)
    return best


def _random_plans(problem: PlanningProblem, rng: Random, rounds: int, budget: Budget) -> list[Plan]:
    """Dispatch at random until one plan comes out, for at most ``rounds`` rounds."""
    view = indexed(problem)
    for number in range(rounds):
        if budget.over:
            break
        share = rng.random()
        fixed = _random_placements(view, rng, share)
        priority = {name: rng.random() for name in view.names}
        plan = dispatch(
            problem,
            priority=priority if number % 2 else frugal_order(problem),
            placements=fixed,
            rule=rng.choice(_RULES),
            insertion=rng.random() < 0.5,
            headroom=rng.choice((0, 1)),
        )
        if plan is not None:
            return [plan]
    return []


def _random_placements(view: Indexed, rng: Random, share: float) -> Placements:
    placements: Placements = {}
    for unit, sites in enumerate(view.unit_sites):
        if rng.random() < share:
            site = rng.choice(sites)
            for operator in view.units[unit]:
                here = [spot for spot in view.spots[operator] if spot.site == site]
                placements[view.names[operator]] = rng.choice(here).placement
    return placements


def _round(problem: PlanningProblem, view: Indexed, plan: Plan, rng: Random) -> Plan | None:
    starts = {run.operator: run.start_ticks or 0 for run in plan.runs}
    placements = {run.operator: run.placement for run in plan.runs}
    for unit in _freed_units(view, starts, rng):
        for operator in view.units[unit]:
            del placements[view.names[operator]]
    kind = rng.random()
    if kind < 0.4:
        priority = _jittered(bottom_levels(problem), rng)
    else:
        span = max(1, plan.stop_ticks)
        blur = rng.choice((0.0, 0.0, 0.02, 0.1))
        priority = {name: -(start / span) - blur * rng.random() for name, start in starts.items()}
    return dispatch(
        problem,
        priority=priority,
        placements=placements,
        rule=rng.choice(_RULES[:2]),
        insertion=rng.random() < 0.8,
    )


def _jittered(levels: dict[str, float], rng: Random) -> dict[str, float]:
    spread = rng.choice((0.0, 0.05, 0.2))
    return {name: level * (1 + spread * rng.random()) for name, level in levels.items()}


def _freed_units(view: Indexed, starts: dict[str, int], rng: Random) -> Sequence[int]:
    """Return the units whose operators start about the same time, or any units."""
    count = max(1, min(len(view.units), round(len(view.units) * rng.choice((0.0, 0.05, 0.2, 0.5)))))
    units = range(len(view.units))
    if rng.random() < 0.3:
        return rng.sample(units, count)
    in_time = sorted(units, key=lambda unit: starts[view.names[view.units[unit][0]]])
    first = rng.randrange(len(in_time) - count + 1)
    return in_time[first : first + count]
