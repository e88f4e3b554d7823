r"""Runs again and a host beside one device: what starts in which slot, and which copies lie there.

Letters: operator o of p slots; value v with producer o(v), out and back slots to and from the host;
slot t; horizon T. Columns: ``run[o,t]``, ``out[v,t]``, ``back[v,t]`` are 1 where one starts;
``lies[v,t]`` is 1 where a complete copy is on the device. ``busy`` is the sum of starts that still
last in a slot.

============  ====================================================================================
``once``      sum over t of run[o,t] = 1, or >= 1 (in time for all that follows) if o may run again
``turn``      sum over o of busy[o,t] <= 1
``keep``      lies[v,t] <= lies[v,t-1] + run[o(v),t-p] + back[v,t-back]
``read``      sum over the consumers c of v of busy[c,t] <= lies[v,t]
``leave``     busy of out[v] in t <= lies[v,t];   sum over t of out[v,t] <= 1
``there``     back[v,t] <= sum over s <= t - out of out[v,s]
``lane``      sum over v of busy out <= 1 in t; the same for back
``some``      a later consumer in t: lies[v,t], or out[v] complete, or run[o(v)] stops later
``one``       lies[v,t] + busy[o(v),t] + busy back[v] in t <= 1
``memory``    sum over v of bytes of the left side of ``one``, and workspaces, <= memory in t; of a
              result, bytes times the starts of its producer up to t
``finish``    value >= sum over t of (t + p) run[o,t] for what nothing follows
``work``      value >= sum over o, t of p run[o,t]
============  ====================================================================================

**Slots lose nothing.** Let g divide every length. Move each start of a plan back to a multiple of
g: stops move alike, what stopped before another start still does, and a copy held in the slot from
mg is one that the plan holds just before (m + 1)g.

**Rows that leave out plans leave out no value.** *One*: let two copies of v be there at an instant,
complete or on their way. Do without the maker of the one that is complete later, and keep the
other: it holds as much, and in the meantime the later one was on its way. What an operator that
may run again makes is one value, so nobody misses its run. *Leave*: later journeys out are not
needed, as the host has room for all that could wait on it. *Work*, and windows of later runs: a
run that nobody reads may be left out, and what reads it ends before the value.

*Some* follows from the others in whole numbers, but not in fractions: half of a journey out would
serve any number of halves of journeys back. Windows know what must be away while an operator runs
(:meth:`.slot_data.SlotData.heads`).

Any order of runs, any number of runs, reloads and levels of making again are plans of the model.
Where operators may run again and no plan is known, the horizon is a guess: a column ``beyond``
stands for plans that end later. Source: this project; the rows of one copy per value are the
staged ones of Jain et al., Checkmate (2020), by time in place of stages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyomo.environ as pyo

from milp_plan.api import (
    FULL,
    BuilderFormulation,
    Card,
    Guide,
    Objective,
    Plan,
    PlanningProblem,
    Scale,
    Value,
    Values,
    add_le,
    column_values,
    require_supported,
)

from .copies import Starts, lying, plan_of, starts_of, tidied
from .slot_data import lanes_take_turns, read_slot_data


@dataclass(frozen=True)
class Switches:
    """Switches of the formulation."""

    columns: int = field(
        default=20_000, metadata={"help": "refuse problems with more columns than this", "least": 0}
    )


class MemorySlots(BuilderFormulation):
    """Starts and copies by slot."""

    card = Card(
        name="memory_slots",
        title="Runs again and a host beside one device, time-indexed",
        source="this project; Jain et al. 2020 for copies per stage",
        objectives=(Objective.MAKESPAN,),
        exact=True,
        memory_saving=True,
    )
    handles = PlanningProblem
    Options = Switches

    def unsupported(self, problem: PlanningProblem, options: Switches) -> str | None:
        """One device, at most one host with room for all, everything takes time; few slots."""
        data = read_slot_data(problem)
        if isinstance(data, str):
            return data
        needed = sum(data.ticks.values()) // data.grain
        needed *= len(data.names) + len(data.read) + 2 * len(data.trips)
        if needed > options.columns:
            return f"needs at least {needed} columns, the switch columns allows {options.columns}"
        return None


class _Builder:
    """One model, and what decoding needs."""

    def __init__(self, problem: PlanningProblem, _: Switches, guide: Guide) -> None:
        data = require_supported(read_slot_data(problem), problem.name)
        self.data, self.grain = data, data.grain
        self.scale = Scale(float(self.grain), self.grain)
        paths = (data.heads[n] + data.ticks[n] + data.tails[n] for n in data.names)
        low = max(0, sum(data.ticks.values()), guide.bound or 0, *paths)
        known = guide.cutoff
        if known is None or not data.again:
            known = data.serial if known is None else min(known, data.serial)
        self.low = -(-low // self.grain)
        self.horizon = max(known // self.grain, self.low)
        self.guess = guide.cutoff is None and bool(data.again) and not data.cramped
        self.slots, self.trips = data.slots, data.trip_slots

    # -- columns -----------------------------------------------------------------------------

    def windows(self) -> dict[str, range]:
        """Slots in which each operator may start."""
        data, grain = self.data, self.grain
        return {
            n: range(
                data.heads[n] // grain,
                self.horizon - (data.last_tails[n] + data.ticks[n]) // grain + 1,
            )
            for n in data.names
        }

    def build(self) -> Any:
        self.m = pyo.ConcreteModel()
        m, windows = self.m, self.windows()
        m.value = pyo.Var(bounds=(self.low, self.horizon + self.guess))
        m.goal = pyo.Objective(expr=m.value)
        m.beyond = pyo.Var([0] if self.guess else [], domain=pyo.Binary)
        pairs = [(n, t) for n, window in windows.items() for t in window]
        m.run = pyo.Var(pairs, domain=pyo.Binary)
        made = {v.name: self.made(v) for v in self.data.read}
        ends = {v.name: self.last_read(v, windows) for v in self.data.read}
        outs, backs, lies = [], [], []
        for v in self.data.read:
            lies += [(v.name, t) for t in range(made[v.name], ends[v.name])]
            if v.name in self.trips:
                out, back = self.trips[v.name]
                latest = max(windows[c].stop - 1 for c in v.consumers) - back
                outs += [(v.name, t) for t in range(made[v.name], latest - out + 1)]
                backs += [(v.name, t) for t in range(made[v.name] + out, latest + 1)]
        m.out = pyo.Var(outs, domain=pyo.Binary)
        m.back = pyo.Var(backs, domain=pyo.Binary)
        m.lies = pyo.Var(lies, bounds=(0, 1))
        for family in ("once", "turn", "keep", "read", "leave", "there", "lane", "one", "some"):
            m.add_component(family, pyo.ConstraintList())
        m.memory, m.finish = pyo.ConstraintList(), pyo.ConstraintList()
        self.runs(windows)
        for value in self.data.read:
            self.copies(value)
        if lanes_take_turns(self.data.problem):
            self.lanes()
        self.memory()
        return m

    def made(self, value: Value) -> int:
        """First slot in which a copy can lie there."""
        name = str(value.producer)
        return self.data.heads[name] // self.grain + self.slots[name]

    def last_read(self, value: Value, windows: dict[str, range]) -> int:
        """Slot from which on nobody can read a value."""
        return max(windows[c].stop - 1 + self.slots[c] for c in value.consumers)

    def busy(self, family: Any, name: str, length: int, slot: int) -> list[Any]:
        """Columns of starts that last in a slot."""
        found = ((name, t) for t in range(max(0, slot - length + 1), slot + 1))
        return [family[index] for index in found if index in family]

    def running(self, name: str, slot: int) -> list[Any]:
        return self.busy(self.m.run, name, self.slots[name], slot)

    def lie(self, name: str, slot: int) -> Any:
        return self.m.lies[name, slot] if (name, slot) in self.m.lies else 0  # noqa: SIM401 - a Pyomo family

    # -- rows --------------------------------------------------------------------------------

    def runs(self, windows: dict[str, range]) -> None:
        """``once``, ``turn``, ``finish`` and ``work``."""
        m, data = self.m, self.data
        beyond = m.beyond[0] if self.guess else 0
        work = []
        for name, window in windows.items():
            length = self.slots[name]
            last = self.horizon - data.tails[name] // self.grain - length
            first = pyo.quicksum(m.run[name, t] for t in window if t <= last)
            add_le(m.once, 1 - beyond, first)
            work += [length * m.run[name, t] for t in window]
            if name not in data.again:
                add_le(m.once, first, 1 - beyond)
            if not data.problem.graph.successors[name]:
                stop = pyo.quicksum((t + length) * m.run[name, t] for t in window)
                add_le(m.finish, stop, m.value)
        add_le(m.finish, pyo.quicksum(work), m.value)
        add_le(m.finish, (self.horizon + 1) * beyond, m.value)
        for slot in range(self.horizon):
            columns = [c for name in data.names for c in self.running(name, slot)]
            add_le(m.turn, pyo.quicksum(columns), 1)

    def copies(self, value: Value) -> None:
        """``keep``, ``read``, ``leave``, ``there`` and ``one`` of a value."""
        m, name, producer = self.m, value.name, str(value.producer)
        out, back = self.trips.get(name, (0, 0))
        for slot in range(self.horizon):
            lies = self.lie(name, slot)
            new = [(m.run, (producer, slot - self.slots[producer])), (m.back, (name, slot - back))]
            arriving = [family[index] for family, index in new if index in family]
            add_le(m.keep, lies, self.lie(name, slot - 1) + pyo.quicksum(arriving))
            reading = [c for reader in value.consumers for c in self.running(reader, slot)]
            add_le(m.read, pyo.quicksum(reading), lies)
            add_le(m.leave, pyo.quicksum(self.busy(m.out, name, out, slot)), lies)
            if (name, slot) in m.back:
                gone = [m.out[name, t] for t in range(slot - out + 1) if (name, t) in m.out]
                add_le(m.there, m.back[name, slot], pyo.quicksum(gone))
            add_le(m.one, pyo.quicksum(self.held(value, slot)), 1)
            self.somewhere(value, slot, lies)
        add_le(m.leave, pyo.quicksum(m.out[i] for i in m.out if i[0] == name), 1)

    def somewhere(self, value: Value, slot: int, lies: Any) -> None:
        """``some``: what is read later lies here, has gone to the host, or is made later."""
        m, producer = self.m, str(value.producer)
        out = self.trips.get(value.name, (0, 0))[0]
        window = range(slot + 1, self.horizon)
        gone = [m.out[i] for t in range(slot - out + 1) if (i := (value.name, t)) in m.out]
        late = range(max(0, slot - self.slots[producer] + 1), self.horizon)
        made = [m.run[i] for t in late if (i := (producer, t)) in m.run]
        there = lies + pyo.quicksum(gone) + pyo.quicksum(made)
        for reader in value.consumers:
            if reader not in self.data.again:
                later = [m.run[i] for t in window if (i := (reader, t)) in m.run]
                add_le(m.some, pyo.quicksum(later), there)

    def held(self, value: Value, slot: int) -> list[Any]:
        """Columns whose sum says how many copies hold memory in a slot."""
        back = self.trips.get(value.name, (0, 0))[1]
        arriving = self.busy(self.m.back, value.name, back, slot)
        return [
            self.lie(value.name, slot), *self.running(str(value.producer), slot), *arriving
        ]  # fmt: skip

    def lanes(self) -> None:
        """``lane``: transfers of one direction take turns."""
        for family, way in ((self.m.out, 0), (self.m.back, 1)):
            for slot in range(self.horizon):
                columns = [
                    c for name, trip in self.trips.items()
                    for c in self.busy(family, name, trip[way], slot)
                ]  # fmt: skip
                add_le(self.m.lane, pyo.quicksum(columns), 1)

    def memory(self) -> None:
        """``memory``: bytes in each slot, as parts of what there is."""
        data, room = self.data, self.data.room
        if room is None:
            return
        if data.cramped:
            add_le(self.m.memory, 1, 0)
            return
        unit = max(1, room)
        graph = data.problem.graph
        unread = {
            name: data.working[name]
            - sum(v.bytes[FULL] for v in graph.outputs[name] if v.consumers or v.is_kept)
            for name in data.names
        }
        for slot in range(self.horizon):
            terms = [
                value.bytes[FULL] / unit * column
                for value in data.read if value.bytes[FULL] and not value.is_kept
                for column in self.held(value, slot)
            ]  # fmt: skip
            terms += [
                value.bytes[FULL] / unit * self.m.run[index]
                for value in data.results
                for index in ((value.producer, t) for t in range(slot + 1))
                if index in self.m.run
            ]
            terms += [
                size / unit * column
                for name, size in unread.items() if size
                for column in self.running(name, slot)
            ]  # fmt: skip
            add_le(self.m.memory, pyo.quicksum(terms), room / unit)

    # -- answers -----------------------------------------------------------------------------

    def decode(self, values: Values) -> Plan | None:
        """Round the starts, and leave out what nobody reads; ``None`` beyond the horizon."""
        if self.guess and values["beyond"][0] > 0.5:
            return None
        chosen = Starts(
            *(sorted(i for i, bit in values.get(f, {}).items() if bit > 0.5)
              for f in ("run", "out", "back"))
        )  # fmt: skip
        return plan_of(self.data, tidied(self.data, chosen))

    def encode(self, plan: Plan) -> Values | None:
        """Complete start from a valid plan; ``None`` if it ends after the horizon."""
        m, starts = self.m, tidied(self.data, starts_of(self.data, plan))
        stop = max((t + self.slots[name] for name, t in starts.runs), default=0)
        families = ((m.run, starts.runs), (m.out, starts.outs), (m.back, starts.backs))
        if stop > self.horizon or any(i not in f for f, found in families for i in found):
            return None
        for column in m.component_data_objects(pyo.Var):
            column.set_value(0, skip_validation=True)
        for family, found in families:
            for index in found:
                family[index].set_value(1)
        for index in self.lies(starts):
            m.lies[index].set_value(1)
        m.value.set_value(max(stop, self.low))
        return column_values(m)

    def lies(self, starts: Starts) -> Iterator[tuple[str, int]]:
        for value in self.data.read:
            for slot in lying(self.data, starts, value):
                yield value.name, slot


FORMULATION = MemorySlots(_Builder)
