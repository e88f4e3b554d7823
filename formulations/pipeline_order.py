r"""The order of tasks on each machine of a pipeline, exactly, for makespan and longest span.

Micro-batches that take the same way are identical, so each kind of task runs in micro-batch order
and a plan is one word of kinds per machine. Letters: a, b kinds; a_i the task of a's i-th
micro-batch; m machine; d duration; T the ceiling (only plans of value <= T are looked for).

================  ===============================================================================
``precede``       anchor[m'] + start[v] >= anchor[m] + start[u] + wait      (waits that are certain)
``order``         start[b_j] >= start[a_i] + d[a] - M (1 - before[a_i,b_j])
``order``         start[a_i] >= start[b_j] + d[b] - M' before[a_i,b_j]
``staircase``     before[a_{i+1},b_j] <= before[a_i,b_j] <= before[a_i,b_{j+1}]
``finish``        value >= start[u] + tail
``work_before``   start[u] >= head + work of tasks before u with at least this head
``work_after``    value >= start[u] + d[u] + work of tasks after u + their least tail
``memory``        bytes held when u starts, linear in before[.,u], <= limit
================  ===============================================================================

M is the largest overlap that the windows of a pair leave. Which orders are open at all, windows
and certain waits come from ``ShopOrders``.

Source: this project; order bits are Manne's (1960), heads, tails and work on one machine Carlier's
(1982), the order of a disjunctive model for pipelines is that of zero-bubble pipelines (arXiv
2401.10241, appendix), made tight.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any

import pyomo.environ as pyo
from pyomo.core.expr import LinearExpression

from milp_plan.api import (
    Card,
    Contradiction,
    Deadlock,
    FormulationError,
    Guide,
    Objective,
    Plan,
    PlanningProblem,
    Scale,
    Shop,
    ShopOrders,
    Stretch,
    Values,
    best_times,
    fits,
    read_shop,
    value_of,
    words_of,
)

MOST_UNITS = 5_000
"""Units of time that the ceiling may have at most."""

PLANNER = "pipeline_order"


@dataclass(frozen=True)
class Options:
    """Switches of the formulation."""

    levels: int = field(
        default=2, metadata={"help": "head and tail levels per stretch for the work rows"}
    )


class PipelineOrder:
    """The order of tasks on each machine of a pipeline."""

    card = Card(
        name="pipeline_order",
        title="Order of tasks on each device of a pipeline, with memory at every event",
        source="this project; Manne 1960, Carlier 1982, arXiv 2401.10241",
        objectives=(Objective.MAKESPAN, Objective.SPAN),
        exact=True,
        neighbourhoods=True,
    )
    Options = Options

    def unsupported(self, problem: PlanningProblem, options: Options) -> str | None:
        """Whatever is a shop of identical micro-batches is supported."""
        shop = read_shop(problem)
        if not isinstance(shop, Shop):
            return shop
        for kind in shop.kinds:
            holds = kind.alloc or kind.free
            if holds and not kind.duration and shop.limits[kind.machine] is not None:
                return f"{kind.name} lasts no time and holds memory"
        return None

    def build(self, problem: PlanningProblem, options: Options, guide: Guide) -> pyo.ConcreteModel:
        """Write the model."""
        return _builder(problem, options, guide).build()

    def scale(self, problem: PlanningProblem, options: Options, guide: Guide) -> Scale:
        """Every makespan is a sum of durations and lags; a least span is a whole number."""
        builder = _builder(problem, options, guide)
        return Scale(builder.unit, builder.grain)

    def decode(
        self, problem: PlanningProblem, options: Options, guide: Guide, values: Values
    ) -> Plan:
        """Round the order, and give every task its exact time under it."""
        return _builder(problem, options, guide).decode(values)

    def encode(
        self, problem: PlanningProblem, options: Options, model: pyo.ConcreteModel, plan: Plan
    ) -> Values | None:
        """Complete start from a valid plan; ``None`` if its value is above the ceiling."""
        builder: _Builder = model.builder
        return builder.encode(plan)


Term = tuple[float, Any]


class _Builder:
    """One model under construction, and what encoding and decoding need."""

    def __init__(self, problem: PlanningProblem, options: Options, guide: Guide) -> None:
        shop = read_shop(problem)
        assert isinstance(shop, Shop), shop
        self.shop, self.options, self.guide = shop, options, guide
        self.problem = problem
        self.span = problem.objective is Objective.SPAN
        self.ceiling = serial(shop) if guide.cutoff is None else guide.cutoff
        tick = max(1, gcd(*(k.duration for k in shop.kinds), *(lag for _, _, lag in shop.arcs)))
        self.grain = 1 if self.span else tick
        unit = tick
        while self.ceiling > MOST_UNITS * unit:
            unit *= 2
        self.unit = float(unit)
        self.orders: ShopOrders | None = None
        try:
            self.orders = ShopOrders(shop, self.ceiling, guide.neighbourhood, guide.memory)
        except Contradiction as reason:
            self.contradiction = str(reason)

    # -- model -------------------------------------------------------------------------------

    def build(self) -> pyo.ConcreteModel:
        self.m = m = pyo.ConcreteModel(PLANNER)
        m.builder = self
        if self.orders is None:
            m.value = pyo.Var(bounds=(0, 0))
            m.objective = pyo.Objective(expr=m.value)
            m.contradiction = pyo.Constraint(expr=m.value >= 1)
            return m
        self.declare()
        self.precede()
        self.order()
        self.staircase()
        self.finish()
        self.work()
        self.memory()
        return m

    def declare(self) -> None:
        """Columns: starts since the machine's anchor within their windows, open orders, value."""
        m, orders, unit = self.m, self.orders, self.unit
        kinds = self.shop.kinds
        self.labels = [self.label(k, j) for k, j in orders.names]
        self.machine = [kinds[k].machine for k, _ in orders.names]
        lanes = [self.lane(machine) for machine in self.machine]
        self.low = [int(orders.heads[lane, task]) for task, lane in enumerate(lanes)]
        self.low = [max(0, low) for low in self.low]
        self.high = [int(self.latest(task, lane)) for task, lane in enumerate(lanes)]
        windows = {
            name: (low / unit, high / unit)
            for name, low, high in zip(self.labels, self.low, self.high, strict=True)
        }
        m.start = pyo.Var(self.labels, bounds=lambda _, name: windows[name])
        self.start = [m.start[name] for name in self.labels]
        floor = max(orders.floor, self.guide.bound or 0)
        m.value = pyo.Var(bounds=(floor / unit, max(floor, self.ceiling) / unit))
        if self.span:  # differences of whole numbers have whole solutions for a whole span only
            m.ticks = pyo.Var(domain=pyo.Integers, bounds=(floor, max(floor, self.ceiling)))
            m.whole = pyo.Constraint(expr=m.value * unit == m.ticks)
            m.anchor = pyo.Var(range(orders.num_lanes), bounds=(0, None))
        m.objective = pyo.Objective(expr=m.value)
        open_pairs = [
            (u, v)
            for stretch in orders.stretches
            for (a, b), signs in stretch.signs.items()
            for i, u in enumerate(stretch.rows[a])
            for j, v in enumerate(stretch.rows[b])
            if not signs[i, j]
        ]
        m.before = pyo.Var(
            [(self.labels[u], self.labels[v]) for u, v in open_pairs], domain=pyo.Binary
        )
        self.before = {(u, v): m.before[self.labels[u], self.labels[v]] for u, v in open_pairs}

    def label(self, kind: int, number: int) -> str:
        entry = self.shop.kinds[kind]
        name = entry.members[number]
        if entry.machine < self.shop.num_devices:
            return name
        return f"{name} on {self.shop.machines[entry.machine]}"

    def lane(self, machine: int) -> int:
        """The anchor a machine's starts count from: of a channel, the source's."""
        if not self.span:
            return 0
        if machine < self.shop.num_devices:
            return machine
        source = self.shop.machines[machine].split("->")[0]
        return self.shop.machines.index(source)

    def latest(self, task: int, lane: int) -> int:
        """Latest start since the anchor; transfers can be moved as early as their channel lets."""
        tail = int(self.orders.tails[lane, task])
        if tail >= 0:
            return self.ceiling - tail
        work = self.shop.work[self.machine[task]]
        return self.ceiling + work - int(self.orders.duration[task])

    def at(self, task: int, sign: int = 1) -> list[Term]:
        """Terms of a task's start, from time 0."""
        terms: list[Term] = [(sign, self.start[task])]
        if self.span:
            terms.append((sign, self.m.anchor[self.lane(self.machine[task])]))
        return terms

    def row(self, rows: Any, terms: Sequence[Term], least: float) -> None:
        """Sum of terms >= least."""
        body = LinearExpression(
            constant=0,
            linear_coefs=[c for c, _ in terms],
            linear_vars=[v for _, v in terms],
        )
        rows.add((least, body, None))

    def sign(self, u: int, v: int) -> tuple[float, list[Term]]:
        """Constant and terms whose sum is 1 if u comes before v in their stretch, and else 0."""
        if (u, v) in self.before:
            return 0.0, [(1.0, self.before[u, v])]
        if (v, u) in self.before:
            return 1.0, [(-1.0, self.before[v, u])]
        stretch = self.orders.home[u]
        a, b = int(self.orders.kind[u]), int(self.orders.kind[v])
        if a == b:
            return float(u < v), []
        i, j = stretch.rows[a].index(u), stretch.rows[b].index(v)
        return float(stretch.sign(a, b)[i, j] == 1), []

    def precede(self) -> None:
        """Precedence, micro-batch order, and every other order that is certain."""
        self.m.precede = pyo.ConstraintList()
        for u, v, wait in self.orders.arcs:
            together = self.machine[u] == self.machine[v]
            if together:
                if self.low[v] < self.high[u] + wait:
                    terms = [(1.0, self.start[v]), (-1.0, self.start[u])]
                    self.row(self.m.precede, terms, wait / self.unit)
            elif self.span or self.low[v] < self.high[u] + wait:
                self.row(self.m.precede, _merged(self.at(v), self.at(u, -1)), wait / self.unit)
        if self.span:  # through fixed tasks, from where another device starts
            for v, machine in enumerate(self.machine):
                for lane in range(self.orders.num_lanes):
                    wait = int(self.orders.anchored[lane, v])
                    if wait >= 0 and lane != self.lane(machine):
                        terms = [*self.at(v), (-1.0, self.m.anchor[lane])]
                        self.row(self.m.precede, terms, wait / self.unit)

    def order(self) -> None:
        """Who comes first, where that is open."""
        m, unit, orders = self.m, self.unit, self.orders
        m.order = pyo.ConstraintList()
        for (u, v), bit in self.before.items():
            for first, second, sign in ((u, v, 1), (v, u, -1)):
                wait = int(orders.duration[first])
                big = (wait + self.high[first] - self.low[second]) / unit
                # second - first >= wait - big (1 - bit), or wait - big bit
                terms = [(1.0, self.start[second]), (-1.0, self.start[first])]
                terms.append((-sign * big, bit))
                self.row(m.order, terms, wait / unit - (big if sign == 1 else 0.0))

    def staircase(self) -> None:
        """Neighbours: earlier tasks of the first kind, and later ones of the second."""
        m = self.m
        m.staircase = pyo.ConstraintList()
        for stretch in self.orders.stretches:
            for (a, b), signs in stretch.signs.items():
                one, two = stretch.rows[a], stretch.rows[b]
                for i, u in enumerate(one):
                    for j, v in enumerate(two):
                        if signs[i, j]:
                            continue
                        if i + 1 < len(one) and not signs[i + 1, j]:
                            self.row(
                                m.staircase,
                                [(1, self.before[u, v]), (-1, self.before[one[i + 1], v])],
                                0,
                            )
                        if j + 1 < len(two) and not signs[i, j + 1]:
                            self.row(
                                m.staircase,
                                [(1, self.before[u, two[j + 1]]), (-1, self.before[u, v])],
                                0,
                            )

    def finish(self) -> None:
        """The value is at least the end of every lane, counted from its anchor."""
        m, orders, unit = self.m, self.orders, self.unit
        m.finish = pyo.ConstraintList()
        for task in range(len(orders.names)):
            for lane in range(orders.num_lanes):
                tail = int(orders.ended[lane, task])
                if tail < 0:
                    continue
                terms: list[Term] = [(1.0, m.value), *self.at(task, -1)]
                if self.span:
                    terms = _merged(terms, [(1.0, m.anchor[lane])])
                self.row(m.finish, terms, tail / unit)
        if self.span:
            for first in range(orders.num_lanes):
                for lane in range(orders.num_lanes):
                    wait = int(orders.between[first, lane])
                    if wait > 0 and first != lane:
                        terms = [(1.0, m.value), (1.0, m.anchor[lane]), (-1.0, m.anchor[first])]
                        self.row(m.finish, terms, wait / unit)

    def work(self) -> None:
        """Work that lies before a task comes after the head of all of it; likewise behind."""
        m = self.m
        m.work_before, m.work_after = pyo.ConstraintList(), pyo.ConstraintList()
        for stretch in self.orders.stretches:
            if len(stretch.rows) > 1:
                self.work_on(stretch)

    def work_on(self, stretch: Stretch) -> None:
        m, orders, unit = self.m, self.orders, self.unit
        lane = self.lane(stretch.machine)
        tasks = stretch.tasks
        head = {t: self.low[t] for t in tasks}
        rest = {t: int(orders.tails[lane, t] - orders.duration[t]) for t in tasks}
        for level in _levels(head.values(), self.options.levels):
            chosen = [t for t in tasks if head[t] >= level]
            for task in chosen:
                sure, terms = self.load([(u, self.sign(u, task)) for u in chosen if u != task])
                if terms:
                    terms = [(1.0, self.start[task]), *((-c, v) for c, v in terms)]
                    self.row(m.work_before, terms, level / unit + sure)
        if stretch.machine >= self.shop.num_devices and self.span:
            return
        for level in _levels(rest.values(), self.options.levels):
            chosen = [t for t in tasks if rest[t] >= level]
            for task in chosen:
                sure, terms = self.load([(u, self.sign(task, u)) for u in chosen if u != task])
                if terms:
                    terms = [(1.0, m.value), (-1.0, self.start[task]), *((-c, v) for c, v in terms)]
                    own = int(orders.duration[task])
                    self.row(m.work_after, terms, (own + level) / unit + sure)

    def load(
        self, signs: Iterable[tuple[int, tuple[float, list[Term]]]]
    ) -> tuple[float, list[Term]]:
        """Work of the tasks whose signs are 1: its certain part, and terms."""
        sure, terms = 0.0, []
        for task, (constant, entries) in signs:
            length = int(self.orders.duration[task]) / self.unit
            sure += constant * length
            terms += [(c * length, v) for c, v in entries if length]
        return sure, terms

    def memory(self) -> None:
        """What is held when a task starts: it and all before it allocate, all before it free."""
        m, orders = self.m, self.orders
        m.memory = pyo.ConstraintList()
        for stretch in orders.stretches:
            memory = orders.memories.get(stretch.machine)
            if memory is None:
                continue
            grain = max(
                1,
                gcd(
                    *(self.shop.kinds[k].alloc for k in memory.net),
                    *(self.shop.kinds[k].free for k in memory.net),
                ),
            )
            for kind, row in stretch.rows.items():
                alloc = self.shop.kinds[kind].alloc
                if not alloc:
                    continue
                for place, task in enumerate(row):
                    low, _ = orders.counts(stretch, kind, place)
                    held = alloc + sum(memory.net[k] * count for k, count in low.items())
                    terms: list[Term] = []
                    for other, others in stretch.rows.items():
                        if other == kind or not memory.net[other]:
                            continue
                        for u in others:
                            constant, entries = self.sign(u, task)
                            if entries:
                                held += int(constant) * memory.net[other]
                                terms += [(c * memory.net[other] / grain, v) for c, v in entries]
                    most = held + sum(max(0.0, c) for c, _ in terms) * grain
                    if most > memory.limit:
                        room = (memory.limit - held) // grain
                        self.row(m.memory, [(-c, v) for c, v in terms], -room)

    # -- plans -------------------------------------------------------------------------------

    def encode(self, plan: Plan) -> Values | None:
        """Values of every column under a valid plan, its kinds renamed to micro-batch order."""
        shop, orders = self.shop, self.orders
        words = words_of(shop, plan)
        starts = best_times(shop, words)
        known = max(value_of(shop, starts), _claim(shop, plan))
        if orders is None or known > self.ceiling:
            return None
        place = _places(words)
        m, unit = self.m, self.unit
        anchors = [0] * orders.num_lanes
        if self.span:
            anchors = [
                min((starts[k][0] for k in kinds), default=0)
                for kinds in shop.on_machine[: shop.num_devices]
            ]
        named: Values = {"start": {}, "before": {}, "value": {None: max(known / unit, m.value.lb)}}
        if self.span:
            named["ticks"] = {None: round(named["value"][None] * unit)}
            named["anchor"] = {lane: anchors[lane] / unit for lane in m.anchor}
        for (k, j), name, machine in zip(orders.names, self.labels, self.machine, strict=True):
            named["start"][name] = (starts[k][j] - anchors[self.lane(machine)]) / unit
        for u, v in self.before:
            first = place[orders.names[u]] < place[orders.names[v]]
            named["before"][self.labels[u], self.labels[v]] = float(first)
        return named

    def decode(self, values: Values) -> Plan:
        """Words from the open orders; where they are no words, from the starts."""
        if self.orders is None:
            raise FormulationError(f"the model has no solution: {self.contradiction}")
        self.labels = [self.label(k, j) for k, j in self.orders.names]
        words = self.words(values)
        for line in words:
            line.sort()
        try:
            starts = best_times(self.shop, [[k for _, k, _ in line] for line in words])
        except Deadlock as reason:
            raise FormulationError(f"the order of tasks is no plan: {reason}") from reason
        return self.shop.plan(starts, PLANNER)

    def words(self, values: Values) -> list[list[tuple[Any, int, int]]]:
        """Machine -> (rank, kind, number): how many tasks come before, then the start."""
        orders, shop = self.orders, self.shop
        bits, starts = values.get("before", {}), values.get("start", {})
        lines: list[list[tuple[Any, int, int]]] = [[] for _ in shop.machines]
        if self.guide.neighbourhood is not None:
            for machine, word in enumerate(words_of(shop, self.guide.neighbourhood.plan)):
                seen: dict[int, int] = {}
                for rank, k in enumerate(word):
                    j = seen.get(k, 0)
                    seen[k] = j + 1
                    if (k, j) not in orders.number:
                        lines[machine].append(((rank, 0.0), k, j))
        for stretch in orders.stretches:
            first = sum(stretch.before.values())
            for kind, row in stretch.rows.items():
                for place, task in enumerate(row):
                    rank = first + place
                    for other, others in stretch.rows.items():
                        if other != kind:
                            rank += sum(self.comes_first(bits, u, task) for u in others)
                    start = starts[self.labels[task]]
                    lines[stretch.machine].append(((rank, start), *orders.names[task]))
        return lines

    def comes_first(self, bits: Any, u: int, v: int) -> bool:
        one, two = self.labels[u], self.labels[v]
        if (one, two) in bits:
            return bool(bits[one, two] > 0.5)
        if (two, one) in bits:
            return not bits[two, one] > 0.5
        stretch = self.orders.home[u]
        a, b = int(self.orders.kind[u]), int(self.orders.kind[v])
        sign = stretch.sign(a, b)[stretch.rows[a].index(u), stretch.rows[b].index(v)]
        return bool(sign == 1)


