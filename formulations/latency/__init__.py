r"""Latency of one sample under the serial law: which operator in which call of which device.

Letters: operator i (those that take no time may be merged into neighbours); place p, a call of a
payer; value v with producer s(v) and readers r; k a class; d a payer; H the horizon.

==============  =================================================================================
``choose``      host[i] + sum_p at[i,p] = 1
``mates``       members of a class agree in host, and in sum of at over the calls of each payer
``both``        both[v,r,p] <= at[s(v),p];  both[v,r,p] <= at[r,p]
``take``        take[v,p] >= at[r,p] - both[v,r,p]            p receives v
``give``        give[v,p] >= at[s(v),p] - both[v,r,p]         p sends v
``memory``      sum_k size[k] on[k,d] <= memory
``busy``        busy[p] = sum_i work[i] at[i,p] + sum_v cost[v] (take + give)[v,p]
``path``        path[r] >= path[s(v)] + own[r] + cost[v] (away + sent)[v,r]
``within``      path[i] <= end[i] <= makespan
``after``       end[r] >= end[s(v)] + host_work[r] host[r]
``receive``     start[p] >= end[s(v)] - H (1 - at[r,p] + both[v,r,p])
``finish``      end[i] >= start[p] + busy[p] - H (1 - at[i,p])
``turn``        start[p + 1] >= start[p] + busy[p]            calls of one payer
``order``       one call: payers are numbered in the order of their calls
==============  =================================================================================

own[r] = work[r] (1 - host[r]) + host_work[r] host[r]; away[v,r] = 1 - host[r] - sum_p both[v,r,p];
sent[v,r] = 1 - host[s(v)] - sum_p both[v,r,p]. Path potentials need no large constants: what an
operator does, what its producer sends for it and what it receives come one after another.

Source: Tarnawski et al. (NeurIPS 2020, arXiv 2006.16423), section 3 (latency); path potentials:
this project.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyomo.environ as pyo

from milp_plan.api import (
    BuilderFormulation,
    Card,
    Guide,
    Objective,
    Plan,
    PlanningProblem,
    Scale,
    Values,
    require_supported,
)
from milp_plan.kinds.placement.serial.atoms import merged_tables
from milp_plan.kinds.placement.serial.graph import read_serial

MARGIN = 1e-6
"""Parts of the cutoff by which the horizon is raised, so that rounding keeps its own plan."""


@dataclass(frozen=True)
class Switches:
    """Switches."""

    potentials: bool = field(default=True, metadata={"help": "path potentials"})


class Latency(BuilderFormulation):
    """The exact formulation of latency problems under the serial law."""

    card = Card(
        name="latency",
        title="Latency of one sample on devices that are called, with transfers as work",
        source="Tarnawski et al. 2020 (arXiv 2006.16423); path potentials of this project",
        objectives=(Objective.LATENCY,),
        exact=True,
    )
    handles = PlanningProblem
    Options = Switches

    def unsupported(self, problem: PlanningProblem, options: Switches) -> str | None:
        """Only latency problems under the serial law."""
        if problem.serial is None or problem.serial.calls is None:
            return "the problem is not one of latency under the serial law"
        graph = read_serial(problem)
        if isinstance(graph, str):
            return graph
        if graph.host_memory is not None and len(graph.hosts) > 1:
            return "there are several hosts with limited memory; one is used"
        return None


class _Builder:
    """One model under construction, and what encoding a plan into it needs."""

    def __init__(self, problem: PlanningProblem, options: Switches, guide: Guide) -> None:
        graph = require_supported(read_serial(problem), problem.name)
        self.tables = tables = merged_tables(graph)
        self.options = options
        self.tick_work, self.tick_host = self.possible()
        heads = self.heads()
        unit = self.unit = max(1.0, max(heads, default=0) / 100.0)
        self.scale = Scale(unit)
        count = range(len(tables))
        self.work = [None if t is None else t / unit for t in self.tick_work]
        self.host = [None if t is None else t / unit for t in self.tick_host]
        self.cost = [value.ticks / unit for value in tables.values]
        self.head = [t / unit for t in heads]
        self.places = range(tables.num_places)
        self.pairs = [(v, r) for v, value in enumerate(tables.values) for r in value.readers]
        slow = sum(
            max(t or 0.0, h or 0.0) for t, h in zip(self.work, self.host, strict=True)
        ) + sum(
            (1 + len(value.readers)) * c for value, c in zip(tables.values, self.cost, strict=True)
        )
        self.horizon = slow
        if guide.cutoff is not None:
            self.horizon = min(slow, guide.cutoff / unit * (1 + MARGIN) + MARGIN)
        self.bound = 0.0 if guide.bound is None else guide.bound / unit * (1 - MARGIN)
        self.operators = count

    def possible(self) -> tuple[list[int | None], list[int | None]]:
        """Ticks of each operator on payers and on hosts; ``None`` where its class cannot be.

        Times that no plan has would widen the range of the model's numbers.
        """
        tables = self.tables
        work, host = list(tables.work), list(tables.host_work)
        for size, members in zip(tables.size, tables.members, strict=True):
            sides = ((work, tables.graph.memory), (host, tables.graph.host_memory))
            never = [
                any(times[i] is None for i in members) or (room is not None and size > room)
                for times, room in sides
            ]
            if never[0] != never[1]:  # else it can be on both, or there is no plan
                for i in members:
                    sides[never.index(True)][0][i] = None
        return work, host

    def heads(self) -> list[int]:
        """Earliest end of each operator: its longest path of least times."""
        tables, found = self.tables, [0] * len(self.tables)
        for i in tables.order:
            least = min(t for t in (self.tick_work[i], self.tick_host[i]) if t is not None)
            found[i] = least + max((found[source] for source in tables.before[i]), default=0)
        return found

    def build(self) -> pyo.ConcreteModel:
        """Columns, then rows in the order of the index."""
        model = pyo.ConcreteModel()
        m, operators, places = model, self.operators, self.places
        m.host = pyo.Var(operators, domain=pyo.Binary)
        m.at = pyo.Var(operators, places, domain=pyo.Binary)
        m.both = pyo.Var(self.pairs, places, bounds=(0, 1))
        values = range(len(self.cost))
        m.take = pyo.Var(values, places, bounds=(0, 1))
        m.give = pyo.Var(values, places, bounds=(0, 1))
        top = self.horizon
        m.busy = pyo.Var(places, bounds=(0, top))
        m.start = pyo.Var(places, bounds=(0, top))
        m.end = pyo.Var(operators, bounds=lambda _, i: (min(self.head[i], top), top))
        m.path = pyo.Var(operators, bounds=(0, top))
        m.makespan = pyo.Var(bounds=(min(self.bound, top), top))
        m.objective = pyo.Objective(expr=m.makespan)
        for i in operators:
            if self.host[i] is None:
                m.host[i].fix(0)
            if self.work[i] is None:
                for p in places:
                    m.at[i, p].fix(0)
        self.choose(m)
        self.transfers(m)
        self.memory(m)
        if self.options.potentials:
            self.paths(m)
        self.times(m)
        if self.tables.calls == 1:
            self.order(m)
        return m

    def choose(self, m: pyo.ConcreteModel) -> None:
        """Rows ``choose`` and ``mates``."""
        calls = self.tables.calls
        m.choose = pyo.Constraint(
            self.operators, rule=lambda m, i: m.host[i] + sum(m.at[i, p] for p in self.places) == 1
        )
        m.mates = pyo.ConstraintList()
        for members in self.tables.members:
            for other in members[1:]:
                m.mates.add(m.host[members[0]] == m.host[other])
                for first in self.places[::calls]:
                    on = range(first, first + calls)
                    m.mates.add(
                        sum(m.at[members[0], p] for p in on) == sum(m.at[other, p] for p in on)
                    )

    def transfers(self, m: pyo.ConcreteModel) -> None:
        """Rows ``both``, ``take`` and ``give``."""
        source = [value.source for value in self.tables.values]
        index = [(v, r, p) for v, r in self.pairs for p in self.places]
        m.both_source = pyo.Constraint(
            index, rule=lambda m, v, r, p: m.both[v, r, p] <= m.at[source[v], p]
        )
        m.both_reader = pyo.Constraint(index, rule=lambda m, v, r, p: m.both[v, r, p] <= m.at[r, p])
        m.taken = pyo.Constraint(
            index, rule=lambda m, v, r, p: m.take[v, p] >= m.at[r, p] - m.both[v, r, p]
        )
        m.given = pyo.Constraint(
            index, rule=lambda m, v, r, p: m.give[v, p] >= m.at[source[v], p] - m.both[v, r, p]
        )

    def memory(self, m: pyo.ConcreteModel) -> None:
        """Rows ``memory``, in shares of a device, and ``load``."""
        tables = self.tables
        both = zip(tables.size, tables.members, strict=True)
        sizes = [(size, members[0]) for size, members in both
                 if size and members]  # fmt: skip
        m.memory = pyo.ConstraintList()
        limit = tables.graph.memory
        for first in self.places[:: tables.calls] if sizes else ():
            if limit is None:
                break
            on = range(first, first + tables.calls)
            held = sum(size / max(limit, 1) * m.at[i, p] for size, i in sizes for p in on)
            m.memory.add(held <= (1 if limit else 0))
        kept = tables.graph.host_memory
        if kept is not None and sizes:
            m.memory.add(
                sum(size / max(kept, 1) * m.host[i] for size, i in sizes) <= (1 if kept else 0)
            )

        def load(m: pyo.ConcreteModel, p: int) -> Any:
            work = sum((self.work[i] or 0.0) * m.at[i, p] for i in self.operators)
            moved = sum(c * (m.take[v, p] + m.give[v, p]) for v, c in enumerate(self.cost) if c)
            return m.busy[p] == work + moved

        m.loads = pyo.Constraint(self.places, rule=load)

    def own(self, m: pyo.ConcreteModel, i: int) -> Any:
        """Time of an operator alone."""
        return (self.work[i] or 0.0) * (1 - m.host[i]) + (self.host[i] or 0.0) * m.host[i]

    def paths(self, m: pyo.ConcreteModel) -> None:
        """Rows ``path`` and the first half of ``within``."""

        def path(m: pyo.ConcreteModel, v: int, r: int) -> Any:
            source = self.tables.values[v].source
            both = sum(m.both[v, r, p] for p in self.places)
            crossing = self.cost[v] * (2 - m.host[r] - m.host[source] - 2 * both)
            return m.path[r] >= m.path[source] + self.own(m, r) + crossing

        m.first = pyo.Constraint(self.operators, rule=lambda m, i: m.path[i] >= self.own(m, i))
        m.paths = pyo.Constraint(self.pairs, rule=path)
        m.path_end = pyo.Constraint(self.operators, rule=lambda m, i: m.path[i] <= m.end[i])

    def times(self, m: pyo.ConcreteModel) -> None:
        """Rows ``within``, ``after``, ``receive``, ``finish`` and ``turn``."""
        source = [value.source for value in self.tables.values]
        calls, top = self.tables.calls, self.horizon
        m.within = pyo.Constraint(self.operators, rule=lambda m, i: m.end[i] <= m.makespan)
        m.alone = pyo.Constraint(
            self.operators, rule=lambda m, i: m.end[i] >= (self.host[i] or 0.0) * m.host[i]
        )
        m.after = pyo.Constraint(
            self.pairs,
            rule=lambda m, v, r: m.end[r] >= m.end[source[v]] + (self.host[r] or 0.0) * m.host[r],
        )
        m.receive = pyo.Constraint(
            [(v, r, p) for v, r in self.pairs for p in self.places],
            rule=lambda m, v, r, p: (
                m.start[p] >= m.end[source[v]] - top * (1 - m.at[r, p] + m.both[v, r, p])
            ),
        )
        m.finish = pyo.Constraint(
            self.operators,
            self.places,
            rule=lambda m, i, p: m.end[i] >= m.start[p] + m.busy[p] - 2 * top * (1 - m.at[i, p]),
        )
        m.turn = pyo.Constraint(
            [p for p in self.places if (p + 1) % calls],
            rule=lambda m, p: m.start[p + 1] >= m.start[p] + m.busy[p],
        )
        m.last = pyo.Constraint(self.places, rule=lambda m, p: m.start[p] + m.busy[p] <= m.makespan)

    def order(self, m: pyo.ConcreteModel) -> None:
        """Row ``order``: a reader on a payer is on no payer before that of the producer."""

        def order(m: pyo.ConcreteModel, v: int, r: int, p: int) -> Any:
            later = range(p, len(self.places))
            source = self.tables.values[v].source
            return sum(m.at[source, q] for q in later) <= m.host[r] + sum(m.at[r, q] for q in later)

        index = [(v, r, p) for v, r in self.pairs for p in self.places[1:]]
        m.order = pyo.Constraint(index, rule=order)

    def decode(self, values: Values) -> Plan:
        """Take the heaviest place of each operator."""
        at, host, places = values.get("at", {}), values.get("host", {}), []
        for i in self.operators:
            weight = {p: at.get((i, p), 0.0) for p in self.places}
            weight[-1] = host.get(i, 0.0)
            places.append(max(weight, key=weight.__getitem__))
        return self.tables.plan(places)

    def encode(self, plan: Plan) -> Values | None:
        """Columns of a plan, with payers numbered by their first starts if they have one call.

        ``None`` if the plan ends after the horizon.
        """
        tables = self.tables
        raw = tables.places(plan)
        ends = tables.ends(list(raw))
        if ends is None or max(ends, default=0) / self.unit > self.horizon:
            return None
        places = self._numbered([int(p) for p in raw], ends)
        loads = [load / self.unit for load in tables.loads(places)]
        end = [t / self.unit for t in ends]
        at = {(i, p): float(places[i] == p) for i in self.operators for p in self.places}
        start = self._starts(places, end, loads)
        found: dict[str, Any] = {
            "at": at,
            "host": {i: float(places[i] == -1) for i in self.operators},
            "busy": dict(enumerate(loads)),
            "start": dict(enumerate(start)),
            "end": dict(enumerate(end)),
            "makespan": {None: max(end, default=0.0)},
            "both": {},
            "take": {(v, p): 0.0 for v in range(len(self.cost)) for p in self.places},
            "give": {(v, p): 0.0 for v in range(len(self.cost)) for p in self.places},
        }
        for v, r in self.pairs:
            home, away = places[tables.values[v].source], places[r]
            for p in self.places:
                found["both"][v, r, p] = float(home == p == away)
            if home != away and away >= 0:
                found["take"][v, away] = 1.0
            if home != away and home >= 0:
                found["give"][v, home] = 1.0
        if self.options.potentials:
            found["path"] = dict(enumerate(self._path(places)))
        return found

    def _numbered(self, places: list[int], ends: list[int]) -> list[int]:
        """Places with payers in an order of their calls."""
        if self.tables.calls > 1:
            return places
        loads = self.tables.loads(places)
        begin = {p: ends[i] - loads[p] for i, p in enumerate(places) if p >= 0}
        rank = {p: ends[i] for i, p in enumerate(places) if p >= 0}
        depth = self._depth(places)
        order = sorted(begin, key=lambda p: (begin[p], rank[p], depth[p]))
        number = {p: k for k, p in enumerate(order)}
        return [number.get(p, -1) for p in places]

    def _depth(self, places: list[int]) -> dict[int, int]:
        """Number of calls that each call comes after, for calls that take no time."""
        count = len(self.places)
        behind = np.zeros((count, count), dtype=bool)
        known: list[set[int]] = [set() for _ in self.operators]
        for _ in range(count + 1):
            for i in self.tables.order:
                for source in self.tables.before[i]:
                    known[i] |= known[source] | ({places[source]} - {-1})
                known[i] |= {q for q in range(count) if places[i] >= 0 and behind[places[i], q]}
                if places[i] >= 0:
                    behind[places[i], list(known[i] - {places[i]})] = True
        return {p: int(behind[p].sum()) for p in self.places}

    def _starts(self, places: list[int], end: list[float], loads: list[float]) -> list[float]:
        """Starts of calls; those without operators follow the one before at once."""
        found = [0.0] * len(self.places)
        for p in self.places:
            mine = [end[i] for i in self.operators if places[i] == p]
            if mine:
                found[p] = mine[0] - loads[p]
            elif p % self.tables.calls:
                found[p] = found[p - 1] + loads[p - 1]
        return found

    def _path(self, places: list[int]) -> list[float]:
        found = [0.0] * len(places)
        for i in self.tables.order:
            own = (self.host[i] if places[i] == -1 else self.work[i]) or 0.0
            found[i] = own
        reads: list[list[int]] = [[] for _ in places]
        for v, r in self.pairs:
            reads[r].append(v)
        for i in self.tables.order:
            own = found[i]
            for v in reads[i]:
                source = self.tables.values[v].source
                crossing = 0.0
                if places[source] != places[i]:
                    crossing = self.cost[v] * ((places[source] >= 0) + (places[i] >= 0))
                found[i] = max(found[i], found[source] + own + crossing)
        return found


FORMULATION = Latency(_Builder)
