"""Earliest finish plus load: one micro-batch is placed unit by unit, the others like it.

Operators are taken by longest remaining path, or in another order. A unit goes where its first
operator finishes earliest, the load of the devices there counted with a weight: at weight 0 a
single micro-batch is fast, with more of it many micro-batches are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import PlanningProblem
from milp_plan.core.compiled import compiled
from milp_plan.core.view import view

from .costs import costs, row_starts
from .structure import structure

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_Ways = tuple[Any, ...]
_Holds = tuple[Any, ...]


class Assigned(NamedTuple):
    """Site of every unit; number of the option of every operator, in the operator's order."""

    sites: tuple[int, ...]
    options: Ints


class Regions(NamedTuple):
    """Regions of sites, the region of each layer, and how many micro-batches run at once."""

    sites: Sequence[Sequence[int]]
    of_layer: Sequence[int]
    flights: int = 1


class Care(NamedTuple):
    """Settings of the memory penalty in an assignment.

    Parameters
    ----------
    pressure
        A full device counts as loaded with this multiple of the mean.
    widest
        Whether what the widest operator of a device needs stays free.
    """

    pressure: float
    widest: bool


NUM_ORDERS = 3
"""Number of orders in which :meth:`Assignment.place` can take operators."""


class Assignment:
    """Places units and chooses options; the arrays it needs are made once per problem."""

    def __init__(self, problem: PlanningProblem) -> None:
        self.structure = structure(problem)
        self.view = self.structure.view
        s, view = self.structure, self.view
        self._orders = self._ordered()
        self._topological = np.array(view.topological, dtype=np.int64)
        self._unit = np.array(view.unit, dtype=np.int64)
        self._layer = np.array(s.layer_of, dtype=np.int64)
        self._original = np.array(s.original, dtype=np.int64)
        table = costs(problem)
        # Plain tuples: what numba keeps on disk must not depend on a class of ours.
        self._ways = tuple(table.ways)
        self._holds = tuple(table.holds)
        unit_ticks = table.holds.unit_ticks
        least = np.where(unit_ticks < 0, np.inf, unit_ticks).min(axis=1)
        self._mean_load = float(least.sum()) / view.num_devices

    def _ordered(self) -> list[Ints]:
        """Orders of the template: by longest path, by the same with transfers, by head."""
        s, view = self.structure, self.view
        rank = [0.0] * view.num_operators
        for operator in reversed(view.topological):
            rank[operator] += s.quickest[operator]
            for value, _ in view.spots[operator][0].reads:
                producer = view.producer[value]
                rank[producer] = max(rank[producer], rank[operator] + s.travel[value])
        keys = (
            [-float(ticks) for ticks in s.tail],
            [-ticks for ticks in rank],
            [float(ticks) for ticks in s.head],
        )
        return [
            np.array(
                sorted(s.template, key=lambda op: (key[op], view.position[op])),
                dtype=np.int64,
            )
            for key in keys
        ]

    def place(self, regions: Regions, weight: float, care: Care, order: int = 0) -> Assigned | None:
        """Place every unit.

        Parameters
        ----------
        regions
            Where each layer may go.
        weight
            How much a tick of load counts against a tick of finish.
        care
            How memory counts.
        order
            Of operators: 0 by longest remaining path, 1 by the same with transfers, 2 by earliest
            start.

        Returns
        -------
        Assigned or None
            ``None`` if a unit can run nowhere in its region.
        """
        region = np.array(regions.of_layer, dtype=np.int64)[self._layer]
        flights = min(regions.flights, self.structure.repeats)
        how = (weight, care.pressure * self._mean_load, float(care.widest), float(flights))
        return self._run(regions.sites, region, how, order)

    def equip(self, sites: Sequence[int]) -> Assigned:
        """Choose the options of operators whose units are on these sites."""
        used = sorted(set(sites))
        number = {site: n for n, site in enumerate(used)}
        region = np.array([number[site] for site in sites], dtype=np.int64)
        result = self._run([[site] for site in used], region, (0.0, 0.0, 0.0, 1.0), 0)
        assert result is not None, "a unit on a site where it cannot run"
        return result

    def _run(
        self,
        sites: Sequence[Sequence[int]],
        region: Ints,
        how: tuple[float, float, float, float],
        order: int,
    ) -> Assigned | None:
        rows = np.array([site for row in sites for site in row], dtype=np.int64)
        chosen, options = _earliest(
            self._ways,
            self._holds,
            (self._orders[order], self._unit, region),
            (row_starts(sites), rows),
            how,
        )
        if (chosen < 0).any():
            return None
        options = options[self._original]
        _complete(self._ways, chosen[self._unit], options)
        return Assigned(tuple(int(site) for site in chosen), options)

    def tails(self, assigned: Assigned) -> Floats:
        """Return the longest path from each operator's start to the end."""
        chosen = np.array(assigned.sites, dtype=np.int64)[self._unit]
        return _tails(self._ways, self._topological, chosen, assigned.options)


