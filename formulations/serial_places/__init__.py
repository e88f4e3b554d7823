r"""Everything under the serial law: which operator at which place, with devices of any kind.

Letters: class c, operator i, device d, place p (a device, or a call of a paying one), value v made
by s(v) and read by r, call k, pass q.

===============  ================================================================================
``choose``       sum_d on[c,d] = 1;  sum_{p of d} at[i,p] = on[c(i),d]
``shared``       uses[w,d] >= on[c,d]                            classes c that read w
``memory``       sum_c held[c] on[c,d] + sum_w bytes[w] uses[w,d] + space[d] <= memory of d;
                 space[d] >= workspace[c] on[c,d]
``enter``        enter[v,p] >= at[r,p] - at[s(v),p]              paying p
``leave``        leave[v,p] >= at[s(v),p] - at[r,p]              paying p
``load``         busy[p,q] = sum_i work[i,d] at[i,p] + sum_v ticks[v] (enter + leave)[v,p]
``largest``      busy[p,q] <= top[q]
``chain``        rank[b] >= rank[a] + 1 - D (2 - on[c,a] - on[e,b])      arcs (c, e), devices a, b
``wait``         start[p] >= end[s(v)] - H (1 - at[r,p] + at[s(v),p])    calls p
``finish``       end[i] >= start[p] + busy[p] - 2 H (1 - at[i,p])        calls p
``alone``        end[r] >= end[s(v)] + work[r,d] at[r,d]                 devices d that do not pay
``turn``         start[d,k] >= start[d,k-1] + busy[d,k-1]
``order``        the same with ranks, a step of 1 for each call: no calls wait in a circle
===============  ================================================================================

The objective is the sum of top[q], or the largest end. Formulations for devices that are alike
(:mod:`max_load`, :mod:`contiguous_load`, :mod:`latency`) are smaller where they apply.

Source: laws of Tarnawski et al. (NeurIPS 2020, arXiv 2006.16423); this project.
"""

from __future__ import annotations

from typing import Any

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
)
from milp_plan.kinds.placement.serial.places import read_places

MARGIN = 1e-9
"""Parts of the cutoff by which it is raised, so that rounding does not cut off its own plan."""

LOAD = 100.0
"""Units of the model in an even share of all work, or in all of it where one sample counts."""


class SerialPlaces(BuilderFormulation):
    """The exact formulation of every problem under the serial law."""

    card = Card(
        name="serial_places",
        title="Every problem under the serial law, operator by operator and device by device",
        source="laws of Tarnawski et al. 2020 (arXiv 2006.16423); this project",
        objectives=(Objective.BOTTLENECK, Objective.LATENCY),
        exact=True,
    )
    handles = PlanningProblem

    def unsupported(self, problem: PlanningProblem, options: Any) -> str | None:
        """Only problems under the serial law."""
        return None if problem.serial is not None else "the problem is not under the serial law"


