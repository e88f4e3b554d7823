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

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import gcd
from typing import Any

import pyomo.environ as pyo

from milp_plan.api import (
    BuilderFormulation,
    Card,
    FormulationError,
    Guide,
    Objective,
    Plan,
    PlanningProblem,
    Scale,
    Values,
    coarser,
    require_supported,
    spread_levels,
)
from milp_plan.kinds.pipeline.reading import read_shop
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.span import best_times
from milp_plan.kinds.pipeline.timing import Deadlock, value_of, words_of

from .graph import Stretch
from .mirror import image_around, is_mirrored, machine_image
from .orders import Contradiction, ShopOrders
from .terms import Term, at_least, merged
from .words import (
    decided_words,
    plan_value,
    ranks,
    serial_ticks,
)

PLANNER = "pipeline_order"

MOST_UNITS = 5_000
"""Units that the ceiling may have at most."""


@dataclass(frozen=True)
class Switches:
    """Switches of the formulation."""

    levels: int = field(
        default=2,
        metadata={"help": "head and tail levels per stretch for the work rows", "least": 0},
    )
    mirror: bool = field(
        default=False,
        metadata={"help": "two mirrored routes run mirrored orders: half the size, proves nothing"},
    )
    spread: float = field(
        default=0.0,
        metadata={
            "help": "part of a tick (below 0.5) for early starts among plans equally good",
            "least": 0,
        },
    )


class PipelineOrder(BuilderFormulation):
    """The order of tasks on each machine of a pipeline."""

    card = Card(
        name="pipeline_order",
        title="Order of tasks on each device of a pipeline, with memory at every event",
        source="this project; Manne 1960, Carlier 1982, arXiv 2401.10241",
        objectives=(Objective.MAKESPAN, Objective.SPAN),
        exact=True,
        neighbourhoods=True,
    )
    handles = PlanningProblem
    Options = Switches

    def restricts(self, options: Switches) -> bool:
        """Mirrored orders only may miss every optimum."""
        return options.mirror

    def unsupported(self, problem: PlanningProblem, options: Switches) -> str | None:
        """Whatever is a shop of identical micro-batches is supported."""
        shop = read_shop(problem)
        if not isinstance(shop, Shop):
            return shop
        for kind in shop.kinds:
            holds = kind.alloc or kind.free
            if holds and not kind.duration and shop.limits[kind.machine] is not None:
                return f"{kind.name} lasts no time and holds memory"
        if options.mirror and image_around(shop) is None:
            return "mirror: there are no two routes that are mirror images of each other"
        if not 0 <= options.spread < 0.5:
            return f"spread is {options.spread}, expected at least 0 and below 0.5"
        return None


