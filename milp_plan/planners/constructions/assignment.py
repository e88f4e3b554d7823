"""Earliest finish plus load: one micro-batch placed unit by unit; all others do as it does.

Operators are taken by longest remaining path, or in another order. A unit goes where its first
operator finishes earliest, the load of the devices there counted with a weight: at weight 0 a
single micro-batch is fast, with more of it many micro-batches are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import PlanningProblem
from milp_plan.core.compiled import compiled
from milp_plan.core.view import view

from .costs import Costs, costs, row_starts
from .structure import structure

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Assigned(NamedTuple):
    """Site of every unit; number of the option of every operator, in the operator's order."""

    sites: tuple[int, ...]
    options: Ints


class Regions(NamedTuple):
    """Where layers may go: regions of sites, and the region of each layer."""

    sites: Sequence[Sequence[int]]
    of_layer: Sequence[int]


class Care(NamedTuple):
    """How memory counts where an assignment chooses.

    Parameters
    ----------
    pressure
        A full device counts as loaded with so many times the mean.
    widest
        Whether what the widest operator of a device needs stays free.
    """

    pressure: float
    widest: bool


NUM_ORDERS = 3
"""Orders in which :meth:`Assignment.place` can take operators."""


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
        self._costs = costs(problem)
        least = np.where(self._costs.unit_ticks < 0, np.inf, self._costs.unit_ticks).min(axis=1)
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
        return self._run(regions.sites, region, weight, care, order)

    def equip(self, sites: Sequence[int]) -> Assigned:
        """Choose the options of operators whose units are on these sites."""
        used = sorted(set(sites))
        number = {site: n for n, site in enumerate(used)}
        region = np.array([number[site] for site in sites], dtype=np.int64)
        found = self._run([[site] for site in used], region, 0.0, Care(0.0, False))
        assert found is not None, "a unit on a site where it cannot run"
        return found

    def _run(
        self,
        sites: Sequence[Sequence[int]],
        region: Ints,
        weight: float,
        care: Care,
        order: int = 0,
    ) -> Assigned | None:
        chosen, options = _earliest(
            self._costs,
            self._orders[order],
            self._unit,
            row_starts(sites),
            np.array([site for row in sites for site in row], dtype=np.int64),
            region,
            weight,
            care.pressure * self._mean_load,
            float(care.widest),
        )
        if (chosen < 0).any():
            return None
        options = options[self._original]
        _complete(self._costs, chosen[self._unit], options)
        return Assigned(tuple(int(site) for site in chosen), options)

    def tails(self, assigned: Assigned) -> Floats:
        """Longest path from each operator's start to the end."""
        chosen = np.array(assigned.sites, dtype=np.int64)[self._unit]
        return _tails(self._costs, self._topological, chosen, assigned.options)


@compiled
def _way(  # noqa: PLR0917 (compiled)
    tables: Costs, edge: int, origin: int, made: int, site: int, taken: int
) -> float:
    """Ticks until a value is where and as an option reads it, as the law of supply says."""
    value = tables.value[edge]
    written, read = tables.written[edge, made], tables.read[edge, taken]
    if origin == site and written == read:
        return 0.0
    size = tables.size[value, read]
    first, last = tables.site_start[origin], tables.site_start[origin + 1]
    longest = 0.0
    for number in range(tables.site_start[site], tables.site_start[site + 1]):
        target = tables.site_device[number]
        quickest = np.inf
        for other in range(first, last):
            shard = written == read and written > 0
            if not shard or other - first == number - tables.site_start[site]:
                source = tables.site_device[other]
                quickest = min(quickest, tables.travel[size, source, target])
        longest = max(longest, quickest)
    return float(longest + tables.change[value, written, read])


@compiled
def _complete(tables: Costs, chosen: Ints, options: Ints) -> None:
    """The quickest option where the one of another micro-batch cannot be taken."""
    for operator in range(len(options)):
        kind = tables.kind[chosen[operator]]
        if options[operator] < 0 or tables.ticks[operator, kind, options[operator]] < 0:
            best = np.inf
            for option in range(tables.ticks.shape[2]):
                ticks = tables.ticks[operator, kind, option]
                if 0 <= ticks < best:
                    best, options[operator] = ticks, option


@compiled
def _tails(tables: Costs, topological: Ints, chosen: Ints, options: Ints) -> Floats:
    tail = np.zeros(len(topological))
    for position in range(len(topological) - 1, -1, -1):
        operator = topological[position]
        site, option = chosen[operator], options[operator]
        tail[operator] += tables.ticks[operator, tables.kind[site], option]
        for edge in range(tables.edge_start[operator], tables.edge_start[operator + 1]):
            producer = tables.producer[edge]
            way = _way(tables, edge, chosen[producer], options[producer], site, option)
            way = way if way < np.inf else 0.0  # no schedule leads there anyway
            tail[producer] = max(tail[producer], tail[operator] + way)
    return tail


@compiled
def _earliest(  # noqa: C901, PLR0912, PLR0917 (one loop nest)
    tables: Costs,
    order: Ints,
    unit_of: Ints,
    region_start: Ints,
    region_site: Ints,
    region: Ints,
    weight: float,
    pressure: float,
    aside: float,
) -> tuple[Ints, Ints]:
    free = np.zeros(len(tables.room))
    load = np.zeros(len(tables.room))
    held = np.zeros(len(tables.room))
    widest = np.zeros(len(tables.room))
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
            kind = tables.kind[site]
            if tables.unit_ticks[unit, kind] < 0:
                continue
            idle, most, over = 0.0, 0.0, 0.0
            for number in range(tables.site_start[site], tables.site_start[site + 1]):
                device = tables.site_device[number]
                idle = max(idle, free[device])
                needed = held[device] + tables.unit_bytes[unit, kind] + tables.kept[unit]
                full = needed / max(1.0, tables.room[device])
                needed += aside * max(widest[device], tables.working[unit])
                over = max(over, needed - tables.room[device])
                most = max(most, load[device], full * pressure)
            if not fresh:
                over = 0.0
            for option in range(tables.ticks.shape[2]):
                if tables.ticks[operator, kind, option] < 0:
                    continue
                begin = idle
                for edge in range(tables.edge_start[operator], tables.edge_start[operator + 1]):
                    producer = tables.producer[edge]
                    if options[producer] >= 0:
                        origin = chosen[unit_of[producer]]
                        way = _way(tables, edge, origin, options[producer], site, option)
                        begin = max(begin, stop[producer] + way)
                end = begin + tables.ticks[operator, kind, option]
                cost = end + weight * (most + tables.unit_ticks[unit, kind])
                if over < best_over or (over == best_over and cost < best):
                    best, best_over, best_site, best_stop = cost, over, site, end
                    options[operator] = option
        if best_site < 0:
            return chosen, options
        stop[operator] = best_stop
        for number in range(tables.site_start[best_site], tables.site_start[best_site + 1]):
            device = tables.site_device[number]
            free[device] = best_stop
            if fresh:
                kind = tables.kind[best_site]
                load[device] += tables.unit_ticks[unit, kind]
                held[device] += tables.unit_bytes[unit, kind] + tables.kept[unit]
                widest[device] = max(widest[device], tables.working[unit])
        chosen[unit] = best_site
    return chosen, options


@view
def assignment(problem: PlanningProblem) -> Assignment:
    """Return what places units by earliest finish plus load."""
    return Assignment(problem)
