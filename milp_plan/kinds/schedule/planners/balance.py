"""Load balancing for the steady state: placements without times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from random import Random

from milp_plan.core import MemoryLaw, Objective, OperatorRun, Plan, PlanningProblem, Transfer

from .dispatch import dispatch
from .indexed import Indexed, Spot, indexed
from .loads import Loads
from .objective import objective_value
from .priorities import frugal_order
from .splits import contiguous_placements
from .stage_cuts import Placements

_STEPS = 40_000
"""Most moves per start, divided by the mean number of operators in a unit."""
_CUTS = 6
_SCHEDULED_SHARE = 16
"""Where busy time is not the objective the search is this many times shorter, from one start."""


def balance_load(problem: PlanningProblem, seed: int = 0) -> Plan | None:
    """Unit by unit where the largest load grows least, then the best single moves.

    Starts from the heaviest unit first (Graham 1969), from topological order and from
    consecutive stages; transfers count as load of the channels or ports they hold.
    """
    view = indexed(problem)
    static = problem.memory_law is MemoryLaw.STATIC
    limits = view.memory
    best: tuple[int, Plan] | None = None
    goal = problem.objective is Objective.BOTTLENECK
    steps = _STEPS * len(view.units) // view.num_operators
    starts = _starts(view, limits) if goal else islice(_starts(view, limits), 1)
    for loads in starts:
        improve(view, loads, Random(seed), steps if goal else steps // _SCHEDULED_SHARE)
        # Without the static law the sum over time is pessimistic: the dispatcher decides.
        fits = loads.feasible or not (loads.broken or static)
        plan = _plan(problem, loads) if fits else None
        if plan is not None:
            value = objective_value(problem, plan)
            if best is None or value < best[0]:
                best = (value, plan)
    return None if best is None else best[1]


def _starts(view: Indexed, limits: Sequence[int | None]) -> Iterable[Loads]:
    heavy = sorted(range(len(view.units)), key=lambda unit: -_work(view, unit))
    for order in (heavy, range(len(view.units))):
        yield _greedy(view, limits, order)
    for number, placements in enumerate(contiguous_placements(view)):
        if number == _CUTS:
            break
        yield _loaded(view, limits, placements)


def _loaded(view: Indexed, limits: Sequence[int | None], placements: Placements) -> Loads:
    loads = Loads(view, limits)
    loads.place([spot for spot in view.spots_of(placements) if spot is not None])
    return loads


def _work(view: Indexed, unit: int) -> int:
    return sum(spot.duration for spot in view.unit_spots(unit, view.unit_sites[unit][0]))


def _greedy(view: Indexed, limits: Sequence[int | None], order: Iterable[int]) -> Loads:
    loads = Loads(view, limits)
    for unit in order:
        best: tuple[tuple[int, ...], tuple[Spot, ...]] | None = None
        for spots in choices(view, unit):
            loads.place(spots)
            if best is None or loads.cost < best[0]:
                best = (loads.cost, spots)
            loads.remove(spots)
        assert best is not None, "every unit has a site"
        loads.place(best[1])
    return loads


def choices(view: Indexed, unit: int) -> list[tuple[Spot, ...]]:
    """Ways to place a unit: each site with its fastest options; each option of a lone operator."""
    if len(view.units[unit]) == 1:
        return [(spot,) for spot in view.spots[view.units[unit][0]]]
    return [view.unit_spots(unit, site) for site in view.unit_sites[unit]]


def improve(view: Indexed, loads: Loads, rng: Random, steps: int) -> None:
    """Move single units while that lowers the cost: first improvement, until none is left."""
    units = list(range(len(view.units)))
    cost, improved = loads.cost, True
    while improved and steps > 0:
        improved = False
        rng.shuffle(units)
        for unit in units:
            here = tuple(loads.spots[operator] for operator in view.units[unit])
            before = tuple(spot for spot in here if spot is not None)
            for spots in choices(view, unit):
                if spots == before:
                    continue
                steps -= 1
                loads.place(spots)
                if loads.cost < cost:
                    cost, improved, before = loads.cost, True, spots
            loads.place(before)
            if steps <= 0:
                break


def _plan(problem: PlanningProblem, loads: Loads) -> Plan | None:
    view = indexed(problem)
    spots = [spot for spot in loads.spots if spot is not None]
    placements = {view.names[spot.operator]: spot.placement for spot in spots}
    if problem.needs_schedule:
        return dispatch(problem, priority=frugal_order(problem), placements=placements)
    return unscheduled(problem, placements)


def unscheduled(problem: PlanningProblem, placements: Placements) -> Plan | None:
    """Return the plan of a complete placement, without times; ``None`` if it cannot be routed."""
    view = indexed(problem)
    loads = _loaded(view, [None] * view.num_devices, placements)
    if loads.broken:
        return None
    devices = problem.cluster.device_names
    runs = tuple(OperatorRun(name, *placements[name]) for name in view.names)
    transfers = tuple(
        Transfer(
            view.values[leg.value].name,
            tuple(devices[device] for device in leg.source),
            tuple(devices[device] for device in leg.target),
            leg.layout,
        )
        for leg in loads.transfers()
    )
    return Plan(problem.name, runs, transfers)
