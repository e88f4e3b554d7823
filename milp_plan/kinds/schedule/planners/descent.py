"""Local search in placements of list schedulers: another option, or two sites exchanged.

A scheduler that takes the earliest finish of each operator in turn never pays for what comes later:
a gang that starts a chain sooner, but only on the site that the rest of the chain runs on. So every
option of every unit on every site is tried, as the plan stands and with the tenants of two sites
exchanged, until none of them is better. Nothing is drawn at random.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from milp_plan.core import Placement, Plan, PlanningProblem
from milp_plan.core.budget import Budget

from .dispatch import dispatch
from .indexed import Indexed, indexed
from .objective import objective_value
from .stage_cuts import Placements


def descended(
    problem: PlanningProblem, plan: Plan, most: int, budget: Budget | None = None
) -> Plan:
    """Return the plan, or a better one that local search finds.

    Parameters
    ----------
    problem, plan
        A valid plan of the problem.
    most
        Schedules that may be tried.
    budget
        None is tried when it is over.
    """
    view, value = indexed(problem), objective_value(problem, plan)
    tried = 0
    better = True
    while better:
        better = False
        placements: Placements = {run.operator: run.placement for run in plan.runs}
        starts = {run.operator: -float(run.start_ticks or 0) for run in plan.runs}
        for step in _steps(view, placements):
            if tried >= most or (budget is not None and budget.over):
                return plan
            tried += 1
            result = dispatch(problem, priority=starts, placements=step)
            if result is not None and objective_value(problem, result) < value:
                plan, value = result, objective_value(problem, result)
                better = True
                break
    return plan


def _steps(view: Indexed, placements: Mapping[str, Placement]) -> Iterator[Placements]:
    """Yield the placements one step away."""
    for tenants in _exchanged(view, placements):
        for unit, sites in enumerate(view.unit_sites):
            for site in sites:
                for choice in _choices(view, unit, site):
                    step = {**tenants, **choice}
                    if step != placements:
                        yield step


def _exchanged(view: Indexed, placements: Mapping[str, Placement]) -> Iterator[Placements]:
    """Yield the placements, and those with two sites exchanged where all operators allow it."""
    yield dict(placements)
    used = {placement.devices for placement in placements.values()}
    for first, second in combinations(view.site_names, 2):
        if not used.isdisjoint((first, second)):
            image = {first: second, second: first}
            moved = {
                name: Placement(option, image.get(devices, devices))
                for name, (option, devices) in placements.items()
            }
            if all(
                any(spot.placement == moved[name] for spot in spots)
                for name, spots in zip(view.names, view.spots, strict=True)
            ):
                yield moved


def _choices(view: Indexed, unit: int, site: int) -> Iterator[Placements]:
    """Placements of a unit's operators on a site: the fastest, and each other option of one."""
    here = {
        view.names[operator]: sorted(
            (spot for spot in view.spots[operator] if spot.site == site),
            key=lambda spot: spot.duration,
        )
        for operator in view.units[unit]
    }
    fastest = {name: spots[0].placement for name, spots in here.items()}
    yield fastest
    for name, spots in here.items():
        for spot in spots[1:]:
            yield {**fastest, name: spot.placement}