@compiled
def _way(ways: _Ways, edge: int, origin: int, made: int, site: int, taken: int) -> float:  # noqa: PLR0917 (compiled)
    """Return the ticks until a value is in the place and layout in which an option reads it."""
    _, _, value_of, written_in, read_in, _, size_of, change, travel, starts, device, _ = ways
    value = value_of[edge]
    written, read = written_in[edge, made], read_in[edge, taken]
    if origin == site and written == read:
        return 0.0
    size = size_of[value, read]
    longest = 0.0
    for number in range(starts[site], starts[site + 1]):
        quickest = np.inf
        for other in range(starts[origin], starts[origin + 1]):
            shard = written == read and written > 0
            if not shard or other - starts[origin] == number - starts[site]:
                quickest = min(quickest, travel[size, device[other], device[number]])
        longest = max(longest, quickest)
    return float(longest + change[value, written, read])


@compiled
def _complete(ways: _Ways, chosen: Ints, options: Ints) -> None:
    """The quickest option where the one of another micro-batch cannot be taken."""
    _, _, _, _, _, ticks, _, _, _, _, _, kind_of = ways
    for operator in range(len(options)):
        kind = kind_of[chosen[operator]]
        if options[operator] < 0 or ticks[operator, kind, options[operator]] < 0:
            best = np.inf
            for option in range(ticks.shape[2]):
                if 0 <= ticks[operator, kind, option] < best:
                    best, options[operator] = ticks[operator, kind, option], option


@compiled
def _tails(ways: _Ways, topological: Ints, chosen: Ints, options: Ints) -> Floats:
    first_edge, producer_of, _, _, _, ticks, _, _, _, _, _, kind_of = ways
    tail = np.zeros(len(topological))
    for position in range(len(topological) - 1, -1, -1):
        operator = topological[position]
        site, option = chosen[operator], options[operator]
        tail[operator] += ticks[operator, kind_of[site], option]
        for edge in range(first_edge[operator], first_edge[operator + 1]):
            producer = producer_of[edge]
            way = _way(ways, edge, chosen[producer], options[producer], site, option)
            way = way if way < np.inf else 0.0  # no schedule leads there anyway
            tail[producer] = max(tail[producer], tail[operator] + way)
    return tail


@compiled
def _earliest(  # noqa: C901, PLR0912, PLR0915 (one loop nest)
    ways: _Ways,
    holds: _Holds,
    graph: tuple[Ints, Ints, Ints],
    places: tuple[Ints, Ints],
    how: tuple[float, float, float, float],
) -> tuple[Ints, Ints]:
    first_edge, producer_of, _, _, _, ticks, _, _, _, starts, devices, kind_of = ways
    unit_ticks, unit_bytes, kept, working, room = holds
    order, unit_of, region = graph
    region_start, region_site = places
    weight, pressure, aside, flights = how
    free = np.zeros(len(room))
    load = np.zeros(len(room))
    held = np.zeros(len(room))
    widest = np.zeros(len(room))
    stop = np.zeros(len(unit_of))
    chosen = np.full(len(region), -1, dtype=np.int64)
    options = np.full(len(unit_of), -1, dtype=np.int64)
    for operator in order:
        unit = unit_of[operator]
        first, last = region_start[region[unit]], region_start[region[unit] + 1]
        fresh = chosen[unit] < 0
        best, best_over, best_site, best_stop = np.inf, np.inf, -1, 0.0
        for at in range(first, last if fresh else first + 1):
            site = region_site[at] if fresh else chosen[unit]
            kind = kind_of[site]
            if unit_ticks[unit, kind] < 0:
                continue
            idle, most, over = 0.0, 0.0, 0.0
            for number in range(starts[site], starts[site + 1]):
                device = devices[number]
                idle = max(idle, free[device])
                needed = held[device] + unit_bytes[unit, kind] + flights * kept[unit]
                full = needed / max(1.0, room[device])
                needed += aside * max(widest[device], working[unit])
                over = max(over, needed - room[device])
                most = max(most, load[device], full * pressure)
            if not fresh:
                over = 0.0
            for option in range(ticks.shape[2]):
                if ticks[operator, kind, option] < 0:
                    continue
                begin = idle
                for edge in range(first_edge[operator], first_edge[operator + 1]):
                    producer = producer_of[edge]
                    if options[producer] >= 0:
                        origin = chosen[unit_of[producer]]
                        way = _way(ways, edge, origin, options[producer], site, option)
                        begin = max(begin, stop[producer] + way)
                end = begin + ticks[operator, kind, option]
                cost = end + weight * (most + unit_ticks[unit, kind])
                if over < best_over or (over == best_over and cost < best):
                    best, best_over, best_site, best_stop = cost, over, site, end
                    options[operator] = option
        if best_site < 0:
            return chosen, options
        stop[operator] = best_stop
        for number in range(starts[best_site], starts[best_site + 1]):
            device = devices[number]
            free[device] = best_stop
            if fresh:
                kind = kind_of[best_site]
                load[device] += unit_ticks[unit, kind]
                held[device] += unit_bytes[unit, kind] + flights * kept[unit]
                widest[device] = max(widest[device], working[unit])
        chosen[unit] = best_site
    return chosen, options


@view
def assignment(problem: PlanningProblem) -> Assignment:
    """Return the assignment of a problem."""
    return Assignment(problem)
