r"""Order, times, and which activations leave to the host, under the memory law at every event.

Letters: step x, y (an operator on its device); hold o; value k of a hold, with producer P, first
reader R and last reader L; event e = a step that allocates, or the inbound journey of a value.

============  ===================================================================================
``precede``   start[y] >= stop[x] + lag
``sequence``  start[y] >= stop[x] - M (1 - before[x,y]);  start[x] >= stop[y] - M before[x,y]
``stagger``   start[x] >= head + sum of ticks[y] before[y,x];  span row likewise with the tail
``journey``   stop[P] <= out[k];  out[k] + out_ns leave[o] <= back[k];
              back[k] + back_ns leave[o] <= start[R]
``lanes``     journeys of one lane stand in the order of producers (out) or first readers (back)
``away``      away[k,e] = 1 -> out[k] + out_ns <= time[e] <= back[k], and leave[o] = 1
``ended``     ended[x,e] = 1 -> stop[x] <= back[e];   ``later[x,e]`` = 1 -> start[x] >= back[e]
``capacity``  at event e: sum bytes (made - ended - away) <= memory
============  ===================================================================================

Memory can only peak where something is allocated, so rows at steps that allocate and at the
starts of inbound journeys are exact; whoever stands later where two of them start at one instant
counts both (``later[x,k] + away[k,x] <= 1``), so no margin is needed.

Source: this project; the decision per stage and micro-batch is that of OptPipe (arXiv 2510.05186).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations, pairwise
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
    at_most,
    coarser,
    column_values,
    suited,
)
from milp_plan.kinds.pipeline.holds import Held, read_offload
from milp_plan.kinds.pipeline.precedence import Precedence, longest_paths
from milp_plan.kinds.pipeline.residence import residence_bound

from .lanes import canonical
from .memory import LaneMemory
from .order import LaneOrder

MOST_UNITS = 20_000


@dataclass(frozen=True)
class Switches:
    """Switches of the formulation."""

    offload: bool = field(
        default=True, metadata={"help": "activations may travel; without, all of them stay"}
    )
    symmetry: bool = field(
        default=True,
        metadata={"help": "identical micro-batches begin in order (and, where none travels, run "
                  "every kind of step in order)"},
    )  # fmt: skip
    in_order: bool = field(
        default=False,
        metadata={"help": "every kind of step in micro-batch order also where activations travel: "
                  "a restriction"},
    )  # fmt: skip


class PipelineOffload(BuilderFormulation):
    """The exact formulation of pipelines with offload lanes."""

    card = Card(
        name="pipeline_offload",
        title="Order of a pipeline's steps, and which activations leave to the host",
        source="this project; the decisions are those of OptPipe (arXiv 2510.05186)",
        objectives=(Objective.MAKESPAN, Objective.SPAN),
        exact=True,
        neighbourhoods=True,
    )
    handles = PlanningProblem
    Options = Switches

    def restricts(self, options: Switches) -> bool:
        """Without journeys, or with all kinds in order, better plans may be left out."""
        return options.in_order or not options.offload

    def unsupported(self, problem: PlanningProblem, options: Switches) -> str | None:
        """Only problems of steps on known devices and holds with two places."""
        if problem.objective not in self.card.objectives:
            return f"objective {problem.objective} is not one of makespan, span"
        found = read_offload(problem)
        return found if isinstance(found, str) else None


class _Builder:
    """One model under construction, and what encoding and decoding need."""

    def __init__(self, problem: PlanningProblem, options: Switches, guide: Guide) -> None:
        self.problem, self.options, self.guide = problem, options, guide
        self.shop = shop = suited(read_offload(problem), problem.name)
        self.by_time = problem.objective is Objective.MAKESPAN
        self.near = guide.neighbourhood
        self.symmetry = options.symmetry and self.near is None
        self.by_kind = self.symmetry and (options.in_order or not options.offload)
        self.known = None if self.near is None else canonical(shop, self.near.plan, rename=False)
        self.order = Precedence(shop, self.extra_arcs())
        self.ticks = {name: step.ticks for name, step in shop.steps.items()}
        self.set_units()
        self.leaving = self.decide_leaving()
        self.moving: dict[str, Held] = {
            held.value: held
            for hold in shop.holds if self.leaving[hold.name] != 0
            for held in hold.held
        }  # fmt: skip
        self.hold_of = {h.value: hold.name for hold in shop.holds for h in hold.held}
        self.last_start = {
            v: min(self.latest[r] for r in h.readers) for v, h in self.moving.items()
        }
        self.ready = {
            v: self.earliest[h.producer] + self.ticks[h.producer] for v, h in self.moving.items()
        }

    # -- what is known before ----------------------------------------------------------------

    def extra_arcs(self) -> list[tuple[str, str]]:
        """Orders of symmetry, or of the neighbourhood's plan."""
        shop, arcs = self.shop, []
        if self.symmetry:
            for members, first in zip(shop.alike, shop.beginnings, strict=True):
                suffix = f"@{members[0]}"
                mine = [n for n, s in shop.steps.items() if s.micro_batch == members[0]]
                for name in mine if self.by_kind else [first]:
                    base = name.removesuffix(suffix)
                    arcs += list(pairwise(f"{base}@{batch}" for batch in members))
        if self.near is not None and self.known is not None:
            start = {run.operator: run.start_ns or 0 for run in self.known.runs}
            for names in shop.on_device.values():
                fixed = [name for name in names if name not in self.near.free]
                arcs += list(pairwise(sorted(fixed, key=start.__getitem__)))
        return arcs

    def set_units(self) -> None:
        """Horizon, windows, and the unit of time."""
        shop, order = self.shop, self.order
        lengths = [*self.ticks.values(), *(lag for _, _, lag in shop.arcs if lag)]
        journeys = [t for held in shop.held.values() for t in (held.out_ns, held.back_ns)]
        serial = sum(self.ticks.values()) + sum(lag for _, _, lag in shop.arcs) + sum(journeys)
        self.grain = max(1, gcd(*lengths, *journeys))
        cut = self.guide.cutoff
        self.horizon = cut if cut is not None and self.by_time else serial
        self.unit = coarser(self.grain, self.horizon, MOST_UNITS)
        self.scale = Scale(self.unit, self.grain)
        sizes = [item.bytes for item in shop.items] + [held.bytes for held in shop.held.values()]
        self.memory_unit = float(max(1, gcd(*sizes)))
        self.earliest = order.heads
        self.latest = {
            name: self.horizon - order.tails[name] - self.ticks[name] for name in shop.steps
        }

    def decide_leaving(self) -> dict[str, int | None]:
        """Hold -> 1 or 0 where that is decided, ``None`` where it is a column."""
        found: dict[str, int | None] = {}
        gone = set() if self.known is None else set(self.shop.trips_of(self.known))
        for hold in self.shop.holds:
            if not self.options.offload:
                found[hold.name] = 0
            elif self.near is not None and hold.name not in self.near.free:
                found[hold.name] = int(hold.held[0].value in gone)
            elif all(self.has_time(held) for held in hold.held):
                found[hold.name] = None
            else:
                found[hold.name] = 0
        return found

    def has_time(self, held: Held) -> bool:
        """Whether the window is long enough for the round trip."""
        latest = min(self.latest[reader] for reader in held.readers)
        begin = self.earliest[held.producer] + self.ticks[held.producer]
        return begin + held.out_ns + held.back_ns <= latest

    # -- the model ---------------------------------------------------------------------------

    def build(self) -> pyo.ConcreteModel:
        self.m = m = pyo.ConcreteModel("pipeline_offload")
        self.declare()
        self.precede()
        self.value_rows()
        self.stagger()
        self.journeys()
        self.lanes = LaneOrder(self)
        self.lanes.write()
        self.memory = LaneMemory(self)
        if self.guide.memory:
            self.memory.write()
        m.objective = pyo.Objective(expr=m.value)
        return m

    def declare(self) -> None:
        """Times within windows; order bits; what leaves."""
        m, shop, unit = self.m, self.shop, self.unit
        m.start = pyo.Var(
            list(shop.steps),
            bounds=lambda _, n: (self.earliest[n] / unit, self.latest[n] / unit),
        )
        low = self.guide.bound or 0
        low = max(low, self.order.load_bound() if self.by_time else self.order.work_bound())
        if self.by_time and self.guide.memory:
            low = max(low, residence_bound(shop, self.order, travel=self.options.offload))
        m.value = pyo.Var(bounds=(low / unit, self.horizon / unit))
        m.before = pyo.Var(pyo.Any, domain=pyo.Binary, dense=False)
        m.leave = pyo.Var(
            [name for name, known in self.leaving.items() if known is None], domain=pyo.Binary
        )
        m.sequence = pyo.ConstraintList()
        for names in shop.on_device.values():
            for x, y in combinations(sorted(names, key=self.order.names.index), 2):
                if not self.order.surely(x, y):
                    self.pair(x, y)
        bounds = {v: (self.ready[v] / unit, self.last_start[v] / unit) for v in self.moving}
        m.out = pyo.Var(list(self.moving), bounds=lambda _, v: bounds[v])
        m.back = pyo.Var(list(self.moving), bounds=lambda _, v: bounds[v])

    def leave(self, value: str) -> Any:
        """Column or number: 1 where the value travels."""
        known = self.leaving[self.hold_of[value]]
        return self.m.leave[self.hold_of[value]] if known is None else known

    def pair(self, x: str, y: str) -> None:
        """Order two steps of a device, by a bit or as their windows force."""
        m, bit = self.m, self.m.before[x, y]
        first = self.earliest[x] + self.ticks[x] <= self.latest[y]
        second = self.earliest[y] + self.ticks[y] <= self.latest[x]
        if first != second:
            bit.setlb(int(first))
            bit.setub(int(first))
        for a, b, slack in ((x, y, 1 - bit), (y, x, bit)):
            small, large = (self.stop(a), self.stops(a)), (m.start[b], self.earliest[b])
            self.after_if(m.sequence, small, large, slack)

    def stop(self, name: str) -> Any:
        return self.m.start[name] + self.ticks[name] / self.unit

    def stops(self, name: str) -> int:  # the latest
        return self.latest[name] + self.ticks[name]

    def after_if(
        self, rows: Any, small: tuple[Any, int], large: tuple[Any, int], slack: Any
    ) -> None:
        """Unless ``slack`` is 1, small <= large; each with its most and its least ticks."""
        room = max(0, small[1] - large[1]) / self.unit
        at_most(rows, small[0] - room * slack, large[0])

    def first(self, x: str, y: str) -> Any:
        """Column, expression or number: 1 where x precedes y, two steps of one device."""
        if x == y or self.order.surely(y, x):
            return 0
        if self.order.surely(x, y):
            return 1
        turned = (x, y) not in self.m.before
        bit = self.m.before[(y, x) if turned else (x, y)]
        told = int(bit.lb) if bit.lb == bit.ub else bit
        return 1 - told if turned else told

    def precede(self) -> None:
        m = self.m
        m.precede = pyo.ConstraintList()
        for a, b, lag in self.order.arcs:
            at_most(m.precede, self.stop(a) + lag / self.unit, m.start[b])

    def value_rows(self) -> None:
        """The objective reaches every stop; a span counts from the first start of its device."""
        m, unit = self.m, self.unit
        m.ends = pyo.ConstraintList()
        m.begin = pyo.Var([] if self.by_time else list(self.shop.on_device), bounds=(0, None))
        for device, names in self.shop.on_device.items():
            for name in names:
                if self.by_time:
                    at_most(m.ends, self.stop(name) + self.order.tails[name] / unit, m.value)
                else:
                    at_most(m.ends, m.begin[device], m.start[name])
                    at_most(m.ends, self.stop(name) - m.begin[device], m.value)

    def stagger(self) -> None:
        """A step starts after what precedes it on its device; so does the end."""
        m, unit = self.m, self.unit
        m.stagger = pyo.ConstraintList()
        for names in self.shop.on_device.values():
            head = min(self.order.heads[n] for n in names)
            tail = min(self.order.tails[n] for n in names)
            for x in names:
                before = pyo.quicksum(self.ticks[y] / unit * self.first(y, x) for y in names)
                at_most(m.stagger, head / unit + before, m.start[x])
                if self.by_time:
                    after = pyo.quicksum(self.ticks[y] / unit * self.first(x, y) for y in names)
                    at_most(m.stagger, self.stop(x) + after + tail / unit, m.value)

    # -- lanes -------------------------------------------------------------------------------

    def gone(self, value: str) -> Any:
        held = self.moving[value]
        return self.m.out[value] + held.out_ns / self.unit * self.leave(value)

    def journeys(self) -> None:
        """Out after the producer, back after that, and before the readers.

        A value that started back while a step before the hold still read it was never away: it may
        as well stay.
        """
        m = self.m
        m.journey = pyo.ConstraintList()
        for value, held in self.moving.items():
            at_most(m.journey, self.stop(held.producer), m.out[value])
            at_most(m.journey, self.gone(value), m.back[value])
            for name in held.near:
                at_most(m.journey, self.stop(name), m.back[value])
            for reader in held.readers:
                back = m.back[value] + held.back_ns / self.unit * self.leave(value)
                at_most(m.journey, back, m.start[reader])

    # -- from plans and to plans -------------------------------------------------------------

    def encode(self, plan: Plan) -> Values | None:
        """Values of every column under a valid plan, in canonical form.

        ``None`` if it ends after the horizon, or something travels that must stay.
        """
        shop, m, unit = self.shop, self.m, self.unit
        plan = canonical(shop, plan, rename=self.symmetry, kinds=self.by_kind)
        if plan.stop_ns > self.horizon:
            return None
        start = {r.operator: r.start_ns or 0 for r in plan.runs if r.operator in shop.steps}
        stop = {name: begin + self.ticks[name] for name, begin in start.items()}
        trips = shop.trips_of(plan)
        travels = {hold.name: hold.held[0].value in trips for hold in shop.holds}
        if any(known is not None and known != travels[n] for n, known in self.leaving.items()):
            return None
        if any(stop[a] + lag > start[b] for a, b, lag in self.order.arcs):
            return None  # kinds in order would be a restriction here
        for name, begin in start.items():
            m.start[name].set_value(begin / unit, skip_validation=True)
        for x, y in m.before:
            m.before[x, y].set_value(int(start[x] < start[y]))
        for name in m.leave:
            m.leave[name].set_value(int(travels[name]))
        for value, held in self.moving.items():
            stays = max(stop[n] for n in (held.producer, *held.near))
            out, back = trips.get(value, (stop[held.producer], stays))
            m.out[value].set_value(out / unit, skip_validation=True)
            m.back[value].set_value(back / unit, skip_validation=True)
        self.lanes.encode(trips)
        self.memory.encode(start, trips)
        reached = plan.stop_ns
        if not self.by_time:
            spans = []
            for device, names in shop.on_device.items():
                begin = min(start[n] for n in names)
                m.begin[device].set_value(begin / unit)
                spans.append(max(stop[n] for n in names) - begin)
            reached = max(spans)
        m.value.set_value(max(reached / unit, m.value.lb), skip_validation=True)
        return column_values(m)

    def decode(self, values: Values) -> Plan:
        """Longest paths over the decided orders."""
        bits = {
            family: {index for index, bit in values.get(family, {}).items() if bit > 0.5}
            for family in ("before", "leave", "lane_order", "away", "ended", "later")
        }
        moving = {
            value: held for value, held in self.moving.items()
            if self.leaving[self.hold_of[value]] or self.hold_of[value] in bits["leave"]
        }  # fmt: skip
        arcs: list[tuple[Any, Any, int]] = [
            (a, b, self.ticks[a] + lag) for a, b, lag in self.order.arcs
        ]
        for x, y in values.get("before", {}):
            a, b = (x, y) if (x, y) in bits["before"] else (y, x)
            arcs.append((a, b, self.ticks[a]))
        for value, held in moving.items():
            arcs.append((held.producer, ("out", value), self.ticks[held.producer]))
            arcs += [(n, ("back", value), self.ticks[n]) for n in held.near]
            arcs.append((("out", value), ("back", value), held.out_ns))
            arcs += [(("back", value), r, held.back_ns) for r in held.readers]
        arcs += LaneOrder.arcs(self.shop, self.order, moving, bits)
        arcs += LaneMemory.arcs(moving, self.ticks, bits)
        journeys = [(letter, value) for value in moving for letter in ("out", "back")]
        known = {*self.order.names, *journeys}
        arcs = [(a, b, ticks) for a, b, ticks in arcs if a in known and b in known]
        try:
            time = longest_paths([*self.order.names, *journeys], arcs)
        except ValueError as error:
            raise FormulationError(f"the solver's orders: {error}") from None
        trips = {value: (time["out", value], time["back", value]) for value in moving}
        return self.shop.plan({name: time[name] for name in self.shop.steps}, trips)


FORMULATION = PipelineOffload(_Builder)
