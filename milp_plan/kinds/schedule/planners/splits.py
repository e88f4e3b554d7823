"""Pipelines: an order of colocation groups cut into consecutive stages, one per device.

The only way out when weights fill the devices and groups tie the backward half of a layer to its
forward half. Compare PipeDream (Narayanan et al., SOSP 2019) and Tarnawski et al. (NeurIPS 2020),
who cut exactly; here the cut of a fixed order is balanced by bisection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial

from milp_plan.core import Placement, Plan, PlanningProblem

from .dispatch import dispatch
from .earliest import dispatch_earliest
from .indexed import Indexed, indexed
from .objective import objective_value
from .planner import seedless
from .priorities import bottom_levels, frugal_order
from .stage_cuts import Placements, StageCuts

_SHARES = (Fraction(1), Fraction(1, 2), Fraction(1, 4), Fraction(1, 10), Fraction(0))
_EFFORT = 40_000
"""Operators scheduled in all, about, per planner."""
_FEW = 8
"""Pipelines of fewer stages than this are tried in every length."""
_LARGE = 500
"""Number of operators above which only the first candidate is scheduled in every way."""


@seedless
def contiguous(problem: PlanningProblem) -> Plan | None:
    """Consecutive stages of the topological order, balanced by work and cut to fit memory."""
    return best_of(problem, contiguous_placements(indexed(problem)))


@seedless
def round_robin_blocks(problem: PlanningProblem) -> Plan | None:
    """Consecutive stages dealt out to the devices in turn, several per device (interleaving)."""
    return best_of(problem, _dealt_placements(indexed(problem)))


def contiguous_placements(view: Indexed) -> Iterator[Placements]:
    """Yield cuts: as few stages as memory allows, then balanced over all, half, a quarter, ..."""
    runs = [(units, sites) for sites in site_sequences(view) for units in unit_orders(view)]
    whole = [StageCuts(view, units, sites) for units, sites in runs]
    for stages in whole:
        for share in _shares(view):
            result = stages.fill(None, share)
            if result is not None:
                yield result
    widths = {len(sites) for _, sites in runs}
    counts = sorted({max(1, width >> by) for width in widths for by in range(width.bit_length())})
    for count in reversed([*counts, *range(2, min(_FEW, max(widths) + 1))]):
        for stages in whole:
            for share in _shares(view) if 1 < count <= len(stages) else ():
                result = stages.balance(share, count)
                if result is not None:
                    yield result


def _dealt_placements(view: Indexed) -> Iterator[Placements]:
    for rounds in (2, 3, 4, 8):
        for units in unit_orders(view):
            for sites in site_sequences(view):
                if len(sites) > 1 and rounds * len(sites) <= len(units):
                    result = StageCuts(view, units, list(sites) * rounds).balance(Fraction(0))
                    if result is not None:
                        yield result


def best_of(problem: PlanningProblem, candidates: Iterator[Placements]) -> Plan | None:
    """Schedule each candidate in a few orders; return the best plan found."""
    view = indexed(problem)
    tries = max(12, _EFFORT // view.num_operators)
    orders = _Orders(problem)
    best: tuple[int, Plan] | None = None
    seen: set[tuple[Placement, ...]] = set()
    for placements in candidates:
        key = tuple(placements[name] for name in view.names)
        if key in seen:
            continue
        seen.add(key)
        result = orders.best(placements)
        if result is not None and (best is None or result[0] < best[0]):
            best = result
        if orders.tried >= tries:
            break
    return None if best is None else best[1]


class _Orders:
    """Ways to schedule a given placement; in large problems the best of the first one is kept."""

    def __init__(self, problem: PlanningProblem) -> None:
        self._problem = problem
        levels, frugal = bottom_levels(problem), frugal_order(problem)
        self._ways = [
            partial(dispatch_earliest, problem, priority=frugal),
            partial(dispatch, problem, priority=levels),
            partial(dispatch_earliest, problem, priority=levels),
            partial(dispatch, problem, priority=frugal),
            partial(dispatch, problem, priority=frugal, insertion=False),
        ]
        self._settled = False
        self.tried = 0

    def best(self, placements: Placements) -> tuple[int, Plan] | None:
        """Return the best value and plan of the placement."""
        result: list[tuple[int, int, Plan]] = []
        for number, way in enumerate(self._ways):
            plan = way(placements=placements)
            self.tried += 1
            if plan is not None:
                result.append((objective_value(self._problem, plan), number, plan))
                if self._settled:
                    break
        if not result:
            return None
        value, number, plan = min(result, key=lambda item: item[:2])
        if not self._settled and indexed(self._problem).num_operators > _LARGE:
            self._ways.insert(0, self._ways.pop(number))
            self._settled = True
        return value, plan


def unit_orders(view: Indexed) -> list[list[int]]:
    """Return the units by first appearance in orders of the operators.

    Longest remaining path first (everything about when it is needed), depth first, topological.
    """
    problem, position = view.problem, view.position
    levels = bottom_levels(problem)
    by_level = sorted(view.names, key=lambda name: (-levels[name], position[view.index[name]]))
    orders = []
    for names in (by_level, problem.graph.depth_first_order, problem.graph.topological_order):
        units = list(dict.fromkeys(view.unit[operator] for operator in view.numbers(names)))
        if units not in orders:
            orders.append(units)
    return orders


def site_sequences(view: Indexed) -> list[Sequence[int]]:
    """Sequences of disjoint sites of one width: devices as listed, fastest first, then groups."""
    speeds = device_speeds(view)
    able = [device for device in range(view.num_devices) if speeds[device] > 0]
    result: list[Sequence[int]] = [able, sorted(able, key=lambda d: -speeds[d])]
    widths = sorted({len(site) for site in view.sites if len(site) > 1})
    for width in widths:
        taken: set[int] = set()
        chosen = []
        for site in range(view.num_devices, len(view.sites)):
            devices = view.sites[site]
            if len(devices) == width and taken.isdisjoint(devices):
                chosen.append(site)
                taken.update(devices)
        result.append(chosen)
    return [list(sites) for sites in dict.fromkeys(tuple(sites) for sites in result) if sites]


def device_speeds(view: Indexed) -> list[float]:
    """Return how fast each device is: operators it can run over the ticks they take there."""
    speeds = []
    for device in range(view.num_devices):
        ticks = [
            min(spot.duration for spot in here)
            for spots in view.spots
            if (here := [spot for spot in spots if spot.site == device])
        ]
        speeds.append(len(ticks) / (1 + sum(ticks)) if ticks else 0.0)
    return speeds


def _shares(view: Indexed) -> tuple[Fraction, ...]:
    return _SHARES if view.memory_binds else (Fraction(0),)
