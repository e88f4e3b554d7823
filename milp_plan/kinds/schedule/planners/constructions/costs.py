"""Costs of running operators and moving values on each site, for compiled loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import FULL, PlanningProblem
from milp_plan.core.view import view

from .loads import LayerLoads, loads

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Ways(NamedTuple):
    """Durations of operators on sites, and times of transfers to them.

    Parameters
    ----------
    edge_start, producer, value
        Operator -> where its inputs begin; who makes each, and which value it is.
    written, read
        (input, option) -> layout in which the producer's option writes it, or in which it is read.
    ticks
        (operator, kind of site, option) -> ticks, negative where it cannot run.
    size, change
        (value, layout) -> class of its payload; (value, layout, layout) -> ticks of the change.
    travel
        (class of payload, device, device) -> ticks of a transfer.
    site_start, site_device, kind
        Devices and kind of each site.
    """

    edge_start: Ints
    producer: Ints
    value: Ints
    written: Ints
    read: Ints
    ticks: Floats
    size: Ints
    change: Floats
    travel: Floats
    site_start: Ints
    site_device: Ints
    kind: Ints


class Holds(NamedTuple):
    """Work and bytes of units on devices.

    Parameters
    ----------
    unit_ticks, unit_bytes
        (unit, kind of site) -> ticks of the quickest options, negative where it cannot run;
        persistent bytes.
    kept, working
        Bytes per unit that each micro-batch keeps, and that its widest operator needs.
    room
        Device -> bytes.
    """

    unit_ticks: Floats
    unit_bytes: Floats
    kept: Floats
    working: Floats
    room: Floats


class Costs(NamedTuple):
    """Durations and loads."""

    ways: Ways
    holds: Holds


class _Compiler:
    """Makes the arrays of a problem."""

    def __init__(self, problem: PlanningProblem) -> None:
        self.problem = problem
        self.loads: LayerLoads = loads(problem)
        self.structure, self.view = self.loads.structure, self.loads.view

    def compile(self) -> Costs:
        """Return the arrays."""
        view, made = self.view, self.loads
        layouts = {FULL: 0}
        for value in view.values:
            for layout in value.bytes:
                layouts.setdefault(layout, len(layouts))
        size, travel = self._travel(layouts)
        ticks = self._ticks()
        unit_ticks, unit_bytes = self._units(ticks.shape[1])
        ways = Ways(
            *self._edges(layouts),
            ticks,
            size,
            self._changes(layouts),
            travel,
            row_starts(view.sites),
            np.array([device for devices in view.sites for device in devices]),
            np.array(made.kind),
        )
        holds = Holds(
            unit_ticks,
            unit_bytes,
            np.array(self.structure.kept, dtype=float),
            np.array([float(made.widest[unit]) for unit in range(len(view.units))]),
            np.array([made.room(device) for device in range(view.num_devices)]),
        )
        return Costs(ways, holds)

    def _edges(self, layouts: dict[str, int]) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Return the inputs of operators, with the layouts of both ends."""
        view, operators = self.view, self.problem.graph.operators
        most = max(len(operator.options) for operator in operators)
        reads = [[value for value, _ in spots[0].reads] for spots in view.spots]
        values = [value for read in reads for value in read]
        written = np.zeros((len(values), most), dtype=np.int64)
        read = np.zeros((len(values), most), dtype=np.int64)
        edge = 0
        for operator, inputs in enumerate(reads):
            for value in inputs:
                name, producer = view.values[value].name, view.producer[value]
                for n, option in enumerate(operators[producer].options):
                    written[edge, n] = layouts[option.layout_written(name)]
                for n, option in enumerate(operators[operator].options):
                    read[edge, n] = layouts[option.layout_read(name)]
                edge += 1
        producers = np.array([view.producer[value] for value in values], dtype=np.int64)
        return row_starts(reads), producers, np.array(values, dtype=np.int64), written, read

    def _ticks(self) -> Floats:
        """(operator, kind of site, option) -> ticks."""
        view, made, operators = self.view, self.loads, self.problem.graph.operators
        most = max(len(operator.options) for operator in operators)
        ticks = np.full((view.num_operators, max(made.kind) + 1, most), -1.0)
        for operator, spots in enumerate(view.spots):
            number = {option.name: n for n, option in enumerate(operators[operator].options)}
            able = view.unit_sites[view.unit[operator]]
            kinds = {made.kind[site] for site in able}
            for spot in spots:
                kind = made.kind[spot.site]
                if kind in kinds:
                    ticks[operator, kind, number[spot.placement.option]] = spot.duration
        return ticks

    def _units(self, kinds: int) -> tuple[Floats, Floats]:
        """(unit, kind of site) -> ticks of the quickest options, and persistent bytes."""
        view, made, best = self.view, self.loads, self.structure.best
        ticks = np.full((len(view.units), kinds), -1.0)
        amounts = np.zeros((len(view.units), kinds))
        for kind in range(kinds):
            site = made.kind.index(kind)
            for unit, members in enumerate(view.units):
                if site in view.unit_sites[unit]:
                    ticks[unit, kind] = made.ticks(unit, site)
                    seen = {entry for op in members for entry in best[op][site].persists}
                    amounts[unit, kind] = sum(amount for _, _, amount in seen)
        return ticks, amounts

    def _changes(self, layouts: dict[str, int]) -> Floats:
        """(value, layout, layout) -> ticks of the change, infinite where it is not allowed."""
        count = len(layouts)
        change = np.full((len(self.view.values), count, count), np.inf)
        change[:, range(count), range(count)] = 0.0
        for number, value in enumerate(self.view.values):
            for (before, after), ticks in value.reshard_ticks.items():
                if before in layouts and after in layouts and before != after:
                    change[number, layouts[before], layouts[after]] = ticks
        return change

    def _travel(self, layouts: dict[str, int]) -> tuple[Ints, Floats]:
        """(value, layout) -> class of its payload; (class, device, device) -> ticks."""
        view, cluster = self.view, self.view.problem.cluster
        sizes: dict[tuple[int, int], int] = {}
        size_of = np.zeros((len(view.values), len(layouts)), dtype=np.int64)
        for number, value in enumerate(view.values):
            for layout in value.bytes if not value.persistent else ():
                key = (value.payload(layout), value.messages)
                size_of[number, layouts[layout]] = sizes.setdefault(key, len(sizes))
        count = view.num_devices
        amounts = np.array([amount for amount, _ in sizes] or [0], dtype=float)
        messages = np.array([number for _, number in sizes] or [1], dtype=float)
        table = np.full((len(amounts), count, count), np.inf)
        table[:, range(count), range(count)] = 0.0
        for channel in cluster.channels:
            ends = view.device_index[channel.source], view.device_index[channel.target]
            wire = amounts * (1e9 / channel.bandwidth_bytes_per_s)
            table[(slice(None), *ends)] = wire + messages * channel.latency_ticks
        return size_of, table


def row_starts(rows: Sequence[Sequence[object]]) -> Ints:
    """Where each row begins when all stand behind each other, and the end."""
    return np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)


@view
def costs(problem: PlanningProblem) -> Costs:
    """Return the arrays of a problem."""
    return _Compiler(problem).compile()
