"""A problem with integers instead of names: the tables of all scheduling loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from milp_plan.core import (
    CommunicationModel,
    Operator,
    Option,
    Placement,
    Plan,
    PlanningProblem,
    ceil_div,
)
from milp_plan.core.schedule import transfer_resources
from milp_plan.core.view import view
from milp_plan.cost.routes import route_between


@dataclass(frozen=True, slots=True)
class Leg:
    """A transfer between two placements, compiled.

    ``copy`` numbers the copy it makes; ``target_site`` is the site it goes to (a device's own
    number for a single device); ``resources`` are numbers of channels or ports.
    """

    copy: int
    value: int
    source: tuple[int, ...]
    target: tuple[int, ...]
    target_site: int
    layout: str
    bytes: int
    duration: int
    resources: tuple[int, ...]


class Spot:
    """One admissible placement of one operator, compiled.

    ``reads`` are (value, layout) of inputs that have a producer; ``persists`` are (value, layout,
    bytes) of persistent inputs; ``writes`` are (value, layout, bytes) of outputs. ``kept_bytes``
    are outputs that somebody reads or that stay, ``passing_bytes`` the workspace and all others;
    ``working_bytes`` is what a device holds while the operator runs, persistent values apart.
    """

    __slots__ = (
        "devices",
        "duration",
        "kept_bytes",
        "operator",
        "order",
        "passing_bytes",
        "persists",
        "placement",
        "reads",
        "site",
        "working_bytes",
        "workspace",
        "writes",
    )

    def __init__(
        self,
        number: tuple[int, int],
        placement: Placement,
        site: tuple[int, tuple[int, ...]],
        duration: int,
        tables: _OptionTables,
    ) -> None:
        self.operator, self.order = number
        self.placement = placement
        self.site, self.devices = site
        self.duration = duration
        self.reads = tables.reads
        self.persists = tables.persists
        self.writes = tables.writes
        self.workspace = tables.workspace
        self.kept_bytes = tables.kept_bytes
        held = duration > 0
        self.passing_bytes = tables.passing_bytes if held else 0
        self.working_bytes = tables.working_bytes if held else 0


@dataclass(frozen=True, slots=True)
class _OptionTables:
    """What all spots of one option share."""

    reads: tuple[tuple[int, str], ...]
    persists: tuple[tuple[int, str, int], ...]
    writes: tuple[tuple[int, str, int], ...]
    workspace: int
    kept_bytes: int
    passing_bytes: int
    working_bytes: int


class _Place(NamedTuple):
    """An option on a site: number and devices of the site, and their classes."""

    placement: Placement
    site: tuple[int, tuple[int, ...]]
    classes: frozenset[str]


class Indexed:
    """Integer view of a problem.

    Operators, values and devices are numbered in file order. Sites are numbered with the single
    devices first, so that a device and the site that consists of it share a number.

    Parameters
    ----------
    problem
        Any problem.
    tick
        Ticks that durations are counted in, rounded up.
    """

    def __init__(self, problem: PlanningProblem, tick: int = 1) -> None:
        self.problem, self.tick = problem, tick
        graph, cluster = problem.graph, problem.cluster
        self.names = [operator.name for operator in graph.operators]
        self.index = {name: number for number, name in enumerate(self.names)}
        self.num_operators = len(self.names)
        self.num_devices = len(cluster.devices)
        self._index_sites()
        self._index_resources()
        self._index_values()
        self.topological = [self.index[name] for name in graph.topological_order]
        self.position = [0] * self.num_operators
        for position, operator in enumerate(self.topological):
            self.position[operator] = position
        self.predecessors = [
            [self.index[other] for other in graph.predecessors[name]] for name in self.names
        ]
        self.successors = [
            [self.index[other] for other in graph.successors[name]] for name in self.names
        ]
        self._places_of: dict[tuple[str, int, frozenset[str]], list[_Place]] = {}
        self._sites_of: dict[tuple[tuple[int, frozenset[str]], ...], frozenset[int]] = {}
        self.spots = [self._spots(number) for number in range(self.num_operators)]
        self._index_groups()
        self.memory = [device.memory_bytes for device in cluster.devices]
        widest = max(spot.workspace for spots in self.spots for spot in spots)
        self.largest_sum = widest + sum(sum(value.bytes.values()) for value in self.values)
        """No device can ever hold more bytes than this."""
        self.memory_binds = any(
            limit is not None and limit < self.largest_sum for limit in self.memory
        )
        self._copies: dict[tuple[int, tuple[int, ...], str], int] = {}
        self._legs: dict[tuple[int, int, str, int, str], tuple[Leg, ...] | None] = {}
        self._unit_spots: dict[tuple[int, int], tuple[Spot, ...]] = {}
        self._unit_persists: dict[tuple[int, int], tuple[tuple[int, str, int], ...]] = {}
        self._spot_by_placement: list[dict[Placement, Spot] | None] = [None] * self.num_operators

    @cached_property
    def plans(self) -> dict[str, Plan | None]:
        """Plans found so far by planners that need no seed, by planner."""
        return {}

    @cached_property
    def joined(self) -> bool:
        """Whether every value can get from everywhere to everywhere."""
        cluster = self.problem.cluster
        pairs = {(channel.source, channel.target) for channel in cluster.channels}
        one_layout = all(len(value.bytes) == 1 for value in self.values)
        return one_layout and len(pairs) == self.num_devices * (self.num_devices - 1)

    def _index_sites(self) -> None:
        cluster = self.problem.cluster
        device_index = {name: number for number, name in enumerate(cluster.device_names)}
        names = [(name,) for name in cluster.device_names] + list(cluster.groups)
        self.site_names: list[tuple[str, ...]] = list(dict.fromkeys(names))
        self.site_index = {site: number for number, site in enumerate(self.site_names)}
        self.sites = [tuple(device_index[name] for name in site) for site in self.site_names]
        self.device_index = device_index

    def _index_resources(self) -> None:
        """Number devices first, then every channel or port a transfer can hold."""
        cluster = self.problem.cluster
        self.resource_index = dict(self.device_index)
        if cluster.communication is not CommunicationModel.DELAY:
            everyone = cluster.device_names
            for name in transfer_resources(cluster, everyone, everyone):
                # A device may be called like a channel; the prefix keeps the two apart.
                self.resource_index.setdefault(f"transfer {name}", len(self.resource_index))
        self.num_resources = len(self.resource_index)

    def _index_values(self) -> None:
        self.values = self.problem.graph.values
        self.value_index = {value.name: number for number, value in enumerate(self.values)}
        self.producer = [
            -1 if value.producer is None else self.index[value.producer] for value in self.values
        ]
        self.consumers = [[self.index[name] for name in value.consumers] for value in self.values]
        self.stays = [value.is_kept for value in self.values]
        wide = {
            operator.name
            for operator in self.problem.graph.operators
            if any(option.gang > 1 for option in operator.options)
        }
        # One layout and single devices only: a copy on a device then serves every reader there.
        self.simple = [
            len(value.bytes) == 1 and wide.isdisjoint((*value.consumers, value.producer or ""))
            for value in self.values
        ]

    def _spots(self, number: int) -> list[Spot]:
        operator = self.problem.graph.operators[number]
        result: list[Spot] = []
        for option in operator.options:
            tables, by_class = self._tables(operator.name, option), option.duration_ticks
            ticks: dict[frozenset[str], int] = {}
            for placement, site, classes in self._places(option):
                if classes not in ticks:
                    ticks[classes] = ceil_div(max(by_class[name] for name in classes), self.tick)
                result.append(Spot((number, len(result)), placement, site, ticks[classes], tables))
        return result

    def _places(self, option: Option) -> list[_Place]:
        """Where an option can run; options that are alike share the list."""
        key = option.name, option.gang, frozenset(option.duration_ticks)
        if key not in self._places_of:
            cluster = self.problem.cluster
            self._places_of[key] = [
                _Place(
                    Placement(option.name, devices),
                    (self.site_index[devices], self.sites[self.site_index[devices]]),
                    frozenset(cluster.device(name).device_class for name in devices),
                )
                for devices in cluster.sites_of(option.gang, key[2])
            ]
        return self._places_of[key]

    def _tables(self, operator: str, option: Option) -> _OptionTables:
        inputs = self.problem.graph.inputs[operator]
        outputs = self.problem.graph.outputs[operator]
        reads = [(v, option.layout_read(v.name)) for v in inputs if not v.persistent]
        persists = [(v, option.layout_read(v.name)) for v in inputs if v.persistent]
        writes = [(v, option.layout_written(v.name)) for v in outputs]
        kept = sum(v.bytes[layout] for v, layout in writes if v.consumers or v.is_kept)
        passing = sum(v.bytes[layout] for v, layout in writes) - kept
        passing += option.workspace_bytes
        number = self.value_index
        return _OptionTables(
            reads=tuple((number[v.name], layout) for v, layout in reads),
            persists=tuple((number[v.name], layout, v.bytes[layout]) for v, layout in persists),
            writes=tuple((number[v.name], layout, v.bytes[layout]) for v, layout in writes),
            workspace=option.workspace_bytes,
            kept_bytes=kept,
            passing_bytes=passing,
            working_bytes=kept + passing + sum(v.bytes[layout] for v, layout in reads),
        )

    def _index_groups(self) -> None:
        """Number the units: colocation groups, and every operator without one by itself."""
        graph = self.problem.graph
        self.unit = [-1] * self.num_operators
        self.units: list[list[int]] = []
        numbers: dict[str, int] = {}
        for operator in self.topological:
            group = graph.operators[operator].group
            unit = numbers.get(group, -1) if group is not None else -1
            if unit < 0:
                unit = len(self.units)
                self.units.append([])
                if group is not None:
                    numbers[group] = unit
            self.units[unit].append(operator)
            self.unit[operator] = unit
        self.unit_sites = [
            sorted(frozenset.intersection(*{self._able(graph.operators[op]) for op in members}))
            for members in self.units
        ]

    def _able(self, operator: Operator) -> frozenset[int]:
        """Return the sites on which an operator can run."""
        key = tuple((option.gang, frozenset(option.duration_ticks)) for option in operator.options)
        if key not in self._sites_of:
            self._sites_of[key] = frozenset(
                place.site[0] for option in operator.options for place in self._places(option)
            )
        return self._sites_of[key]

    def unit_spots(self, unit: int, site: int) -> tuple[Spot, ...]:
        """Cheapest spot on that site of every member of a unit (fewest ticks, then first)."""
        key = (unit, site)
        result = self._unit_spots.get(key)
        if result is None:
            here = [[s for s in self.spots[op] if s.site == site] for op in self.units[unit]]
            result = tuple(min(spots, key=lambda spot: spot.duration) for spots in here)
            self._unit_spots[key] = result
        return result

    def unit_persists(self, unit: int, site: int) -> tuple[tuple[int, str, int], ...]:
        """Return the persistent values, each once, that a unit needs on a site."""
        key = (unit, site)
        result = self._unit_persists.get(key)
        if result is None:
            every = (entry for spot in self.unit_spots(unit, site) for entry in spot.persists)
            result = tuple(dict.fromkeys(every))
            self._unit_persists[key] = result
        return result

    def unit_working(self, unit: int, site: int) -> int:
        """Return the largest working set of a unit's operators on a site, in bytes."""
        if len(self.units[unit]) == 1:
            return min(s.working_bytes for s in self.spots[self.units[unit][0]] if s.site == site)
        return max(spot.working_bytes for spot in self.unit_spots(unit, site))

    def spot(self, operator: int, placement: Placement) -> Spot:
        """Return the compiled placement; ``KeyError`` if it is not admissible."""
        table = self._spot_by_placement[operator]
        if table is None:
            table = {spot.placement: spot for spot in self.spots[operator]}
            self._spot_by_placement[operator] = table
        return table[placement]

    def spots_of(self, placements: Mapping[str, Placement]) -> list[Spot | None]:
        """Compile a partial placement of names; ``None`` for operators it does not place."""
        result: list[Spot | None] = [None] * self.num_operators
        for name, placement in placements.items():
            operator = self.index[name]
            result[operator] = self.spot(operator, placement)
        return result

    def colocated(self, spots: Iterable[Spot | None]) -> bool:
        """Whether these spots put no colocation group on two sites, or where it cannot run."""
        site_of: dict[int, int] = {}
        for spot in spots:
            if spot is not None:
                unit = self.unit[spot.operator]
                if len(self.units[unit]) > 1 and (
                    site_of.setdefault(unit, spot.site) != spot.site
                    or spot.site not in self.unit_sites[unit]
                ):
                    return False
        return True

    def legs(
        self, value: int, made: tuple[int, str], read: tuple[int, str]
    ) -> tuple[Leg, ...] | None:
        """Transfers from (site, layout) to (site, layout); ``None`` if the law allows no way."""
        key = (value, *made, *read)
        try:
            return self._legs[key]
        except KeyError:
            result = self._compile(value, made, read)
            self._legs[key] = result
            return result

    def legs_between(self, value: int, producer: Spot, reader: Spot) -> tuple[Leg, ...] | None:
        """Return the transfers that serve one reader of a value, as :meth:`legs`."""
        native = next(layout for number, layout, _ in producer.writes if number == value)
        wanted = next(layout for number, layout in reader.reads if number == value)
        if producer.site == reader.site and native == wanted:
            return ()
        return self.legs(value, (producer.site, native), (reader.site, wanted))

    def _compile(
        self, value: int, made: tuple[int, str], read: tuple[int, str]
    ) -> tuple[Leg, ...] | None:
        routes = route_between(
            self.problem,
            self.values[value],
            (self.site_names[made[0]], made[1]),
            (self.site_names[read[0]], read[1]),
        )
        if routes is None:
            return None
        devices = self.device_index
        result = []
        for route in routes:
            target = tuple(devices[name] for name in route.target)
            copy = self._copies.setdefault((value, target, route.layout), len(self._copies))
            held = tuple(self.resource_index[f"transfer {name}"] for name in route.resources)
            result.append(
                Leg(
                    copy=copy,
                    value=value,
                    source=tuple(devices[name] for name in route.source),
                    target=target,
                    target_site=self.site_index[route.target],
                    layout=route.layout,
                    bytes=self.values[value].bytes[route.layout],
                    duration=ceil_div(route.duration_ticks, self.tick),
                    resources=held,
                )
            )
        return tuple(result)

    def numbers(self, names: Iterable[str]) -> list[int]:
        """Operator numbers of names."""
        return [self.index[name] for name in names]


@view
def indexed(problem: PlanningProblem) -> Indexed:
    """Return the integer view of a problem."""
    return Indexed(problem)