class _Builder:
    """One model under construction, and what encoding a plan into it needs."""

    def __init__(self, problem: PlanningProblem, options: Any, guide: Guide) -> None:
        self.tables = t = read_places(problem)
        self.guide = guide
        self.devices = range(len(t.devices))
        self.classes = range(len(t.members))
        self.operators = range(len(t))
        self.values = range(len(t.values))
        self.places = [(d, k) for d in self.devices for k in range(t.calls(d))]
        self.paying = [place for place in self.places if t.pays[place[0]]]
        self.passes = (0, 1) if t.apart else (0,)
        slowest = [max(ticks for ticks in row if ticks is not None) for row in t.work]
        moved = sum(2 * (1 + len(value.readers)) * value.ticks for value in t.values)
        whole = sum(slowest) + moved
        self.most = whole if guide.cutoff is None else min(whole, max(0, guide.cutoff))
        share = 1 if t.latency or guide.cutoff is not None else len(t.devices)
        self.unit = max(1.0, self.most / share / LOAD)
        self.scale = Scale(self.unit)
        self.horizon = self.most / self.unit * (1 + MARGIN) + MARGIN
        self.steps = len(self.places) + len(t)

    def build(self) -> pyo.ConcreteModel:
        """Columns, then rows in the order of the index."""
        self.m = pyo.ConcreteModel("serial_places")
        self.choose()
        self.memory()
        self.load()
        if self.tables.latency:
            self.times()
            self.order()
        else:
            self.largest()
            self.chain()
        return self.m

    def choose(self) -> None:
        """Every class has a device, every operator a place of it."""
        m, t = self.m, self.tables
        m.on = pyo.Var(self.classes, self.devices, domain=pyo.Binary)
        m.at = pyo.Var(self.operators, self.places, domain=pyo.Binary)
        m.choose = pyo.Constraint(
            self.classes, rule=lambda m, c: sum(m.on[c, d] for d in self.devices) == 1
        )
        m.placed = pyo.Constraint(
            self.operators,
            self.devices,
            rule=lambda m, i, d: (
                sum(m.at[i, d, k] for k in range(t.calls(d))) == m.on[t.class_of[i], d]
            ),
        )
        for c, numbers in enumerate(t.members):
            for d in self.devices:  # what takes longer than any plan looked for is no column
                if d not in t.homes[c] or any((t.work[i][d] or 0) > self.most for i in numbers):
                    m.on[c, d].fix(0)
                    for i in numbers:
                        for k in range(t.calls(d)):
                            m.at[i, d, k].fix(0)

    def memory(self) -> None:
        """Rows ``shared`` and ``memory``, in shares of a device."""
        m, t = self.m, self.tables
        m.uses = pyo.Var(range(len(t.shared)), self.devices, bounds=(0, 1))
        m.space = pyo.Var(self.devices, bounds=(0, 1))
        m.shared, m.memory = pyo.ConstraintList(), pyo.ConstraintList()
        for d in self.devices:
            limit = t.devices[d].memory_bytes
            if limit is None:
                continue
            share = max(limit, 1)
            for w, (_, readers) in enumerate(t.shared):
                for c in readers:
                    m.shared.add(m.uses[w, d] >= m.on[c, d])
            for c in self.classes:
                if t.held[c] + t.workspace[c] > limit:
                    m.on[c, d].setub(0)
                elif t.workspace[c]:
                    m.shared.add(m.space[d] >= t.workspace[c] / share * m.on[c, d])
            held = sum(min(t.held[c], 2 * share) / share * m.on[c, d] for c in self.classes)
            held += sum(
                min(size, 2 * share) / share * m.uses[w, d] for w, (size, _) in enumerate(t.shared)
            )
            m.memory.add(held + m.space[d] <= (1 if limit else 0))

    def load(self) -> None:
        """Rows ``enter``, ``leave`` and ``load``."""
        m, t = self.m, self.tables
        m.enter = pyo.Var(self.values, self.paying, bounds=(0, 1))
        m.leave = pyo.Var(self.values, self.paying, bounds=(0, 1))
        m.busy = pyo.Var(self.places, self.passes, bounds=(0, self.horizon))
        m.cross = pyo.ConstraintList()
        for v, value in enumerate(t.values):
            for d, k in self.paying if value.ticks else ():
                if value.ticks > self.most:
                    m.enter[v, d, k].fix(0)
                    m.leave[v, d, k].fix(0)
                for reader in value.readers:
                    there, here = m.at[reader, d, k], m.at[value.source, d, k]
                    m.cross.add(m.enter[v, d, k] >= there - here)
                    m.cross.add(m.leave[v, d, k] >= here - there)

        def load(m: pyo.ConcreteModel, d: int, k: int, turn: int) -> Any:
            total = sum(
                (t.work[i][d] or 0) / self.unit * m.at[i, d, k]
                for i in self.operators
                if self.turn(t.backward[i]) == turn and (t.work[i][d] or 0) <= self.most
            )
            for v, value in enumerate(t.values) if t.pays[d] else ():
                if 0 < value.ticks <= self.most and self.turn(value.backward) == turn:
                    total += value.ticks / self.unit * (m.enter[v, d, k] + m.leave[v, d, k])
            return m.busy[d, k, turn] == total

        if self.tables.latency:  # only calls have loads
            m.loads = pyo.Constraint(self.paying, self.passes, rule=load)
        else:
            m.loads = pyo.Constraint(self.places, self.passes, rule=load)

    def turn(self, backward: bool) -> int:
        """Pass that ticks belong to."""
        return int(backward and self.tables.apart)

    def largest(self) -> None:
        """Rows ``largest``, and the objective."""
        m = self.m
        low = (self.guide.bound or 0) / self.unit * (1 - MARGIN)
        m.top = pyo.Var(self.passes, bounds=(0, self.horizon))
        m.largest = pyo.Constraint(
            self.places, self.passes, rule=lambda m, d, k, q: m.busy[d, k, q] <= m.top[q]
        )
        total = sum(m.top[turn] for turn in self.passes)
        m.within = pyo.Constraint(expr=pyo.inequality(min(low, self.horizon), total, self.horizon))
        m.objective = pyo.Objective(expr=total)

    def chain(self) -> None:
        """Rows ``chain``: devices in an order that no arc leaves."""
        m, t, count = self.m, self.tables, len(self.devices)
        m.chain = pyo.ConstraintList()
        m.rank = pyo.Var(self.devices, bounds=(0, max(0, count - 1)))
        for before, after in t.arcs:
            for a in self.devices:
                for b in self.devices:
                    if a != b:
                        apart = 2 - m.on[before, a] - m.on[after, b]
                        m.chain.add(m.rank[b] >= m.rank[a] + 1 - count * apart)

    def times(self) -> None:
        """Rows ``wait``, ``finish``, ``alone`` and ``turn``, and the objective."""
        m, t, top = self.m, self.tables, self.horizon
        low = (self.guide.bound or 0) / self.unit * (1 - MARGIN)
        m.start = pyo.Var(self.paying, bounds=(0, top))
        m.end = pyo.Var(self.operators, bounds=(0, top))
        m.makespan = pyo.Var(bounds=(min(low, top), top))
        m.times = pyo.ConstraintList()
        for value in t.values:
            for reader in value.readers:
                for d, k in self.paying:
                    free = 1 - m.at[reader, d, k] + m.at[value.source, d, k]
                    m.times.add(m.start[d, k] >= m.end[value.source] - top * free)
                alone = sum(m.at[reader, d, 0] * work for d, work in self.unpaid(reader))
                m.times.add(m.end[reader] >= m.end[value.source] + alone)
        for i in self.operators:
            m.times.add(m.end[i] >= sum(m.at[i, d, 0] * work for d, work in self.unpaid(i)))
            m.times.add(m.makespan >= m.end[i])
            for d, k in self.paying:
                free = 1 - m.at[i, d, k]
                m.times.add(m.end[i] >= m.start[d, k] + m.busy[d, k, 0] - 2 * top * free)
        for d, k in self.paying:
            if k:
                m.times.add(m.start[d, k] >= m.start[d, k - 1] + m.busy[d, k - 1, 0])
        m.objective = pyo.Objective(expr=m.makespan)

    def unpaid(self, i: int) -> list[tuple[int, float]]:
        """Devices that do not pay on which an operator can run, with its units there."""
        t = self.tables
        return [
            (d, ticks / self.unit)
            for d in self.devices
            if not t.pays[d] and (ticks := t.work[i][d]) is not None and ticks <= self.most
        ]

    def order(self) -> None:
        """Rows ``order``: calls that last no time must not wait in a circle either."""
        m, t, most = self.m, self.tables, self.steps
        m.order = pyo.ConstraintList()
        m.rank = pyo.Var(self.paying, bounds=(0, most), domain=pyo.Integers)
        m.turn = pyo.Var(self.operators, bounds=(0, most))
        for i in self.operators:
            for d, k in self.paying:
                free = most * (1 - m.at[i, d, k])
                m.order.add(m.turn[i] >= m.rank[d, k] - free)
                m.order.add(m.turn[i] <= m.rank[d, k] + free)
        for value in t.values:
            for reader in value.readers:
                m.order.add(m.turn[reader] >= m.turn[value.source])
                for d, k in self.paying:
                    free = 1 - m.at[reader, d, k] + m.at[value.source, d, k]
                    m.order.add(m.rank[d, k] >= m.turn[value.source] + 1 - (most + 1) * free)
        for d, k in self.paying:
            if k:
                m.order.add(m.rank[d, k] >= m.rank[d, k - 1] + 1)

    # -- plans -------------------------------------------------------------------------------

    def decode(self, values: Values) -> Plan:
        """Take the heaviest device of each class, and there the heaviest place of its members."""
        t, on, at = self.tables, values.get("on", {}), values.get("at", {})
        places = []
        for i in self.operators:
            c = t.class_of[i]
            device = max(t.homes[c], key=lambda d: on.get((c, d), 0.0))
            calls = range(t.calls(device))
            places.append((device, max(calls, key=lambda k: at.get((i, device, k), 0.0))))
        return t.plan(places)

    def encode(self, plan: Plan) -> Values | None:
        """Values of every column; ``None`` if the plan is above the cutoff."""
        t, places = self.tables, self.tables.places(plan)
        score, loads = t.score(places), t.loads(places)
        on = [places[numbers[0]][0] for numbers in t.members]
        cutoff = self.guide.cutoff
        if score.broken or (cutoff is not None and score.value > cutoff):
            return None
        named: Values = {
            "on": {(c, d): float(on[c] == d) for c in self.classes for d in self.devices},
            "at": {(i, *p): float(places[i] == p) for i in self.operators for p in self.places},
            "uses": {
                (w, d): float(any(on[c] == d for c in readers))
                for w, (_, readers) in enumerate(t.shared)
                for d in self.devices
            },
            "space": {d: self.space(d, on) for d in self.devices},
            "enter": {},
            "leave": {},
            "busy": {},
        }
        for v, value in enumerate(t.values):
            home, away = places[value.source], {places[reader] for reader in value.readers}
            for place in self.paying:
                crosses = bool(value.ticks)
                named["enter"][v, *place] = float(crosses and place in away and place != home)
                named["leave"][v, *place] = float(crosses and place == home and bool(away - {home}))
        for place in self.places:
            load = loads.get(place, [0, 0])
            shares = load if t.apart else [sum(load)]
            for turn in self.passes:
                named["busy"][*place, turn] = shares[turn] / self.unit
        return named | (self.encode_times(places) if t.latency else self.encode_loads(on, named))

    def space(self, device: int, on: list[int]) -> float:
        """Largest workspace on a device, in shares of it."""
        limit = self.tables.devices[device].memory_bytes
        sizes = [self.tables.workspace[c] for c in self.classes if on[c] == device]
        return 0.0 if limit is None else max(sizes, default=0) / max(limit, 1)

    def encode_loads(self, on: list[int], named: Values) -> Values:
        """Largest loads, and the order of devices."""
        busy = named["busy"]
        tops = {q: max(busy[*place, q] for place in self.places) for q in self.passes}
        rank = dict.fromkeys(self.devices, 0.0)
        carried = {(on[a], on[b]) for a, b in self.tables.arcs if on[a] != on[b]}
        for _ in self.devices:
            for a, b in carried:
                rank[b] = max(rank[b], rank[a] + 1)
        return {"top": tops, "rank": rank}

    def encode_times(self, places: list[tuple[int, int]]) -> Values:
        """Times of calls and operators, and their order."""
        t = self.tables
        ends = [end or 0 for end in t.ends(places)]
        loads = {place: sum(load) for place, load in t.loads(places).items()}
        start: dict[Any, float] = {}
        for d, k in self.paying:
            here = [ends[i] for i in self.operators if places[i] == (d, k)]
            before = start[d, k - 1] + loads.get((d, k - 1), 0) if k else 0
            start[d, k] = max(here) - loads[d, k] if here else before
        rank, turn = dict.fromkeys(self.paying, 0), dict.fromkeys(self.operators, 0)
        for _ in range(self.steps + 1):
            for d, k in self.paying:
                rank[d, k] = max(rank[d, k], rank[d, k - 1] + 1 if k else 0)
            for value in t.values:
                for reader in value.readers:
                    place, source = places[reader], turn[value.source]
                    if place in rank and place != places[value.source]:
                        rank[place] = max(rank[place], source + 1)
                    turn[reader] = max(turn[reader], source)
            for i in self.operators:
                turn[i] = rank.get(places[i], turn[i])
        return {
            "start": {place: ticks / self.unit for place, ticks in start.items()},
            "end": {i: end / self.unit for i, end in enumerate(ends)},
            "makespan": {None: max(ends) / self.unit},
            "rank": {place: float(step) for place, step in rank.items()},
            "turn": {i: float(step) for i, step in turn.items()},
        }


FORMULATION = SerialPlaces(_Builder)