def serial(shop: Shop) -> int:
    """Ticks within which some best plan ends: everything one after the other."""
    lag = [max((wait for _, wait in after), default=0) for after in shop.after]
    return sum((k.duration + wait) * k.count for k, wait in zip(shop.kinds, lag, strict=True))


def _claim(shop: Shop, plan: Plan) -> int:
    """Value of a plan as it is, before its tasks are renamed and moved."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for run in plan.runs:
        place = run.devices[0]
        first[place] = min(first.get(place, run.start_ns), run.start_ns)
        last[place] = max(last.get(place, 0), run.stop_ns)
    if shop.objective is Objective.SPAN:
        return max(last[place] - first[place] for place in last)
    return max(last.values())


def _places(words: Sequence[Sequence[int]]) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    for word in words:
        seen: dict[int, int] = {}
        for rank, kind in enumerate(word):
            number = seen.get(kind, 0)
            found[kind, number] = rank
            seen[kind] = number + 1
    return found


def _levels(numbers: Iterable[int], count: int) -> list[int]:
    """At most ``count`` of the distinct numbers, spread, smallest first."""
    distinct = sorted(set(numbers))
    step = max(1, -(-len(distinct) // count))
    return distinct[::step]


def _merged(one: Sequence[Term], two: Sequence[Term]) -> list[Term]:
    """Sum of terms; what cancels is left out."""
    found: dict[int, Term] = {}
    for factor, column in (*one, *two):
        known = found.get(id(column), (0.0, column))[0]
        found[id(column)] = (known + factor, column)
    return [(c, v) for c, v in found.values() if c]


_latest: list[_Builder] = []


def _builder(problem: PlanningProblem, options: Options, guide: Guide) -> _Builder:
    """Return the builder of these very arguments; asking for its scale does not start anew."""
    same = _latest and _latest[0].problem is problem and _latest[0].guide is guide
    if not same or _latest[0].options != options:
        _latest[:] = [_Builder(problem, options, guide)]
    return _latest[0]


FORMULATION = PipelineOrder()
