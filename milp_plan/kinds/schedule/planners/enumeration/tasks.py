"""Tasks of a complete placement, their resources, and what they hold in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, product
from math import prod

from milp_plan.core import FULL, OperatorRun, Option, Placement, Plan, PlanningProblem, Transfer
from milp_plan.cost.routes import Route, routes, send_choices

Holding = tuple[int, int, int, frozenset[int]]
"""(device, bytes, maker, readers): from the start of the maker until the last reader stops; the
maker is one of them, and :data:`NOBODY` where it stays to the end."""

NOBODY = -1
"""A reader that never stops."""


class Tasks:
    """Runs and transfers of one placement, with a source for every transfer.

    Parameters
    ----------
    problem
        Operators run once, and there are no hosts.
    placement
        Placement of every operator, with groups together.
    sent
        Each transfer, and which operators it serves.
    native
        Devices on which an operator reads the copy that the producer left, by (value, operator).

    Attributes
    ----------
    ticks
        Length of each task: operators in file order, then transfers.
    held
        Resources of each task.
    before
        Tasks that must be done before each.
    holdings, persistent
        What lies in memory for a while, and bytes per device that always do.
    """

    def __init__(
        self,
        problem: PlanningProblem,
        placement: Mapping[str, Placement],
        sent: Sequence[tuple[Route, Sequence[str]]],
        native: Mapping[tuple[str, str], tuple[str, ...]],
    ) -> None:
        self.problem, self.placement, self.sent = problem, placement, sent
        operators = problem.graph.operators
        number = {operator.name: task for task, operator in enumerate(operators)}
        self.operators = len(operators)
        self.ticks = [problem.duration_ticks(o.name, placement[o.name]) for o in operators]
        self.ticks += [route.duration_ticks for route, _ in sent]
        self.held: list[frozenset[str]] = [frozenset(placement[o.name].devices) for o in operators]
        self.held += [frozenset(route.resources) for route, _ in sent]
        self.before: list[set[int]] = [set() for _ in self.ticks]
        values = [value for value in problem.graph.values if value.producer is not None]
        for value in values:
            for consumer in value.consumers:
                self.before[number[consumer]].add(number[str(value.producer)])
        producer = {value.name: number[str(value.producer)] for value in values}
        for task, (route, served) in enumerate(sent, self.operators):
            self.before[task].add(producer[route.value])
            for name in served:
                self.before[number[name]].add(task)
        self._find_holdings(number, native)

    def _find_holdings(
        self, number: Mapping[str, int], native: Mapping[tuple[str, str], tuple[str, ...]]
    ) -> None:
        problem, placement = self.problem, self.placement
        device = {name: d for d, name in enumerate(problem.cluster.device_names)}
        options = {
            name: problem.graph.operator(name).option(p.option) for name, p in placement.items()
        }
        self.persistent = _persistent(problem, placement, options)
        self.workspace = [0] * len(device)
        self.copies: list[Holding] = []
        working: list[Holding] = []
        for name, task in number.items():
            space = options[name].workspace_bytes
            for d in placement[name].devices:
                self.workspace[device[d]] = max(self.workspace[device[d]], space)
                working.append((device[d], space, task, frozenset((task,))))
        for value in problem.graph.values:
            if value.producer is None:
                continue
            maker = number[value.producer]
            size = value.bytes[options[value.producer].layout_written(value.name)]
            for d in placement[value.producer].devices:
                readers = {maker, NOBODY} if value.is_kept else {maker}
                readers |= {number[c] for c in value.consumers if d in native[value.name, c]}
                readers |= {
                    task
                    for task, (route, _) in enumerate(self.sent, self.operators)
                    if route.value == value.name and d in route.source
                }
                self.copies.append((device[d], size, maker, frozenset(readers)))
        for task, (route, served) in enumerate(self.sent, self.operators):
            size = problem.graph.value(route.value).bytes[route.layout]
            readers = {task, *(number[name] for name in served)}
            self.copies += [(device[d], size, task, frozenset(readers)) for d in route.target]
        self.holdings = [holding for holding in (*self.copies, *working) if holding[1]]

    @property
    def lasting(self) -> list[int]:
        """Bytes per device at the end: persistent values and results."""
        used = list(self.persistent)
        for device, size, _, readers in self.holdings:
            if NOBODY in readers:
                used[device] += size
        return used

    @cached_property
    def order(self) -> list[int]:
        """The tasks in a topological order."""
        left, order = set(range(len(self.ticks))), []
        while left:
            ready = sorted(task for task in left if not self.before[task] & left)
            order += ready
            left.difference_update(ready)
        return order

    @property
    def heads(self) -> list[int]:
        """Earliest start of each task by its predecessors."""
        heads = [0] * len(self.ticks)
        for task in self.order:
            heads[task] = max((heads[p] + self.ticks[p] for p in self.before[task]), default=0)
        return heads

    @cached_property
    def tails(self) -> list[int]:
        """Least ticks from the start of each task to the end of the plan."""
        tails = list(self.ticks)
        for task in reversed(self.order):
            for p in self.before[task]:
                tails[p] = max(tails[p], self.ticks[p] + tails[task])
        return tails

    def busiest(self, *, devices: bool = False) -> int:
        """Return the largest sum of durations on a resource, or on a device."""
        sums: dict[str, int] = {}
        for task in range(self.operators if devices else len(self.ticks)):
            for resource in self.held[task]:
                sums[resource] = sums.get(resource, 0) + self.ticks[task]
        return max(sums.values(), default=0)

    @property
    def static_bytes(self) -> list[int]:
        """Bytes per device under the static law: all it ever holds and the largest workspace."""
        used = [kept + space for kept, space in zip(self.persistent, self.workspace, strict=True)]
        for device, size, _, _ in self.copies:
            used[device] += size
        return used

    def one_by_one(self, order: Sequence[int]) -> list[int]:
        """Return the start of each task when they run one after the other."""
        stops = accumulate((self.ticks[task] for task in order), initial=0)
        starts = dict(zip(order, stops, strict=False))
        return [starts[task] for task in range(len(order))]

    def plan(self, starts: Sequence[int] | None, planner: str) -> Plan:
        """Return the plan with these starts, or without a schedule."""

        def times(task: int) -> tuple[int | None, int | None]:
            return (
                (None, None) if starts is None else (starts[task], starts[task] + self.ticks[task])
            )

        runs = tuple(
            OperatorRun(operator.name, *self.placement[operator.name], *times(task))
            for task, operator in enumerate(self.problem.graph.operators)
        )
        transfers = tuple(
            Transfer(route.value, route.source, route.target, route.layout, *times(task))
            for task, (route, _) in enumerate(self.sent, self.operators)
        )
        return Plan(self.problem.name, runs, transfers, planner=planner)


def _persistent(
    problem: PlanningProblem, placement: Mapping[str, Placement], options: Mapping[str, Option]
) -> list[int]:
    """Return the bytes of persistent values on each device."""
    kept = {
        (d, value.name, layout): value.bytes[layout]
        for value in problem.graph.values
        if value.producer is None
        for consumer in value.consumers
        for layout in (options[consumer].layout_read(value.name),)
        for d in placement[consumer].devices
    }
    return [
        sum(size for (d, _, _), size in kept.items() if d == name)
        for name in problem.cluster.device_names
    ]


def _units(problem: PlanningProblem) -> Iterator[list[dict[str, list[Placement]]]]:
    """Return, by group (or single operator) and by site, the placements of each member."""
    units: dict[str, list[str]] = {}
    for operator in problem.graph.operators:
        key = f"operator {operator.name}" if operator.group is None else f"group {operator.group}"
        units.setdefault(key, []).append(operator.name)
    for members in units.values():
        placements = {name: problem.placements(name) for name in members}
        sites = dict.fromkeys(placement.devices for placement in placements[members[0]])
        yield [
            {name: [p for p in placements[name] if p.devices == site] for name in members}
            for site in sites
        ]


def placement_count(problem: PlanningProblem) -> int:
    """Return the number of placements of all operators together."""
    return prod(sum(prod(map(len, there.values())) for there in unit) for unit in _units(problem))


def joint_placements(problem: PlanningProblem) -> Iterator[dict[str, Placement]]:
    """Yield every placement of all operators that keeps groups together."""
    units = [
        [
            dict(zip(there, chosen, strict=True))
            for there in unit
            for chosen in product(*there.values())
        ]
        for unit in _units(problem)
    ]
    for chosen in product(*units):
        yield {name: place for part in chosen for name, place in part.items()}


def all_tasks(problem: PlanningProblem, placement: Mapping[str, Placement]) -> Iterator[Tasks]:
    """Yield the tasks of a placement for every choice of sources; none where a route is missing."""
    sends: dict[tuple[str, tuple[str, ...], str], tuple[tuple[Route, ...], list[str]]] = {}
    native: dict[tuple[str, str], tuple[str, ...]] = {}
    for value in problem.graph.values:
        if value.producer is None:
            continue
        made = placement[value.producer]
        layout = (
            problem.graph.operator(value.producer).option(made.option).layout_written(value.name)
        )
        for consumer in value.consumers:
            reader = placement[consumer]
            ways = routes(problem, value, made, consumer, reader)
            if ways is None:
                return
            wanted = problem.graph.operator(consumer).option(reader.option).layout_read(value.name)
            natively = not ways or layout == wanted == FULL
            devices = tuple(d for d in reader.devices if d in made.devices)
            native[value.name, consumer] = devices if natively else ()
            for route in ways:
                choices = send_choices(problem, value, route, made.devices)
                sends.setdefault(route.key, (choices, []))[1].append(consumer)
    served = [consumers for _, consumers in sends.values()]
    for chosen in product(*(choices for choices, _ in sends.values())):
        yield Tasks(problem, placement, list(zip(chosen, served, strict=True)), native)
