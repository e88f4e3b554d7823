"""Earliest finish plus load: one micro-batch placed unit by unit; all others do as it does.

Operators are taken by longest remaining path. A unit goes where its first operator finishes
earliest, the load of the devices there counted with a weight: at weight 0 a single micro-batch
is fast, with more of it many micro-batches are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import PlanningProblem
from milp_plan.core.compiled import compiled
from milp_plan.core.view import view

from .loads import Loads, loads

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class _Costs(NamedTuple):
    """Arrays of a problem.

    Parameters
    ----------
    edge_start, producer, value
        Operator -> where its inputs begin; who makes each, and the class of its size.
    ticks, unit_ticks, unit_bytes
        (operator or unit, kind of site) -> ticks, negative where it cannot run; persistent bytes.
    kept, working
        Bytes per unit that all micro-batches keep, and that its widest operator needs.
    travel
        (class of size, device, device) -> ticks of a transfer.
    site_start, site_device, kind
        Devices and kind of each site.
    room
        Device -> bytes.
    """

    edge_start: Ints
    producer: Ints
    value: Ints
    ticks: Floats
    unit_ticks: Floats
    unit_bytes: Floats
    kept: Floats
    working: Floats
    travel: Floats
    site_start: Ints
    site_device: Ints
    kind: Ints
    room: Floats


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


class Assignment:
    """Places units; the arrays it needs are made once per problem."""

    def __init__(self, problem: PlanningProblem) -> None:
        self.loads: Loads = loads(problem)
        self.structure, self.view = self.loads.structure, self.loads.view
        s, view = self.structure, self.view
        self._order = np.array(
            sorted(s.template, key=lambda op: (-s.tail[op], view.position[op])), dtype=np.int64
        )
        self._topological = np.array(view.topological, dtype=np.int64)
        self._unit = np.array(view.unit, dtype=np.int64)
        self._layer = np.array(s.layer_of, dtype=np.int64)
        self._costs = self._compile()
        least = np.where(self._costs.unit_ticks < 0, np.inf, self._costs.unit_ticks).min(axis=1)
        self._mean_load = float(least.sum()) / view.num_devices

    def _compile(self) -> _Costs:
        view, made, best = self.view, self.loads, self.structure.best
        example = [made.kind.index(kind) for kind in range(max(made.kind) + 1)]
        ticks = np.full((view.num_operators, len(example)), -1.0)
        unit_ticks = np.full((len(view.units), len(example)), -1.0)
        unit_bytes = np.zeros((len(view.units), len(example)))
        for kind, site in enumerate(example):
            for unit, members in enumerate(view.units):
                if site in view.unit_sites[unit]:
                    ticks[members, kind] = [best[op][site].duration for op in members]
                    unit_ticks[unit, kind] = ticks[members, kind].sum()
                    seen = {entry for op in members for entry in best[op][site].persists}
                    unit_bytes[unit, kind] = sum(amount for _, _, amount in seen)
        size_of, travel = self._travel()
        reads = [[value for value, _ in spots[0].reads] for spots in view.spots]
        values = [value for read in reads for value in read]
        return _Costs(
            _starts(reads),
            np.array([view.producer[value] for value in values], dtype=np.int64),
            size_of[values] if values else np.zeros(0, dtype=np.int64),
            ticks,
            unit_ticks,
            unit_bytes,
            np.array(self.structure.kept, dtype=float) * self.structure.repeats,
            np.array([float(made.widest[unit]) for unit in range(len(view.units))]),
            travel,
            _starts(view.sites),
            np.array([device for devices in view.sites for device in devices]),
            np.array(made.kind),
            np.array([made.room(device) for device in range(view.num_devices)]),
        )

    def _travel(self) -> tuple[Ints, Floats]:
        """Value -> class of its size; (class, device, device) -> ticks of a transfer."""
        view, cluster = self.view, self.view.problem.cluster
        sizes: dict[tuple[int, int], int] = {}
        size_of = np.zeros(len(view.values), dtype=np.int64)
        for number, value in enumerate(view.values):
            if not value.persistent:
                key = (min(value.payload(layout) for layout in value.bytes), value.messages)
                size_of[number] = sizes.setdefault(key, len(sizes))
        count = view.num_devices
        amounts = np.array([amount for amount, _ in sizes] or [0], dtype=float)
        messages = np.array([number for _, number in sizes] or [1], dtype=float)
        table = np.full((len(amounts), count, count), np.inf)
        table[:, range(count), range(count)] = 0.0
        for channel in cluster.channels:
            ends = view.device_index[channel.source], view.device_index[channel.target]
            wire = amounts * (1e9 / channel.bandwidth_bytes_per_s)
            table[(slice(None), *ends)] = wire + messages * channel.latency_ns
        return size_of, table

    def place(self, regions: Regions, weight: float, care: Care) -> list[int] | None:
        """Return the site of each unit.

        Parameters
        ----------
        regions
            Where each layer may go.
        weight
            How much a tick of load counts against a tick of finish.
        care
            How memory counts.

        Returns
        -------
        list or None
            ``None`` if a unit can run nowhere in its region.
        """
        found = _earliest(
            self._costs,
            self._order,
            self._unit,
            _starts(regions.sites),
            np.array([site for sites in regions.sites for site in sites], dtype=np.int64),
            np.array(regions.of_layer, dtype=np.int64)[self._layer],
            weight,
            care.pressure * self._mean_load,
            float(care.widest),
        )
        return None if (found < 0).any() else [int(site) for site in found]

    def tails(self, sites: Sequence[int]) -> Floats:
        """Longest path from each operator's start to the end, units being on these sites."""
        chosen = np.array(sites, dtype=np.int64)[self._unit]
        return _tails(self._costs, self._topological, chosen)


