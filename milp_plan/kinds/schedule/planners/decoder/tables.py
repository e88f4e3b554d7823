"""A schedule problem as flat arrays for compiled loops.

Operators are numbered in topological order, sites as in ``planners.indexed`` (a device and the
site that consists of it share a number), options over all operators, layouts with ``full`` as 0.
Ticks are divided by ``unit`` and rounded up, so that every sum fits into 64 bits. Where the
division leaves nothing over, ``exact``, a schedule in these units is one in ticks; elsewhere each
task ends a little before its slot does.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import FULL, CommunicationModel, MemoryLaw, Option, PlanningProblem
from milp_plan.core.quantity import ceil_div
from milp_plan.core.view import view

from ..indexed import Indexed, indexed
from . import layout as at
from .layout import Ints, Memory

LARGEST_SUM = 1 << 60
"""What all durations together may come to, in units."""

HELD = {
    CommunicationModel.DELAY: 0,
    CommunicationModel.CHANNEL: 1,
    CommunicationModel.ENDPOINT: 2,
}
"""Communication models as loops know them."""


class Compiled:
    """The tables of a problem, with the names behind the numbers.

    Attributes
    ----------
    memory
        The arrays; to be copied before it is written to.
    unit, exact
        Ticks per unit, and whether every duration is a multiple of it.
    order
        Operator number of ``planners.indexed`` at each position; ``position`` the other way round.
    options
        (operator number in topological order, option name) -> option number.
    """

    def __init__(self, problem: PlanningProblem) -> None:
        self.problem = problem
        self.view: Indexed = indexed(problem)
        self.order, self.position = self.view.topological, self.view.position
        graph = problem.graph
        self.operators = [graph.operators[number] for number in self.order]
        self.layouts = _layouts(problem)
        self.flat = [option for operator in self.operators for option in operator.options]
        self.options = {
            (number, option.name): option_number
            for option_number, (number, option) in enumerate(
                (n, o) for n, operator in enumerate(self.operators) for o in operator.options
            )
        }
        self.unit, self.exact = 1, True
        self.memory = self._tables()

    def _tables(self) -> Memory:
        view, problem = self.view, self.problem
        ticks = self._ticks()
        link, channels = _links(problem)
        payload, wire = self._wire(channels)
        change = self._changes()
        self._choose_unit(ticks, wire, change)
        units = self._units(ticks)
        sites, used = view.sites, (units.max(axis=0) >= 0).tolist()
        beside = [
            [site for site, devices in enumerate(sites) if used[site] and device in devices]
            for device in range(view.num_devices)
        ]
        limits = [view.largest_sum if limit is None else limit for limit in view.memory]
        place = np.full((len(sites), view.num_devices), -1, dtype=np.int64)
        for site, devices in enumerate(sites):
            place[site, list(devices)] = range(len(devices))
        present = list(place >= 0)
        widest = max(len(devices) for devices, able in zip(sites, used, strict=True) if able)
        parts = self._ends() | self._values() | self._room(widest)
        parts[at.SITE_PTR], parts[at.SITE_DEVICE] = rows(sites)
        parts[at.BESIDE_PTR], parts[at.BESIDE] = rows(beside)
        parts |= {
            at.PLACE: place,
            at.WITHIN: [[not (a & ~b).any() for b in present] for a in present],
            at.OPTION_PTR: _starts([len(operator.options) for operator in self.operators]),
            at.TICKS: units,
            at.WORKSPACE: [option.workspace_bytes for option in self.flat],
            at.PAYLOAD: payload,
            at.CHANGE: self._units(change),
            at.LINK: link,
            at.WIRE: self._units(wire),
            at.MEMORY: limits,
            at.GROWS: self._growing(parts),
        }
        return Memory(self._sizes(len(channels)), parts)

    # -- durations -----------------------------------------------------------------------------

    def _ticks(self) -> NDArray[Any]:
        """(option, site) -> exact ticks; equal tables are made once."""
        classes = [device.device_class for device in self.problem.cluster.devices]
        known: dict[tuple[object, ...], list[int]] = {}
        rows = []
        for option in self.flat:
            key = (option.gang, *sorted(option.duration_ticks.items()))
            if key not in known:
                by_class = option.duration_ticks
                known[key] = [
                    max(by_class[classes[device]] for device in devices)
                    if len(devices) == option.gang and all(classes[d] in by_class for d in devices)
                    else -1
                    for devices in self.view.sites
                ]
            rows.append(known[key])
        return np.array(rows, dtype=object)

    def _wire(self, channels: list[tuple[int, int]]) -> tuple[Ints, NDArray[Any]]:
        """Return the distinct payloads, and the exact ticks of each over each kind of channel."""
        cluster = self.problem.cluster
        sample = {
            (channel.latency_ticks, channel.bandwidth_bytes_per_s): channel
            for channel in cluster.channels
        }
        numbers: dict[tuple[int, int], int] = {}
        table = np.zeros((len(self.view.values), len(self.layouts)), dtype=np.int64)
        for number, value in enumerate(self.view.values):
            for layout in value.bytes if not value.persistent else ():
                key = value.payload(layout), value.messages
                table[number, self.layouts[layout]] = numbers.setdefault(key, len(numbers))
        rows = [[sample[kind].transfer_ticks(*key) for kind in channels] for key in numbers]
        shape = (len(rows), len(channels))
        return table, np.array(rows, dtype=object).reshape(shape)

    def _changes(self) -> NDArray[Any]:
        count = len(self.layouts)
        change = np.full((len(self.view.values), count, count), -1, dtype=object)
        change[:, range(count), range(count)] = 0
        for number, value in enumerate(self.view.values):
            for (before, after), ticks in value.reshard_ticks.items():
                if before in self.layouts and after in self.layouts and before != after:
                    change[number, self.layouts[before], self.layouts[after]] = ticks
        return change

    def _choose_unit(self, *tables: NDArray[Any]) -> None:
        """The greatest common divisor if sums then fit, else as small as they allow."""
        ticks, wire, change = tables
        most = sum(max(row) for row in ticks)
        longest = max(wire.flat, default=0) + max(change.flat, default=0)
        most += longest * sum(len(readers) for readers in self.view.consumers)
        if most <= LARGEST_SUM:
            return
        self.unit = gcd(*(ticks for table in tables for ticks in table.flat if ticks > 0))
        if most > LARGEST_SUM * self.unit:
            self.unit, self.exact = ceil_div(most, LARGEST_SUM), False

    def _units(self, ticks: NDArray[Any]) -> Ints:
        if self.unit > 1:
            ticks = np.where(ticks < 0, -1, -(-ticks // self.unit))
        return ticks.astype(np.int64)

    # -- values --------------------------------------------------------------------------------

    def _ends(self) -> dict[int, Any]:
        """Return what operators read, make and hold, with the layouts of each option."""
        graph, number = self.problem.graph, self.view.value_index
        names = [operator.name for operator in self.operators]
        inputs = {name: [v for v in graph.inputs[name] if not v.persistent] for name in names}
        held = {name: [v for v in graph.inputs[name] if v.persistent] for name in names}
        result: dict[int, Any] = {}
        for first, values, layout in (
            (at.INPUT_PTR, inputs, Option.layout_read),
            (at.OUTPUT_PTR, graph.outputs, Option.layout_written),
            (at.HELD_PTR, held, Option.layout_read),
        ):
            layouts = [
                [self.layouts[layout(option, v.name)] for v in values[operator.name]]
                for operator in self.operators
                for option in operator.options
            ]
            lists = [[number[v.name] for v in values[name]] for name in names]
            result[first], result[first + 1] = rows(lists)
            result[first + 2], result[first + 3] = rows(layouts)
        return result

    def _values(self) -> dict[int, Any]:
        """Who makes values and who reads them, and how large they are."""
        graph, view = self.problem.graph, self.view
        edges: dict[tuple[int, int], int] = {}
        place = [0] * len(view.values)
        for number, operator in enumerate(self.operators):
            for value in graph.inputs[operator.name]:
                if not value.persistent:
                    edges[view.value_index[value.name], number] = len(edges)
            for position, value in enumerate(graph.outputs[operator.name]):
                place[view.value_index[value.name]] = position
        producer = [-1 if made < 0 else self.position[made] for made in view.producer]
        readers = [
            [self.position[reader] for reader in entry] if made >= 0 else []
            for made, entry in zip(producer, view.consumers, strict=True)
        ]
        amounts = np.full((len(view.values), len(self.layouts)), -1, dtype=np.int64)
        for number, value in enumerate(view.values):
            for layout, amount in value.bytes.items():
                amounts[number, self.layouts[layout]] = amount
        reader_ptr, reader = rows(readers)
        numbers = [[edges[number, r] for r in entry] for number, entry in enumerate(readers)]
        return {
            at.PRODUCER: producer,
            at.OUTPUT_PLACE: place,
            at.READER_PTR: reader_ptr,
            at.READER: reader,
            at.READER_EDGE: rows(numbers)[1],
            at.BYTES: amounts,
            at.STAYS: view.stays,
        }

    def _growing(self, parts: dict[int, Any]) -> list[bool]:
        """Operators that leave more bytes behind than they are the last, in order, to read."""
        stays = self.view.stays
        size = [min(value.bytes.values()) for value in self.view.values]
        last = [max((self.position[r] for r in entry), default=-1) for entry in self.view.consumers]
        made_ptr, made = parts[at.OUTPUT_PTR], parts[at.OUTPUT_VALUE]
        read_ptr, read = parts[at.INPUT_PTR], parts[at.INPUT_VALUE]
        return [
            sum(size[v] for v in made[made_ptr[n] : made_ptr[n + 1]] if last[v] >= 0 or stays[v])
            > sum(
                size[v]
                for v in read[read_ptr[n] : read_ptr[n + 1]]
                if last[v] == n and not stays[v]
            )
            for n in range(len(self.order))
        ]

    # -- room ------------------------------------------------------------------------------------

    def _sizes(self, links: int) -> dict[int, int]:
        problem, view = self.problem, self.view
        devices, sites = view.num_devices, len(view.sites)
        model = problem.cluster.communication
        held = {0: 0, 1: devices * devices, 2: 2 * devices}[HELD[model]]
        return {
            at.DEVICES: devices,
            at.SITES: sites,
            at.OPERATORS: len(self.order),
            at.OPTIONS: len(self.flat),
            at.VALUES: len(view.values),
            at.LAYOUTS: len(self.layouts),
            at.LINKS: links,
            at.QUEUES: sites + held + 1,
            at.RESOURCES: devices + held,
            at.COMMUNICATION: HELD[model],
            at.LIMITED: int(view.memory_binds),
            at.STATIC: int(problem.memory_law is MemoryLaw.STATIC),
        }

    def _room(self, widest: int) -> dict[int, Any]:
        """Return the zeros for placements, legs and schedules."""
        sizes = self._sizes(0)
        operators, values = sizes[at.OPERATORS], sizes[at.VALUES]
        devices, sites, queues = sizes[at.DEVICES], sizes[at.SITES], sizes[at.QUEUES]
        made = [producer >= 0 for producer in self.view.producer]
        readers = [len(r) if m else 0 for r, m in zip(self.view.consumers, made, strict=True)]
        edges = sum(readers)
        links = edges * widest
        legs = min(links, sum(min(n * widest, sites * len(self.layouts)) for n in readers)) + 1
        width = {0: 0, 1: widest * widest, 2: 2 * widest}[sizes[at.COMMUNICATION]]
        timed = sizes[at.LIMITED]
        tasks = operators + legs
        room = dict.fromkeys((at.TAIL, *range(at.SITE, at.AHEAD + 1)), tasks)
        room |= dict.fromkeys(
            (at.SITE, at.OPTION, at.COPIES, at.WAITS, at.MADE, at.BESIDES), operators
        )
        room |= dict.fromkeys(range(at.LEG_VALUE, at.LEG_HELD_PTR + 1), legs + 1)
        room |= dict.fromkeys((at.LEG_HEAD, at.LEG_USES), legs)
        room |= dict.fromkeys(range(at.LINK_LEG, at.NEXT_OF_LEG + 1), links)
        room |= dict.fromkeys((at.NATIVE, at.INPUT_HEAD), edges)
        room |= dict.fromkeys((at.QUEUE, at.WAITING, at.LISTED), queues)
        room |= dict.fromkeys(range(at.USED, at.PEAK + 1), devices)
        return room | {
            at.LEG_FIRST: values + 1,
            at.LEG_HELD: legs * width + 1,
            at.LEG_COUNT: 3,
            at.BUSY: sizes[at.RESOURCES],
            at.DIRTY: sites,
            at.DIRTY_LIST: max(sites, operators),
            at.NATIVE_USES: values * devices * timed,
            at.SEEN: values * len(self.layouts) * devices * timed,
            at.LOAD: sizes[at.RESOURCES],
            at.AHEAD: sizes[at.RESOURCES],
            at.TIMED: 1,
            at.STAMP: 1,
            at.HEAD: 1,
            at.COUNT: 5,
        }


@view
def compiled_problem(problem: PlanningProblem) -> Compiled:
    """Return the arrays of a problem."""
    return Compiled(problem)


def _layouts(problem: PlanningProblem) -> dict[str, int]:
    names = {FULL: 0}
    for value in problem.graph.values:
        for layout in value.bytes:
            names.setdefault(layout, len(names))
    return names


def _links(problem: PlanningProblem) -> tuple[Ints, list[tuple[int, int]]]:
    """Return the kind of the channel between each two devices, and the kinds."""
    cluster = problem.cluster
    number = {name: n for n, name in enumerate(cluster.device_names)}
    kinds: dict[tuple[int, int], int] = {}
    link = np.full((len(number), len(number)), -1, dtype=np.int64)
    for channel in cluster.channels:
        kind = channel.latency_ticks, channel.bandwidth_bytes_per_s
        link[number[channel.source], number[channel.target]] = kinds.setdefault(kind, len(kinds))
    return link, list(kinds)


def _starts(lengths: list[int]) -> Ints:
    return np.cumsum([0, *lengths], dtype=np.int64)


def rows(lists: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Where each list begins, and all of them as one array."""
    flat = [entry for row in lists for entry in row]
    return _starts([len(row) for row in lists]), np.array(flat, dtype=np.int64)
