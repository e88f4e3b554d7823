r"""Smallest largest load under the serial law: which class on which device, in any partition.

Letters: class c (a colocation group, or an operator without one); device d, payers before hosts;
net n, a set of classes joined by a value, with a root r(n) and other members m; pass q.

===============  ================================================================================
``choose``       sum_d place[c,d] = 1
``enter``        enter[n,d] >= place[m,d] - place[r(n),d]        payers d; members m
``leave``        leave[n,d] >= place[r(n),d] - place[m,d]        payers d; members m
``memory``       sum_c size[c] place[c,d] <= memory of d
``busy``         sum_c work[q,c,d] place[c,d] + sum_n cost[n] (enter + leave)[n,d] <= top[q]
``conflict``     place[a,d] + place[b,d] <= 1                    payers d; see the guide's cutoff
``join``         place[a,d] = place[b,d]                 groups of classes that may as well
``anchor``       the r-th class of an order is on a host or on one of the first r payers
===============  ================================================================================

The objective is top[joint], or top[forward] + top[backward]. A net costs a payer that holds
part of it but not all, so ``enter + leave`` is the largest less the smallest of its members; a
net of two has one column for both.

Source: Tarnawski et al. (NeurIPS 2020, arXiv 2006.16423), section 5 and appendix (throughput IP);
conflicts by minimum cuts, anchors and their choice: this project.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import pyomo.environ as pyo

from milp_plan.api import (
    BuilderFormulation,
    Card,
    Contiguity,
    Guide,
    Objective,
    Passes,
    Plan,
    PlanningProblem,
    Scale,
    Values,
    conflicts_below,
    require_supported,
)
from milp_plan.kinds.placement.serial.colocation import colocated
from milp_plan.kinds.placement.serial.graph import SerialGraph, read_serial

MANY_ALIKE = 0.8
"""Share of the heaviest classes that may be alike before anchoring is left out."""

MARGIN = 1e-9
"""Parts of the cutoff by which it is raised, so that rounding does not cut off its own plan."""


@dataclass(frozen=True)
class Switches:
    """Switches."""

    anchor: Literal["auto", "yes", "no"] = field(
        default="auto", metadata={"help": "number the payers by the heaviest classes on them"}
    )
    join: bool = field(default=True, metadata={"help": "classes that may share a device share it"})
    conflicts: bool = field(
        default=True, metadata={"help": "rows for classes that no payer can hold together"}
    )


class MaxLoad(BuilderFormulation):
    """The exact formulation of bottleneck problems under the serial law without contiguity."""

    card = Card(
        name="max_load",
        title="Smallest largest load of devices that pay for transfers, in any partition",
        source="Tarnawski et al. 2020 (arXiv 2006.16423); cuts of this project",
        objectives=(Objective.BOTTLENECK,),
        exact=True,
    )
    handles = PlanningProblem
    Options = Switches

    def unsupported(self, problem: PlanningProblem, options: Switches) -> str | None:
        """Only bottleneck problems under the serial law whose parts need not be contiguous."""
        if problem.serial is None:
            return "the problem is not under the serial law"
        if problem.objective is not Objective.BOTTLENECK:
            return f"objective {problem.objective} is not bottleneck"
        if problem.serial.contiguity is not Contiguity.FREE:
            return "parts must be contiguous; see contiguous_load"
        graph = read_serial(problem)
        return graph if isinstance(graph, str) else None


def _unit(graph: SerialGraph) -> float:
    """Ticks of one unit of the model: an even share of all work is about a hundred of them."""
    ticks = [
        w if w is not None else h or 0 for w, h in zip(graph.work, graph.host_work, strict=True)
    ]
    return max(1.0, sum(ticks) / len(graph.payers) / 100.0)


def _devices(graph: SerialGraph, number: int) -> list[int]:
    """Devices that can run a class."""
    payers, hosts = len(graph.payers), len(graph.hosts)
    found = list(range(payers)) if graph.work[number] is not None else []
    if graph.host_work[number] is not None:
        found += range(payers, payers + hosts)
    return found


class _Builder:
    """One model under construction, and what encoding a plan into it needs."""

    def __init__(self, problem: PlanningProblem, options: Switches, guide: Guide) -> None:
        self.graph = graph = require_supported(read_serial(problem), problem.name)
        self.options, self.guide = options, guide
        self.payers, self.hosts = len(graph.payers), len(graph.hosts)
        self.unit = _unit(graph)
        self.scale = Scale(self.unit)
        self.apart = graph.law.passes is Passes.SEPARATE
        self.passes = (0, 1) if self.apart else (0,)
        self.nets = self.merged()
        self.order = self.anchors()
        known = guide.cutoff is not None and options.join
        self.groups = colocated(graph, guide.cutoff) if known else ()

    def merged(self) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
        """Members and cost per pass of nets; those of the same members are one."""
        found: dict[tuple[int, ...], list[float]] = {}
        for net in self.graph.nets:
            if net.ticks:
                costs = found.setdefault(
                    tuple(sorted((net.source, *net.readers))), [0.0] * len(self.passes)
                )
                costs[int(self.apart and net.backward)] += net.ticks / self.unit
        return [(members, tuple(costs)) for members, costs in found.items()]

    def work(self, turn: int, number: int, device: int) -> float:
        """Units of a class on a device in a pass."""
        graph, host = self.graph, device >= self.payers
        whole = (graph.host_work if host else graph.work)[number] or 0
        later = (graph.backward_host_work if host else graph.backward_work)[number]
        if not self.apart:
            return whole / self.unit
        return (later if turn else whole - later) / self.unit

    def anchors(self) -> list[int]:
        """Classes in the order that numbers the payers; none where too many are alike."""
        graph = self.graph
        work = {c: ticks for c, ticks in enumerate(graph.work) if ticks is not None}
        order = sorted(work, key=lambda c: -work[c])[: self.payers - 1]
        if self.options.anchor == "no" or not order:
            return []
        top = sorted(work.values(), reverse=True)[: 2 * self.payers]
        alike = sum(
            1
            for ticks in top
            if ticks * 1.01 >= top[len(top) // 2] * 1.0 and ticks <= 1.01 * top[len(top) // 2]
        )
        if self.options.anchor == "auto" and alike >= MANY_ALIKE * len(top):
            return []
        return order

    def build(self) -> pyo.ConcreteModel:
        self.m = pyo.ConcreteModel("max_load")
        self.choose()
        self.cross()
        self.memory()
        self.busy()
        self.conflict()
        self.join()
        self.anchor()
        self.m.objective = pyo.Objective(expr=pyo.quicksum(self.m.top.values()))
        return self.m

    # -- places and crossings ----------------------------------------------------------------

    def choose(self) -> None:
        """Every class has one device."""
        m, graph = self.m, self.graph
        index = [(c, d) for c in range(len(graph)) for d in _devices(graph, c)]
        m.place = pyo.Var(index, domain=pyo.Binary)
        m.choose = pyo.ConstraintList()
        for c in range(len(graph)):
            m.choose.add(pyo.quicksum(m.place[c, d] for d in _devices(graph, c)) == 1)
        cutoff = self.guide.cutoff
        for c, d in index:
            ticks = (graph.work if d < self.payers else graph.host_work)[c]
            if cutoff is not None and ticks is not None and ticks > cutoff:
                m.place[c, d].setub(0)

    def at(self, number: int, device: int) -> Any:
        """Whether a class is on a device; 0 where it cannot run."""
        key = (number, device)
        return self.m.place[key] if key in self.m.place else 0  # noqa: SIM401 (no dict)

    def cross(self) -> None:
        """A payer that holds part of a net pays; nets of two have one column per payer."""
        m = self.m
        index = [(n, d) for n in range(len(self.nets)) for d in range(self.payers)]
        m.enter = pyo.Var(index, bounds=(0, 1))
        m.leave = pyo.Var([(n, d) for n, d in index if len(self.nets[n][0]) > 2], bounds=(0, 1))
        m.cross = pyo.ConstraintList()
        for n, d in index:
            root, *others = self.nets[n][0]
            out = m.leave[n, d] if len(others) > 1 else m.enter[n, d]
            for other in others:
                here, there = self.at(root, d), self.at(other, d)
                if not (isinstance(here, int) and isinstance(there, int)):
                    m.cross.add(there - here - m.enter[n, d] <= 0)
                    m.cross.add(here - there - out <= 0)

    # -- limits ------------------------------------------------------------------------------

    def memory(self) -> None:
        """What a device holds fits."""
        m, graph = self.m, self.graph
        m.memory = pyo.ConstraintList()
        for d in range(self.payers + self.hosts):
            limit = graph.memory if d < self.payers else graph.host_memory
            held = [c for c in range(len(graph)) if (c, d) in m.place and graph.size[c]]
            if limit is None or not held or sum(graph.size[c] for c in held) <= limit:
                continue
            unit = max(limit, 1) / 1000.0
            total = pyo.quicksum(graph.size[c] / unit * m.place[c, d] for c in held)
            m.memory.add(total <= limit / unit)

    def busy(self) -> None:
        """No device is busier than the load of its pass."""
        m, unit = self.m, self.unit
        cutoff, low = self.guide.cutoff, max(0, self.guide.bound or 0) / unit
        high = None if cutoff is None else cutoff / unit * (1.0 + MARGIN)
        m.top = pyo.Var(list(self.passes), bounds=(0 if self.apart else low, high))
        m.busy = pyo.ConstraintList()
        for turn in self.passes:
            for d in range(self.payers + self.hosts):
                terms = [
                    self.work(turn, c, d) * m.place[c, d]
                    for c in range(len(self.graph))
                    if (c, d) in m.place and self.work(turn, c, d)
                ]
                terms += self.transfers(turn, d) if d < self.payers else []
                m.busy.add(pyo.quicksum(terms) - m.top[turn] <= 0)
        if self.apart:
            total = pyo.quicksum(m.top.values())
            m.total = pyo.ConstraintList()
            m.total.add(total >= low)
            if high is not None:
                m.total.add(total <= high)

    def transfers(self, turn: int, device: int) -> list[Any]:
        """What a payer is charged for nets in a pass."""
        m, found = self.m, []
        for n, (members, costs) in enumerate(self.nets):
            if costs[turn]:
                found.append(costs[turn] * m.enter[n, device])
                if len(members) > 2:
                    found.append(costs[turn] * m.leave[n, device])
        return found

    # -- what follows from the cutoff, and from payers being alike ------------------------------

    def conflict(self) -> None:
        """Classes whose cheapest set with both is above the cutoff are never on one payer."""
        m = self.m
        m.conflict = pyo.ConstraintList()
        if self.guide.cutoff is None or not self.options.conflicts:
            return
        known = conflicts_below(self.graph, self.guide.cutoff)
        for d in range(self.payers):
            for one, two in known.apart:
                if (one, d) in m.place and (two, d) in m.place:
                    m.conflict.add(m.place[one, d] + m.place[two, d] <= 1)
            for one, two in known.follows:
                if (one, d) in m.place and (two, d) in m.place:
                    m.conflict.add(m.place[one, d] - m.place[two, d] <= 0)
            for number in known.off:
                if (number, d) in m.place:
                    m.place[number, d].setub(0)

    def join(self) -> None:
        """Groups that may share a device without loss do, where a plan's value is known."""
        m = self.m
        m.join = pyo.ConstraintList()
        for first, *others in self.groups:
            for other in others:
                for d in range(self.payers + self.hosts):
                    row = self.at(first, d) - self.at(other, d)
                    if not isinstance(row, int):
                        m.join.add(row == 0)

    def anchor(self) -> None:
        """The r-th class of the order is on one of the first r payers, if it is on one at all."""
        for rank, number in enumerate(self.order):
            for d in range(rank + 1, self.payers):
                self.m.place[number, d].setub(0)

    # -- start -------------------------------------------------------------------------------

    def decode(self, values: Values) -> Plan:
        """Take the heaviest device of each class."""
        place, chosen = values.get("place", {}), []
        for number in range(len(self.graph)):
            weight = {d: place.get((number, d), 0.0) for d in _devices(self.graph, number)}
            chosen.append(max(weight, key=weight.__getitem__))
        return self.graph.plan(chosen)

    def encode(self, plan: Plan) -> Values | None:
        """Values of every column; groups are joined, payers numbered as the anchors want it.

        ``None`` if the plan's load is above the cutoff.
        """
        places = list(self.graph.places(plan))
        for first, *others in self.groups:
            for other in others:
                places[other] = places[first]
        renamed: dict[int, int] = {}
        for number in [*self.order, *range(len(places))]:
            if places[number] < self.payers:
                renamed.setdefault(places[number], len(renamed))
        chosen = [renamed.get(place, place) for place in places]
        m = self.m
        named: Values = {"place": {}, "enter": {}, "leave": {}, "top": {}}
        for c, d in m.place:
            named["place"][c, d] = float(chosen[c] == d)
        for n, d in m.enter:
            here, *rest = (float(chosen[c] == d) for c in self.nets[n][0])
            enter, leave = max(rest) - here, here - min(rest)
            named["enter"][n, d] = max(enter, 0.0 if (n, d) in m.leave else leave)
            if (n, d) in m.leave:
                named["enter"][n, d] = max(0.0, enter)
                named["leave"][n, d] = max(0.0, leave)
        for turn in self.passes:
            named["top"][turn] = max(
                self.load_of(turn, d, chosen, named) for d in range(self.payers + self.hosts)
            )
        total = sum(named["top"].values())
        cutoff = self.guide.cutoff
        above = cutoff is not None and total > cutoff / self.unit * (1.0 + 2 * MARGIN)
        return None if above else named

    def load_of(self, turn: int, device: int, chosen: list[int], named: Values) -> float:
        """Load of a device in a pass."""
        total = sum(self.work(turn, c, device) for c, d in enumerate(chosen) if d == device)
        for n, (_, costs) in enumerate(self.nets):
            if device < self.payers and costs[turn]:
                crossing = named["enter"][n, device] + named["leave"].get((n, device), 0.0)
                total += costs[turn] * crossing
        return total


FORMULATION = MaxLoad(_Builder)