def _starts(rows: Sequence[Sequence[object]]) -> Ints:
    return np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)


@compiled
def _way(costs: _Costs, size: int, origin: int, site: int) -> float:
    """Ticks of a transfer between sites: the quickest to the first device."""
    target = costs.site_device[costs.site_start[site]]
    quickest = np.inf
    for number in range(costs.site_start[origin], costs.site_start[origin + 1]):
        quickest = min(quickest, costs.travel[size, costs.site_device[number], target])
    return quickest


@compiled
def _tails(costs: _Costs, topological: Ints, chosen: Ints) -> Floats:
    tail = np.zeros(len(topological))
    for position in range(len(topological) - 1, -1, -1):
        operator = topological[position]
        site = chosen[operator]
        tail[operator] += costs.ticks[operator, costs.kind[site]]
        for edge in range(costs.edge_start[operator], costs.edge_start[operator + 1]):
            producer = costs.producer[edge]
            below = tail[operator]
            if chosen[producer] != site:
                way = _way(costs, costs.value[edge], chosen[producer], site)
                below += way if way < np.inf else 0.0  # no schedule leads there anyway
            tail[producer] = max(tail[producer], below)
    return tail


@compiled
def _earliest(  # noqa: PLR0917 (compiled)
    costs: _Costs,
    order: Ints,
    unit_of: Ints,
    region_start: Ints,
    region_site: Ints,
    region: Ints,
    weight: float,
    pressure: float,
    aside: float,
) -> Ints:
    free = np.zeros(len(costs.room))
    load = np.zeros(len(costs.room))
    held = np.zeros(len(costs.room))
    widest = np.zeros(len(costs.room))
    stop = np.zeros(len(unit_of))
    chosen = np.full(len(region), -1, dtype=np.int64)
    for operator in order:
        unit = unit_of[operator]
        first, last = region_start[region[unit]], region_start[region[unit] + 1]
        fresh = chosen[unit] < 0
        best, best_over, best_site, best_stop = np.inf, np.inf, -1, 0.0
        for at in range(first, last if fresh else first + 1):
            site = region_site[at] if fresh else chosen[unit]
            kind = costs.kind[site]
            if costs.unit_ticks[unit, kind] < 0:
                continue
            begin, most, over = 0.0, 0.0, 0.0
            for number in range(costs.site_start[site], costs.site_start[site + 1]):
                device = costs.site_device[number]
                begin = max(begin, free[device])
                needed = held[device] + costs.unit_bytes[unit, kind] + costs.kept[unit]
                full = needed / max(1.0, costs.room[device])
                needed += aside * max(widest[device], costs.working[unit])
                over = max(over, needed - costs.room[device])
                most = max(most, load[device], full * pressure)
            for edge in range(costs.edge_start[operator], costs.edge_start[operator + 1]):
                producer = costs.producer[edge]
                origin = chosen[unit_of[producer]]
                ready = stop[producer]
                if origin >= 0 and origin != site:
                    ready += _way(costs, costs.value[edge], origin, site)
                begin = max(begin, ready)
            end = begin + costs.ticks[operator, kind]
            if not fresh:
                over = 0.0
            cost = end + weight * (most + costs.unit_ticks[unit, kind])
            if over < best_over or (over == best_over and cost < best):
                best, best_over, best_site, best_stop = cost, over, site, end
        if best_site < 0:
            return chosen
        stop[operator] = best_stop
        for number in range(costs.site_start[best_site], costs.site_start[best_site + 1]):
            device = costs.site_device[number]
            free[device] = best_stop
            if fresh:
                kind = costs.kind[best_site]
                load[device] += costs.unit_ticks[unit, kind]
                held[device] += costs.unit_bytes[unit, kind] + costs.kept[unit]
                widest[device] = max(widest[device], costs.working[unit])
        chosen[unit] = best_site
    return chosen


@view
def assignment(problem: PlanningProblem) -> Assignment:
    """Return what places units by earliest finish plus load."""
    return Assignment(problem)
