"""Bounds from the work on each device. They hold for makespan and for bottleneck alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import ceil_div
from milp_plan.core.amounts import time_text
from milp_plan.core.bound import Bound

from .binpacking import least_capacity
from .frame import Frame

_LARGEST_LP = 60_000
_PRECISION = 10**6


def load_bound(frame: Frame) -> Bound:
    """Return the work over devices.

    Proof: the device-ticks of all operators, each with its cheapest option (gang times
    duration), are spread over the devices, so one device works at least the average.
    """
    devices = usable_devices(frame)
    area = sum(frame.least_area)
    work = time_text(frame.problem.units, area)
    return Bound("load", ceil_div(area, devices), f"{work} of work on {devices} devices")


def usable_devices(frame: Frame) -> int:
    """Return the devices that some operator can use."""
    used = {
        colour
        for states in frame.states
        for state in states
        for colour in frame.types[state.site].colours
    }
    return sum(frame.terrain.count[colour] for colour in used)


def packing_bound(frame: Frame) -> Bound:
    """Bin packing of units.

    Proof: units are whole, so their least works are packed into the devices, each of which holds
    at most the makespan (or bottleneck). A unit that always takes g devices is g items. The
    bound is the least capacity that :mod:`.binpacking` cannot refute: at least the largest unit.
    """
    devices = usable_devices(frame)
    sizes: list[int] = []
    for number, unit in enumerate(frame.units):
        gang = min(frame.types[state.site].gang for state in frame.states[unit[0]])
        sizes += [unit_work(frame, number)] * gang
    value = least_capacity(sizes, devices)
    return Bound("packing", value, f"{len(sizes)} undivided items on {devices} devices")


def unit_work(frame: Frame, unit: int) -> int:
    """Return the fewest ticks a unit keeps each of its devices busy."""
    return min(sum(ticks) for _, ticks in unit_choices(frame, unit))


def unit_choices(frame: Frame, unit: int) -> Iterator[tuple[int, list[int]]]:
    """Yield the site types of a unit, with the fewest ticks of each member there."""
    members = frame.units[unit]
    for site in sorted({state.site for state in frame.states[members[0]]}):
        yield (
            site,
            [
                min(state.duration for state in frame.states[number] if state.site == site)
                for number in members
            ],
        )


def unrelated_bound(frame: Frame) -> Bound | None:
    """Work and memory of unlike devices, by duality; ``None`` for devices that are all alike.

    Proof: give each device of colour c a weight l_c >= 0, with weights adding up to 1 over all
    devices, and each of its bytes a price p_c >= 0. A plan of makespan (or bottleneck) T puts at
    most T of work and M_c bytes, results at the end, on a device, so with each unit in its cheapest
    place T + sum p_c M_c >= sum over units of min over places of sum over devices of
    (l_c work + p_c bytes). Any weights give a bound; those of the linear relaxation are the best
    of this kind. They are rounded to fractions first, and the bound is evaluated exactly.
    """
    colours = len(frame.terrain.count)
    if colours < 2:
        return None
    places = [list(unit_choices(frame, unit)) for unit in range(len(frame.units))]
    if sum(map(len, places)) > _LARGEST_LP:
        return None
    weights = _best_weights(frame, places)
    if weights is None:
        return None
    value = _weighted(frame, places, *weights)
    return Bound(
        "unrelated load",
        max(0, value),
        f"work and persistent bytes on {colours} kinds of devices at their best prices",
    )


Places = list[list[tuple[int, list[int]]]]


def _weighted(
    frame: Frame, places: Places, weights: Sequence[Fraction], prices: Sequence[Fraction]
) -> int:
    total = Fraction(0)
    own = frame.holdings.final
    for unit, choices in enumerate(places):
        total += min(
            sum(
                (
                    weights[colour] * sum(ticks) + prices[colour] * own[unit]
                    for colour in frame.types[site].colours
                ),
                Fraction(0),
            )
            for site, ticks in choices
        )
    for colour, count in enumerate(frame.terrain.count):
        total -= prices[colour] * count * (frame.terrain.memory_bytes[colour] or 0)
    return -((-total.numerator) // total.denominator)


def _best_weights(frame: Frame, places: Places) -> tuple[list[Fraction], list[Fraction]] | None:
    """Return the weights and prices of the linear relaxation's dual, as fractions."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # loads for a quarter of a second
    from scipy.sparse import lil_matrix

    terrain, own = frame.terrain, frame.holdings.final
    colours = len(terrain.count)
    ticks = max(1, sum(frame.least_duration))
    size = max([1, *(limit for limit in terrain.memory_bytes if limit is not None)])
    matrix = lil_matrix((sum(map(len, places)), 2 * colours + len(places)))
    row = 0
    for unit, choices in enumerate(places):
        for site, work in choices:
            matrix[row, 2 * colours + unit] = 1.0
            for colour in frame.types[site].colours:
                matrix[row, colour] -= sum(work) / ticks
                matrix[row, colours + colour] -= own[unit] / size
            row += 1
    width = 2 * colours + len(places)
    cost: NDArray[np.float64] = np.full(width, -1.0)
    upper: NDArray[np.float64] = np.full(width, np.inf)
    cost[:colours] = 0
    for colour, count in enumerate(terrain.count):
        limit = terrain.memory_bytes[colour]
        cost[colours + colour] = 0 if limit is None else count * limit / size
        upper[colours + colour] = 0 if limit is None else np.inf
    equal: NDArray[np.float64] = np.zeros((1, width))
    equal[0, :colours] = terrain.count
    result = milp(
        cost,
        constraints=[
            LinearConstraint(matrix.tocsr(), ub=0),
            LinearConstraint(equal, lb=1, ub=1),
        ],
        bounds=Bounds(0, upper),
    )
    if not result.success:  # unbounded prices: the persistent bytes do not fit, said elsewhere
        return None
    raw = [Fraction(max(0, round(x * _PRECISION)), _PRECISION) for x in result.x[: 2 * colours]]
    norm = sum(w * n for w, n in zip(raw, terrain.count, strict=False))
    if norm == 0:
        return None
    weights = [weight / norm for weight in raw[:colours]]
    prices = [price * ticks / size / norm for price in raw[colours:]]
    return weights, prices