class _Builder:
    """One model under construction, and what encoding and decoding need."""

    def __init__(self, problem: PlanningProblem, options: Switches, guide: Guide) -> None:
        shop = require_supported(read_shop(problem), problem.name)
        self.shop, self.options, self.guide = shop, options, guide
        self.problem = problem
        self.span = problem.objective is Objective.SPAN
        self.ceiling = serial_ticks(shop) if guide.cutoff is None else guide.cutoff
        self.grain = 1 if self.span else shop.tick
        self.unit = coarser(shop.tick, self.ceiling, MOST_UNITS)
        self.image = image_around(shop, guide.neighbourhood) if options.mirror else None
        self.contradiction: str | None = None
        try:
            self.orders = ShopOrders(shop, self.ceiling, guide.neighbourhood, guide.memory)
        except Contradiction as reason:
            self.contradiction = str(reason)

    @property
    def scale(self) -> Scale:
        """A restriction says nothing about the problem's optimum: its slack is everything.

        With a tie-break the objective counts in half units, so that gaps within a grain matter.
        """
        slack = self.ceiling / self.unit if self.image is not None else 0.0
        if not self.options.spread:
            return Scale(self.unit, self.grain, slack)
        tie = self.options.spread * self.grain / self.unit
        return Scale(2 * self.unit, self.grain, (slack + tie) / 2)

    # -- model -------------------------------------------------------------------------------

    def build(self) -> pyo.ConcreteModel:
        self.m = m = pyo.ConcreteModel(PLANNER)
        if self.contradiction is not None:
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
        windows = [orders.window(task) for task in range(len(orders.names))]
        self.low, self.high = [low for low, _ in windows], [high for _, high in windows]
        self.represent()
        shown = sorted(set(self.shown))
        bounds = {self.labels[t]: (self.low[t] / unit, self.high[t] / unit) for t in shown}
        m.start = pyo.Var([self.labels[t] for t in shown], bounds=lambda _, name: bounds[name])
        self.start = [m.start[self.labels[t]] for t in self.shown]
        floor = max(orders.floor, self.guide.bound or 0)
        m.value = pyo.Var(bounds=(floor / unit, max(floor, self.ceiling) / unit))
        if self.span:  # differences of whole numbers have whole solutions for a whole span only
            m.ticks = pyo.Var(domain=pyo.Integers, bounds=(floor, max(floor, self.ceiling)))
            m.whole = pyo.Constraint(expr=m.value * unit == m.ticks)
            anchors = sorted({self.side[lane] for lane in range(orders.num_lanes)})
            m.anchor = pyo.Var(anchors, bounds=(0, None))
        open_pairs = [
            (u, v)
            for stretch in self.stretches
            for (a, b), signs in stretch.signs.items()
            for i, u in enumerate(stretch.rows[a])
            for j, v in enumerate(stretch.rows[b])
            if not signs[i, j]
        ]
        m.before = pyo.Var(
            [(self.labels[u], self.labels[v]) for u, v in open_pairs], domain=pyo.Binary
        )
        self.open = {(u, v): m.before[self.labels[u], self.labels[v]] for u, v in open_pairs}
        self.before = dict(self.open)
        if self.image is not None:
            for (u, v), bit in self.open.items():
                self.before[self.other[u], self.other[v]] = bit
        m.objective = pyo.Objective(expr=self.target(shown))

    def represent(self) -> None:
        """Which task's columns stand for a task: of two mirror images the first's."""
        orders, image = self.orders, self.image
        count = len(orders.names)
        self.labels = [orders.label(task) for task in range(count)]
        self.machine = [self.shop.kinds[k].machine for k, _ in orders.names]
        self.side = {lane: lane for lane in range(max(orders.num_lanes, len(self.shop.machines)))}
        if image is None:
            self.other = list(range(count))
        else:
            self.other = [orders.number[image[k], j] for k, j in orders.names]
            for machine, other in machine_image(self.shop, image).items():
                self.side[machine] = min(machine, other)
        self.shown = [
            t if self.side[self.machine[t]] == self.machine[t] else self.other[t]
            for t in range(count)
        ]
        self.stretches = [s for s in orders.stretches if self.side[s.machine] == s.machine]

    def target(self, shown: list[int]) -> Any:
        """The value; with a tie-break, half of it and of a part of a grain for early starts."""
        m, part = self.m, self.options.spread
        room = sum(self.high[t] - self.low[t] for t in shown) / self.unit
        if not part:
            return m.value
        each = part * self.grain / self.unit / max(room, 1.0)
        tie = [each * (self.start[t] - self.low[t] / self.unit) for t in shown]
        return 0.5 * m.value + 0.5 * pyo.quicksum(tie)

    def at(self, task: int, sign: int = 1) -> list[Term]:
        """Terms of a task's start, from time 0."""
        terms: list[Term] = [(sign, self.start[task])]
        if self.span:
            terms.append((sign, self.anchor(self.orders.lane(self.machine[task]))))
        return terms

    def anchor(self, lane: int) -> Any:
        return self.m.anchor[self.side[lane]]

    def sign(self, u: int, v: int) -> tuple[float, list[Term]]:
        """Constant and terms whose sum is 1 if u comes before v in their stretch, and else 0."""
        if (u, v) in self.before:
            return 0.0, [(1.0, self.before[u, v])]
        if (v, u) in self.before:
            return 1.0, [(-1.0, self.before[v, u])]
        return float(self.orders.sign(u, v) == 1), []

    def precede(self) -> None:
        """Precedence, micro-batch order, and every other order that is certain."""
        self.m.precede = pyo.ConstraintList()
        waits = {(self.shown[u], self.shown[v], wait): None for u, v, wait in self.orders.arcs}
        for u, v, wait in waits:
            together = self.machine[u] == self.machine[v]
            if self.low[v] >= self.high[u] + wait and (together or not self.span):
                continue  # the windows say so
            terms = merged(self.at(v), self.at(u, -1))
            at_least(self.m.precede, terms, wait / self.unit)
        if self.span:  # through fixed tasks, from where another device starts
            for v, machine in enumerate(self.machine):
                for lane in range(self.orders.num_lanes):
                    wait = int(self.orders.anchored[lane, v])
                    if wait >= 0 and lane != self.orders.lane(machine):
                        terms = merged(self.at(v), [(-1.0, self.anchor(lane))])
                        at_least(self.m.precede, terms, wait / self.unit)

    def order(self) -> None:
        """Who comes first, where that is open."""
        m, unit, orders = self.m, self.unit, self.orders
        m.order = pyo.ConstraintList()
        for (u, v), bit in self.open.items():
            for first, second, sign in ((u, v, 1), (v, u, -1)):
                wait = int(orders.duration[first])
                big = (wait + self.high[first] - self.low[second]) / unit
                # second - first >= wait - big (1 - bit), or wait - big bit
                terms = [(1.0, self.start[second]), (-1.0, self.start[first])]
                terms.append((-sign * big, bit))
                at_least(m.order, terms, wait / unit - (big if sign == 1 else 0.0))

    def staircase(self) -> None:
        """Neighbours: earlier tasks of the first kind, and later ones of the second."""
        m = self.m
        m.staircase = pyo.ConstraintList()
        for stretch in self.stretches:
            for (a, b), signs in stretch.signs.items():
                one, two = stretch.rows[a], stretch.rows[b]
                for i, j in zip(*(signs == 0).nonzero(), strict=True):
                    bit = self.before[one[i], two[j]]
                    if i + 1 < len(one) and not signs[i + 1, j]:
                        above = self.before[one[i + 1], two[j]]
                        at_least(m.staircase, [(1, bit), (-1, above)], 0)
                    if j + 1 < len(two) and not signs[i, j + 1]:
                        later = self.before[one[i], two[j + 1]]
                        at_least(m.staircase, [(1, later), (-1, bit)], 0)

    def finish(self) -> None:
        """The value is at least the end of every lane, counted from its anchor."""
        m, orders, unit = self.m, self.orders, self.unit
        m.finish = pyo.ConstraintList()
        for task in sorted(set(self.shown)):
            for lane in range(orders.num_lanes):
                tail = int(orders.ended[lane, task])
                if tail < 0:
                    continue
                terms: list[Term] = [(1.0, m.value), *self.at(task, -1)]
                if self.span:
                    terms = merged(terms, [(1.0, self.anchor(lane))])
                at_least(m.finish, terms, tail / unit)
        if self.span:
            for first in range(orders.num_lanes):
                for lane in range(orders.num_lanes):
                    wait = int(orders.between[first, lane])
                    if wait > 0 and first != lane:
                        ends = [(1.0, self.anchor(lane))], [(-1.0, self.anchor(first))]
                        at_least(m.finish, [(1.0, m.value), *merged(*ends)], wait / unit)

    def work(self) -> None:
        """Work that lies before a task comes after the head of all of it; likewise behind."""
        m = self.m
        m.work_before, m.work_after = pyo.ConstraintList(), pyo.ConstraintList()
        for stretch in self.stretches:
            if len(stretch.rows) > 1:
                self.work_on(stretch, m.work_before, {t: self.low[t] for t in stretch.tasks})
                if stretch.machine < self.shop.num_devices or not self.span:
                    tails = self.orders.tails[self.orders.lane(stretch.machine)]
                    rest = {t: int(tails[t] - self.orders.duration[t]) for t in stretch.tasks}
                    self.work_on(stretch, m.work_after, rest)

    def work_on(self, stretch: Stretch, rows: Any, edge: dict[int, int]) -> None:
        """Rows over the tasks whose head (or tail, for ``work_after``) is at least a level."""
        after = rows is self.m.work_after
        for level in spread_levels(edge.values(), self.options.levels):
            chosen = [t for t in stretch.tasks if edge[t] >= level]
            for task in chosen:
                pairs = [(u, (task, u) if after else (u, task)) for u in chosen if u != task]
                sure, terms = self.load([(u, self.sign(*pair)) for u, pair in pairs])
                if not terms:
                    continue
                own: list[Term] = [(1.0, self.start[task])]
                if after:
                    own = [(1.0, self.m.value), (-1.0, self.start[task])]
                    sure += int(self.orders.duration[task]) / self.unit
                body = [*own, *((-c, v) for c, v in terms)]
                at_least(rows, body, level / self.unit + sure)

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
        m, kinds = self.m, self.shop.kinds
        m.memory = pyo.ConstraintList()
        for stretch in self.stretches:
            memory = self.orders.memories.get(stretch.machine)
            if memory is None:
                continue
            sizes = [size for k in memory.net for size in (kinds[k].alloc, kinds[k].free)]
            grain = max(1, gcd(*sizes))
            for kind, row in stretch.rows.items():
                for place, task in enumerate(row if kinds[kind].alloc else ()):
                    low, _ = self.orders.counts(stretch, kind, place)
                    held = sum(memory.net[k] * count for k, count in low.items())
                    room = (memory.limit - held - kinds[kind].alloc) // grain
                    self.hold(stretch, memory.net, task, room, grain)

    def hold(self, stretch: Stretch, net: Any, task: int, room: int, grain: int) -> None:
        """What open orders put before a task takes at most ``room`` grains."""
        terms: list[Term] = []
        for other, others in stretch.rows.items():
            for u in others if net[other] and other != self.orders.kind[task] else ():
                constant, entries = self.sign(u, task)
                if entries:
                    room -= int(constant) * net[other] // grain
                    terms += [(-c * net[other] / grain, v) for c, v in entries]
        if sum(max(0.0, -c) for c, _ in terms) > room:
            at_least(self.m.memory, terms, -room)

    # -- plans -------------------------------------------------------------------------------

    def encode(self, plan: Plan) -> Values | None:
        """Values of every column under a valid plan, its kinds renamed to micro-batch order."""
        shop = self.shop
        words = words_of(shop, plan)
        starts = best_times(shop, words)
        known = max(value_of(shop, starts), plan_value(shop, plan))
        if self.contradiction is not None or known > self.ceiling:
            return None
        orders = self.orders
        if self.image is not None and not is_mirrored(shop, self.image, words):
            return None
        place = ranks(words)
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
        for task in set(self.shown):
            k, j = orders.names[task]
            since = anchors[self.orders.lane(self.machine[task])]
            named["start"][self.labels[task]] = (starts[k][j] - since) / unit
        for u, v in self.open:
            first = place[orders.names[u]] < place[orders.names[v]]
            named["before"][self.labels[u], self.labels[v]] = float(first)
        return named

    def decode(self, values: Values) -> Plan:
        """Words from the open orders; where they are no words, from the starts."""
        if self.contradiction is not None:
            raise FormulationError(f"the model has no solution: {self.contradiction}")
        self.represent()
        words = self.words(values)
        try:
            starts = best_times(self.shop, words)
        except Deadlock as reason:
            raise FormulationError(f"the order of tasks is no plan: {reason}") from reason
        return self.shop.plan(starts, PLANNER)

    def words(self, values: Values) -> list[list[int]]:
        """Words from the rounded order columns."""
        bits, starts = values.get("before", {}), values.get("start", {})

        def comes_first(u: int, v: int) -> bool:
            one, two = self.labels[self.shown[u]], self.labels[self.shown[v]]
            if (one, two) in bits:
                return bits[one, two] > 0.5
            if (two, one) in bits:
                return not bits[two, one] > 0.5
            return self.orders.sign(self.shown[u], self.shown[v]) == 1

        def start(task: int) -> float:
            return starts[self.labels[self.shown[task]]]

        return decided_words(self.orders, self.guide.neighbourhood, comes_first, start)


FORMULATION = PipelineOrder(_Builder)
