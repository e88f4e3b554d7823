r"""Smallest largest load: who computes and who sends how much, without a clock, as one MILP.

Under the static memory law a ``bottleneck`` plan says where operators run and what travels, not
when. Letters: operator i, k; placement p = (option, devices); value v; copy c = (value, placement
of its producer, target, layout); way w = where a copy is made from; device d; resource r (device,
channel or port).

===============  ================================================================================
``choose``       sum_p place[i,p] = 1
``together``     sum of place[i,p] over p on a site is the same for all i of a group
``pair``         sum_q flow[i,k,p,q] = place[i,p];  sum_p flow[i,k,p,q] = place[k,q]
``copies``       sum_w send[c,w] >= sum of flow[i,k,p,q] over the q of k that call for c
``keep``         kept[v,l,d] >= sum of place[k,p] over the p on d that read v in layout l
``workspace``    room[d] >= sum_p workspace[i,p] place[i,p] over the p on d
``memory``       kept + native copies + received copies + room <= memory of d
``busy``         sum of duration * place + duration * send on r <= bottleneck
===============  ================================================================================

Source: this project; the assignment of work to the machine with the largest load is the classical
model of scheduling unrelated machines (Lenstra, Shmoys, Tardos 1990), with copies and their ways
added by docs/laws.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd
from typing import Any

import pyomo.environ as pyo

from milp_plan.api import (
    BuilderFormulation,
    Card,
    Guide,
    MemoryLaw,
    Objective,
    OperatorRun,
    Placement,
    Plan,
    PlanningProblem,
    Route,
    Scale,
    ScheduleSets,
    Transfer,
    Value,
    Values,
    coarser,
    column_values,
    label,
    needed_routes,
)

MOST_UNITS = 1_000_000
"""Units that all the work together, and a memory, may have at most."""

Copy = tuple[str, Placement, tuple[str, ...], str]


class ResourceLoad(BuilderFormulation):
    """The exact formulation of a bottleneck problem with static memory."""

    card = Card(
        name="resource_load",
        title="Smallest largest load of devices, channels and ports, without a schedule",
        source="this project; laws in docs/laws.md",
        objectives=(Objective.BOTTLENECK,),
        exact=True,
    )
    handles = PlanningProblem

    def unsupported(self, problem: PlanningProblem, options: Any) -> str | None:
        """Only problems whose plans need no schedule are supported."""
        if problem.serial is not None:
            return "the problem is under the serial law; see max_load"
        if problem.objective is not Objective.BOTTLENECK:
            return f"objective {problem.objective} is not bottleneck"
        if problem.memory_law is not MemoryLaw.STATIC:
            return f"memory law {problem.memory_law} is not static: its plans need a schedule"
        return None


def _key(copy: Copy, source: tuple[str, ...]) -> tuple[str, str]:
    """Index of the column that says whether a copy is made from there."""
    value, made, target, layout = copy
    return f"{value} of {label(made)} to {'+'.join(target)} {layout}", "+".join(source)


def _memory_unit(problem: PlanningProblem) -> float:
    sizes = [size for value in problem.graph.values for size in value.bytes.values()]
    sizes += [option.workspace_bytes for op in problem.graph.operators for option in op.options]
    limits = [d.memory_bytes for d in problem.cluster.devices if d.memory_bytes is not None]
    return coarser(max(1, gcd(*sizes)), max([*limits, *sizes], default=0), MOST_UNITS)


class _Builder:
    """One model under construction, and what encoding a plan into it needs."""

    def __init__(self, problem: PlanningProblem, _: Any, guide: Guide) -> None:
        self.problem, self.guide = problem, guide
        self.sets = ScheduleSets(problem)
        self.memory_unit = _memory_unit(problem)
        self.unit = coarser(self.sets.tick, self.sets.serial_ticks, MOST_UNITS)
        self.scale = Scale(self.unit, self.sets.tick)
        self.ways: dict[Copy, tuple[Route, ...]] = {}
        self.reached: list[tuple[Any, Any]] = []
        self.held: dict[str, list[Any]] = {name: [] for name in problem.cluster.device_names}

    def build(self) -> pyo.ConcreteModel:
        self.m = pyo.ConcreteModel("resource_load")
        self.choose()
        self.together()
        self.pair()
        self.copies()
        self.keep()
        self.native()
        self.workspace()
        self.memory()
        self.busy()
        self.m.objective = pyo.Objective(expr=self.m.bottleneck)
        return self.m

    def on(self, name: str, device: str) -> Iterator[Placement]:
        """Placements of an operator that hold a device."""
        return (p for p in self.sets.placements[name] if device in p.devices)

    def place(self, name: str, placements: Iterable[Placement]) -> Any:
        return pyo.quicksum(self.m.place[name, label(p)] for p in placements)

    def reach(self, rows: Any, amount: Any, column: Any) -> None:
        """Add: the column is at least this amount."""
        rows.add(amount - column <= 0)
        self.reached.append((amount, column))

    # -- placement and copies ----------------------------------------------------------------

    def choose(self) -> None:
        """Exactly one placement per operator."""
        m, placements = self.m, self.sets.placements
        index = [(name, label(p)) for name in self.sets.operators for p in placements[name]]
        m.place = pyo.Var(index, domain=pyo.Binary)
        m.choose = pyo.ConstraintList()
        for name in self.sets.operators:
            m.choose.add(self.place(name, placements[name]) == 1)

    def together(self) -> None:
        """Operators of one group run on the same site."""
        m, placements = self.m, self.sets.placements
        m.together = pyo.ConstraintList()
        for first, *others in self.problem.graph.groups.values():
            for other in others:
                sites = [p.devices for name in (first, other) for p in placements[name]]
                for site in dict.fromkeys(sites):
                    one, two = (
                        self.place(name, [p for p in placements[name] if p.devices == site])
                        for name in (first, other)
                    )
                    m.together.add(one - two == 0)

    def pair(self) -> None:
        """Placements of producer and consumer; pairs that the supply law forbids have no flow."""
        m, sets = self.m, self.sets
        index = [
            (*pair, label(made), label(read))
            for pair, combinations in sets.combinations.items()
            for made, read in combinations
        ]
        m.flow, m.pair = pyo.Var(index, bounds=(0, 1)), pyo.ConstraintList()
        for (producer, consumer), combinations in sets.combinations.items():
            for side, name in enumerate((producer, consumer)):
                flows: dict[Placement, list[Any]] = {p: [] for p in sets.placements[name]}
                for combination in combinations:
                    key = (producer, consumer, *map(label, combination))
                    flows[combination[side]].append(m.flow[key])
                for placement, columns in flows.items():
                    m.pair.add(pyo.quicksum(columns) - m.place[name, label(placement)] == 0)

    def copies(self) -> None:
        """A copy that any consumer calls for is sent, one way; all its readers share it."""
        m, sets = self.m, self.sets
        calls: dict[Copy, dict[str, dict[Any, Any]]] = {}
        for task in sets.transfers:
            for leg in task.legs:
                made, _ = leg.combination
                copy = (task.value, made, leg.route.target, leg.route.layout)
                if copy not in self.ways:
                    self.ways[copy] = sets.ways(made, leg.route)
                key = (task.producer, leg.consumer, *map(label, leg.combination))
                calls.setdefault(copy, {}).setdefault(leg.consumer, {})[key] = m.flow[key]
        index = [_key(copy, way.source) for copy, ways in self.ways.items() for way in ways]
        m.send, m.copies = pyo.Var(index, domain=pyo.Binary), pyo.ConstraintList()
        for copy, readers in calls.items():
            for flows in readers.values():
                m.copies.add(pyo.quicksum(flows.values()) - self.sent(copy) <= 0)

    def sent(self, copy: Copy) -> Any:
        """Whether a copy is made."""
        return pyo.quicksum(self.m.send[_key(copy, way.source)] for way in self.ways[copy])

    # -- memory ------------------------------------------------------------------------------

    def keep(self) -> None:
        """A persistent value lies once per layout on every device that reads it so."""
        m = self.m
        m.kept, m.keep = pyo.Var(pyo.Any, bounds=(0, 1), dense=False), pyo.ConstraintList()
        for value in self.problem.graph.values:
            for layout, size in value.bytes.items():
                for device in self.held if value.persistent and size else ():
                    readers = list(self.readers(value, layout, device))
                    if readers:
                        kept = m.kept[value.name, layout, device]
                        self.held[device].append(size / self.memory_unit * kept)
                        for reader in readers:
                            self.reach(m.keep, reader, kept)

    def readers(self, value: Value, layout: str, device: str) -> Iterator[Any]:
        """Expressions that say whether a consumer reads a persistent value in this layout."""
        for consumer in value.consumers:
            option = self.problem.graph.operator(consumer).option
            reading = [
                p
                for p in self.on(consumer, device)
                if option(p.option).layout_read(value.name) == layout
            ]
            if reading:
                yield self.place(consumer, reading)

    def native(self) -> None:
        """What operators leave on their own site, and what transfers leave on their targets."""
        m, graph = self.m, self.problem.graph
        for value in graph.values:
            for placement in self.sets.placements[value.producer] if value.producer else ():
                option = graph.operator(str(value.producer)).option(placement.option)
                size = value.bytes[option.layout_written(value.name)] / self.memory_unit
                for device in placement.devices if size else ():
                    self.held[device].append(size * m.place[value.producer, label(placement)])
        for copy in self.ways:
            name, _, target, layout = copy
            size = graph.value(name).bytes[layout] / self.memory_unit
            for device in target if size else ():
                self.held[device].append(size * self.sent(copy))

    def workspace(self) -> None:
        """Room for the largest workspace of a device's operators."""
        m, graph = self.m, self.problem.graph
        m.room = pyo.Var(list(self.held), bounds=(0, None))
        m.workspace = pyo.ConstraintList()
        for device, terms in self.held.items():
            terms.append(m.room[device])
            for name in self.sets.operators:
                sizes = {p: graph.operator(name).option(p.option) for p in self.on(name, device)}
                needed = pyo.quicksum(
                    option.workspace_bytes / self.memory_unit * m.place[name, label(p)]
                    for p, option in sizes.items()
                    if option.workspace_bytes
                )
                self.reach(m.workspace, needed, m.room[device])

    def memory(self) -> None:
        """Everything a device ever holds fits at once."""
        self.m.memory = pyo.ConstraintList()
        for device in self.problem.cluster.devices:
            if device.memory_bytes is not None:
                total = pyo.quicksum(self.held[device.name])
                self.m.memory.add(total <= device.memory_bytes / self.memory_unit)

    # -- load --------------------------------------------------------------------------------

    def busy(self) -> None:
        """No resource is busy for longer than the bottleneck."""
        m, sets, unit = self.m, self.sets, self.unit
        cutoff = self.guide.cutoff
        low = max(0, self.guide.bound or 0) / unit
        m.bottleneck = pyo.Var(bounds=(low, None if cutoff is None else cutoff / unit))
        m.busy = pyo.ConstraintList()
        work: dict[str, list[Any]] = {}
        for (name, placement), ticks in sets.duration.items():
            for device in placement.devices:
                work.setdefault(device, []).append(ticks / unit * m.place[name, label(placement)])
        for copy, ways in self.ways.items():
            for way in ways:
                for resource in way.resources:
                    column = m.send[_key(copy, way.source)]
                    work.setdefault(resource, []).append(way.duration_ticks / unit * column)
        for terms in work.values():
            self.reach(m.busy, pyo.quicksum(terms), m.bottleneck)

    # -- start -------------------------------------------------------------------------------

    def decode(self, values: Values) -> Plan:
        """Take the heaviest placement of each operator, and the way the model sends each copy."""
        problem, sets = self.problem, self.sets
        place, sent = values.get("place", {}), values.get("send", {})
        chosen = {
            name: max(sets.placements[name], key=lambda p: place.get((name, label(p)), 0.0))
            for name in sets.operators
        }
        transfers = []
        for route, _ in needed_routes(sets, chosen).values():
            made = chosen[str(problem.graph.value(route.value).producer)]
            copy = (route.value, made, route.target, route.layout)
            ways = sets.ways(made, route)
            best = max(ways, key=lambda way: sent.get(_key(copy, way.source), 0.0))
            transfers.append(Transfer(route.value, best.source, route.target, route.layout))
        runs = tuple(OperatorRun(op.name, *chosen[op.name]) for op in problem.graph.operators)
        return Plan(problem.name, runs, tuple(transfers), fingerprint=problem.fingerprint)

    def encode(self, plan: Plan) -> Values | None:
        """Values of every column under a valid plan; ``None`` if its load is above the cutoff."""
        m, sets = self.m, self.sets
        for column in m.component_data_objects(pyo.Var):
            column.set_value(0, skip_validation=True)
        chosen = {run.operator: run.placement for run in plan.runs}
        for name, placement in chosen.items():
            m.place[name, label(placement)].set_value(1)
        for pair in sets.combinations:
            m.flow[(*pair, *(label(chosen[name]) for name in pair))].set_value(1)
        for transfer in plan.transfers:
            made = chosen[str(self.problem.graph.value(transfer.value).producer)]
            copy = (transfer.value, made, transfer.target, transfer.layout)
            m.send[_key(copy, transfer.source)].set_value(1)
        for amount, column in self.reached:
            column.set_value(max(column.value, pyo.value(amount)), skip_validation=True)
        if m.bottleneck.ub is not None and m.bottleneck.value > m.bottleneck.ub + 1e-9:
            return None
        return column_values(m)


FORMULATION = ResourceLoad(_Builder)
