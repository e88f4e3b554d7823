r"""Placement, option choice, order, transfers and memory over time as one disjunctive MILP.

The families, each a method of ``_Builder`` or a helper of it. Letters: operator i, k; placement
p = (option, devices); device d; value v; transfer task t; task means operator or transfer; H the
horizon.

================  ===============================================================================
``choose_place``  sum_p place[i,p] = 1; operators of a group choose the same devices
``on``            on[i,d] = sum_p place[i,p], p on d: an expression, for constraints of one's own
(flows)           which pairs of placements are chosen, which transfers run: :mod:`.flow_rows`
``precede``       start[k] >= start[i] + length[i] + longest route of the chosen flow
``travel``        start[t] >= stop[i];  start[k] >= stop[t] (if k needs t)
``order_tasks``   start[k] >= stop[i] - M (1 - before[i,k]), M = latest stop - earliest start
``order_tasks``   before[k,i] = conflict[i,k] - before[i,k] >= 0: see :mod:`.conflicts`
(objective)       the variable of the objective and its constraints: see :mod:`.goals`
``memory``        later[e,m] = 1 -> start[m] > start[e];  ended[r,e] = 1 -> start[e] >= stop[r]
``memory``        alive[c,e] >= read[r,c] + on[e,d] - 1 - later[e,maker] - ended[r,e]
(alike devices)   the same without a device: see :mod:`.event_rows`
``memory``        sum of bytes * alive[c,e] + persistent <= memory, at each allocating task e
``memory``        static law: all copies + largest workspace + persistent <= memory, without a time
``first_use``     device k of a class of equals is used only after device k - 1
================  ===============================================================================

Memory can only peak where something is allocated, so ``capacity`` at the start of every allocating
task is exact. ``later`` is strict by one tick common to all durations: some optimal plan starts
every task at 0 or at the stop of another, hence at multiples of it.

Source: this project; the disjunctive skeleton is the field's common one (Manne 1960), the flow
form of transfers and the retention of copies follow the laws in docs/laws.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from typing import Any

import pyomo.environ as pyo

from milp_plan.api import (
    BuilderFormulation,
    Card,
    Guide,
    MemoryLaw,
    Objective,
    Plan,
    PlanningProblem,
    Scale,
    TransferTask,
    Values,
    add_le,
    column_values,
    interchangeable_devices,
    label,
    needed_routes,
)

from .columns import Columns, Weights, set_to_one
from .conflicts import ConflictPairs
from .decoding import decoded
from .event_rows import EventRows, devices_are_alike
from .flow_rows import FlowRows
from .goals import GOALS, tick_of
from .memory_rows import MemoryRows, StaticRows
from .memory_units import Held, MemoryUnits
from .sequence import Interval, Sequence, counted_sets, guided_sets, intervals
from .symmetry import canonical_devices
from .units import MARGIN, horizon, time_unit


@dataclass(frozen=True)
class ScheduleOptions:
    """Options of the formulation."""

    symmetry: bool = field(
        default=True, metadata={"help": "break the symmetry between identical devices"}
    )
    load_thresholds: int = field(
        default=12,
        metadata={
            "help": "head and tail levels of load constraints, per device or group",
            "least": 0,
        },
    )


class OperatorSchedule(BuilderFormulation):
    """The exact formulation of a planning problem with a schedule."""

    card = Card(
        name="operator_schedule",
        title="Placement, sharding, order, transfers and memory over time",
        source="this project; laws in docs/laws.md",
        objectives=tuple(GOALS),
        exact=True,
    )
    handles = PlanningProblem
    Options = ScheduleOptions

    def unsupported(self, problem: PlanningProblem, options: ScheduleOptions) -> str | None:
        """Everything but the serial law is supported."""
        if problem.serial is not None:
            return "the problem is under the serial law, whose plans have no times"
        return None


class _Builder:
    """One model under construction, and what encoding a plan into it needs."""

    def __init__(self, problem: PlanningProblem, options: ScheduleOptions, guide: Guide) -> None:
        self.problem, self.options, self.guide = problem, options, guide
        self.timed = guided_sets(problem, guide)
        self.sets = sets = counted_sets(self.timed, guide)
        self.horizon = self.latest_end = horizon(sets, guide)
        self.unit = time_unit(sets, self.horizon)
        self.memory_units = MemoryUnits(problem, guide.cutoff)
        self.devices = problem.cluster.device_names
        self.goal = GOALS[problem.objective](self)
        self.limited_devices = self.goal.limited_devices() if guide.memory else []
        contended = problem.cluster.communication.value != "delay"
        self.transfers: tuple[TransferTask, ...] = (
            sets.transfers if contended or self.limited_devices else ()
        )
        self.columns = Columns(sets, self.transfers)
        self.names = [*sets.operators, *(task.name for task in self.transfers)]
        # any plan can be spread out so that different starts differ by the margin
        self.tick = tick_of(sets)
        self.strict = max(self.tick / self.unit, MARGIN)
        self.margin = (
            self.strict if self.limited_devices and self.strict * self.unit > self.tick else 0.0
        )
        self.horizon += ceil(self.margin * self.unit * len(self.names))

    @property
    def scale(self) -> Scale:
        """What the objective counts in."""
        return self.goal.scale()

    def build(self) -> pyo.ConcreteModel:
        self.m = m = pyo.ConcreteModel("operator_schedule")
        if self.sets.empty:
            return self.nothing()
        self.choose_place()
        self.name_devices()
        FlowRows(self).write()
        self.declare_times()
        self.precede()
        self.travel()
        self.order_tasks()
        self.goal.write()
        self.memory()
        if self.options.symmetry:
            self.first_use()
        m.objective = pyo.Objective(expr=self.goal.column)
        return m

    def nothing(self) -> pyo.ConcreteModel:
        """Write a model without a solution: no plan ends by the horizon."""
        self.m.refuted = pyo.ConstraintList()
        add_le(self.m.refuted, 1, 0)
        self.m.objective = pyo.Objective(expr=self.m.never)
        return self.m

    def choose_place(self) -> None:
        """Exactly one placement per operator; one set of devices per group."""
        m, sets, places = self.m, self.sets, self.columns.places
        own = {name: sets.placements[name] for name in self.columns.group_representatives}
        m.place = pyo.Var(
            [
                (name, label(p))
                for name, options in own.items()
                for p in options
                if len(options) > 1
            ],
            domain=pyo.Binary,
        )
        m.choose_place, m.same_devices = pyo.ConstraintList(), pyo.ConstraintList()
        for name, options in own.items():
            for p in options:
                places[name, p] = m.place[name, label(p)] if len(options) > 1 else 1
            if len(options) > 1:
                m.choose_place.add(sum(places[name, p] for p in options) == 1)
        for members in sets.graph.groups.values():
            deciding = [name for name in members if name in own]
            sites = dict.fromkeys(p.devices for name in deciding for p in own[name])
            for first, other in pairwise(deciding):
                for site in sites:
                    one, two = (
                        sum(places[n, p] for p in own[n] if p.devices == site)
                        for n in (first, other)
                    )
                    add_le(m.same_devices, one, two)
                    add_le(m.same_devices, two, one)

    def name_devices(self) -> None:
        """``on[i,d]``: whether an operator runs on a device, for constraints of one's own."""
        sums: dict[tuple[str, str], list[Any]] = {
            (name, device): [] for name in self.sets.operators for device in self.devices
        }
        for name in self.sets.operators:
            for placement in self.sets.placements[name]:
                for device in placement.devices:
                    sums[name, device].append(self.columns.place(name, placement))
        self.m.on = pyo.Expression(list(sums), initialize=lambda _, *spot: pyo.quicksum(sums[spot]))

    def declare_times(self) -> None:
        """Starts within windows from heads, tails and the horizon."""
        sets, unit = self.sets, self.unit
        self.earliest = dict(sets.heads)
        self.latest_stop = {name: self.horizon - sets.tails[name] for name in sets.operators}
        for task in self.transfers:
            self.earliest[task.name] = sets.heads[task.producer] + sets.shortest[task.producer]
            last = (sets.tails[name] + sets.shortest[name] for name in task.consumers)
            self.latest_stop[task.name] = self.horizon - min(last)
        self.latest = {n: self.latest_stop[n] - sets.shortest.get(n, 0) for n in self.names}
        self.m.start = pyo.Var(
            self.names,
            bounds=lambda _, n: (self.earliest[n] / unit, self.latest[n] / unit),
        )
        self.goal.declare()
        self.lengths = {name: self.timed_sum(self.columns.lengths(name)) for name in self.names}

    def timed_sum(self, weights: Weights) -> Any:
        """Sum of ticks times variables, in units."""
        return pyo.quicksum(ticks / self.unit * column for ticks, column in weights if ticks)

    def stop(self, name: str) -> Any:
        return self.m.start[name] + self.lengths[name]

    def precede(self) -> None:
        """Producers before consumers, with the longest transfer between their placements."""
        m, sets = self.m, self.sets
        m.precede = pyo.ConstraintList()
        for pair in sets.values_between:
            wait = self.timed_sum(self.columns.wait(pair))
            add_le(m.precede, self.stop(pair[0]) + wait, m.start[pair[1]])

    def travel(self) -> None:
        """Transfers after their producer and before the consumers that need them."""
        m = self.m
        m.travel = pyo.ConstraintList()
        for task in self.transfers:
            add_le(m.travel, self.stop(task.producer), m.start[task.name])
            add_le(m.travel, self.stop(task.name), self.latest_stop[task.name] / self.unit)
            for consumer in task.consumers:
                slack: Any = 0
                if task.shared:
                    big = (self.latest_stop[task.name] - self.earliest[consumer]) / self.unit
                    calls = self.columns.calls(task, consumer)
                    slack = big * (1 - pyo.quicksum(c * column for c, column in calls))
                add_le(m.travel, self.stop(task.name) - slack, m.start[consumer])

    def order_tasks(self) -> None:
        """Order bits, for pairs that can meet on a resource and are not ordered already."""
        m = self.m
        m.before = pyo.Var(pyo.Any, domain=pyo.Binary, dense=False)
        m.sequence, m.meet = pyo.ConstraintList(), pyo.ConstraintList()
        self.sequence = Sequence(self.columns, self.names)
        self.conflicts = ConflictPairs(self.sequence, m)
        self.bits: dict[tuple[str, str], Any] = {}
        for first, second in self.sequence.pairs():
            conflict = self.conflicts.of(first, second)
            can_precede = self.may_precede(first, second)
            can_follow = self.may_precede(second, first)
            if can_precede and can_follow:
                before = m.before[first, second]
                if not isinstance(conflict, int):
                    add_le(m.meet, before, conflict)
            elif not can_precede and not can_follow:
                add_le(m.meet, conflict, 0)
                continue
            else:
                before = conflict if can_precede else 0
            self.bits[first, second], self.bits[second, first] = before, conflict - before
            if can_precede:
                self.after_if(m.sequence, first, second, before)
            if can_follow:
                self.after_if(m.sequence, second, first, conflict - before)

    def may_precede(self, first: str, second: str) -> bool:
        shortest = self.sets.shortest.get(first, 0)
        return self.earliest[first] + shortest <= self.latest[second]

    def order(self, first: str, second: str) -> Any:
        """Variable or number: 1 where the first of two tasks that meet comes first."""
        return self.bits.get((first, second), 0)

    def after_if(self, rows: Any, first: str, second: str, bit: Any) -> None:
        """``bit`` = 1 -> the second task starts when the first has stopped, or later."""
        big = max(0, self.latest_stop[first] - self.earliest[second]) / self.unit
        add_le(rows, self.stop(first) - big * (1 - bit), self.m.start[second])

    def memory(self) -> None:
        """Memory over time or in all, on the devices where it can bind."""
        self.m.tight_covers = pyo.ConstraintList()
        if self.problem.memory_law is MemoryLaw.STATIC:
            self.rows: MemoryRows = StaticRows(self)
        else:
            self.rows = EventRows(self) if devices_are_alike(self.problem) else MemoryRows(self)
        self.rows.write_all(self.limited_devices)

    def add_capacity(self, device: str, held: list[Held]) -> None:
        """``capacity``: bytes on a device at most its memory, or the peak."""
        units, limit = self.memory_units, self.memory_units.limit(device)
        if limit is not None:
            add_le(self.m.capacity, units.total(held, device, units.unit_of(device)), limit)
        if self.problem.objective is Objective.PEAK_MEMORY:
            add_le(self.m.capacity, units.total(held, device, units.unit), self.goal.column)

    def add_cover_cuts(self, device: str, held: list[Held]) -> None:
        """``tight_covers``: what exceeds a device by very little is not all there."""
        for columns in self.memory_units.tight_covers(held, device):
            add_le(self.m.tight_covers, sum(columns), len(columns) - 1)

    def first_use(self) -> None:
        """Interchangeable devices are first used in device order."""
        m = self.m
        m.first_use = pyo.ConstraintList()
        for members in interchangeable_devices(self.problem):
            for lower, upper in pairwise(members):
                used: list[Any] = []
                for name in self.columns.group_representatives:
                    places = self.sets.placements[name]
                    for placement in places:
                        if upper in placement.devices and lower not in placement.devices:
                            place = self.columns.place(name, placement)
                            add_le(m.first_use, place, pyo.quicksum(used))
                    used += self.columns.on(name, lower)

    def decode(self, values: Values) -> Plan:
        """Round the decisions and give every task its earliest start under them."""
        return decoded(self.timed, self.unit, values)

    def encode(self, plan: Plan) -> Values | None:
        """Complete start from a valid plan; ``None`` if it ends after the model's horizon."""
        sets, m, columns = self.sets, self.m, self.columns
        if sets.empty or (plan.stop_ticks > self.latest_end and not sets.steps):
            return None
        if self.options.symmetry:
            plan = canonical_devices(self.problem, plan, columns.group_representatives)
        for column in m.component_data_objects(pyo.Var):
            column.set_value(0, skip_validation=True)
        placements = {run.operator: run.placement for run in plan.runs}
        for name, placement in placements.items():
            set_to_one(columns.place(name, placement))
        for pair in sets.values_between:
            if pair not in sets.local_pairs:
                set_to_one(columns.flows[(*pair, placements[pair[0]], placements[pair[1]])])
        for ends, together in columns.together.items():
            sites = [placements[name].devices for name in ends]
            if sites[0] == sites[1]:
                set_to_one(together)
        sources = {(t.value, t.target, t.layout): t.source for t in plan.transfers}
        needed = needed_routes(sets, placements, sources)
        for task in self.transfers:
            if task.shared and task.name in needed:
                source = needed[task.name][0].source
                set_to_one(columns.use[task.name, placements[task.producer], source])
                set_to_one(columns.sent.get(task.name, 1))
        times = intervals(sets, plan)
        moments = sorted({interval.start_ticks for interval in times.values()})
        margin_at = {moment: rank * self.margin for rank, moment in enumerate(moments)}
        for name in self.names:
            begin = times[name].start_ticks
            m.start[name].set_value(begin / self.unit + margin_at[begin])
        self.encode_bits(times)
        self.rows.encode(times)
        end = max((interval.stop_ticks for interval in times.values()), default=0)
        self.goal.encode(end / self.unit + margin_at[moments[-1]])
        return column_values(m)

    def encode_bits(self, times: dict[str, Interval]) -> None:
        """Order bits as the times say, for tasks that meet."""
        self.conflicts.encode()
        for (first, second), column in self.m.before.items():
            ordered = times[first].stop_ticks <= times[second].start_ticks
            column.set_value(int(ordered and pyo.value(self.conflicts.of(first, second)) > 0.5))


FORMULATION = OperatorSchedule(_Builder)
