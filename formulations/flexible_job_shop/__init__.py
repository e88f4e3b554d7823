"""Flexible distributed job shop: the model to read first, and the baseline of comparisons.

Operator i, k; device a, b; value v, made by i, read by k; task s, t = operator or send (v to b);
resource r = a device, or what a send occupies. M = latest stop of s - earliest start of t.

assign    sum_a on[i,a] = 1;  on[i,a] <= on[k,a] in a group;  on[i,a] + on[k,b] <= 1 without channel
supply    on[k,b] - on[i,b] <= sum_a send[v,a,b];  send[v,a,b] <= on[i,a]
precede   start[k] >= stop[i];  start[t] >= stop[i];  start[k] >= stop[t] - M (1 - on[k,b])
order     start[t] >= stop[s] - M (1 - before[s,t]);  before[s,t] + before[t,s] >= both use r
finish    makespan >= stop[i] + tail[i];  makespan >= least head + work on a + least tail
"""

from collections.abc import Iterator
from itertools import combinations, permutations, product
from typing import Any

import pyomo.environ as pyo

from milp_plan import api

Rows = Iterator[tuple[Any, Any]]
"""Rows as pairs of terms: the first is at most the second."""


class FlexibleJobShop(api.BuilderFormulation):
    """Exact where each operator has one option, on one device, and memory cannot bind."""

    card = api.Card(
        name="flexible_job_shop",
        title="Flexible distributed job shop: assignment, order bits, sends as tasks",
        source="reconstruction after She et al., arXiv 2503.09357; order bits: Manne (1960)",
        objectives=(api.Objective.MAKESPAN,),
        exact=True,
    )
    handles = api.PlanningProblem

    def unsupported(self, problem: api.PlanningProblem, options: Any) -> str | None:
        """Return which part of the problem the model has no columns for."""
        every = [option for operator in problem.graph.operators for option in operator.options]
        layouts = {layout for o in every for layout in (*o.reads.values(), *o.writes.values())}
        if problem.objective is not api.Objective.MAKESPAN or problem.serial is not None:
            return "the model minimises the makespan of operators and transfers"
        if layouts - {api.FULL} or any(option.gang > 1 for option in every):
            return "the model has no process groups and no layouts"
        if len(every) > len(problem.graph.operators):
            return "the model chooses devices, and an operator has several options"
        most = sum(max(value.bytes.values(), default=0) for value in problem.graph.values)
        most += max((option.workspace_bytes for option in every), default=0)
        limits = [d.memory_bytes for d in problem.cluster.devices if d.memory_bytes is not None]
        if min(limits, default=most) < most:
            return f"the model has no memory rows, and not every device holds all {most} bytes"
        return None


class _Builder:
    """One model, and what its decoding and its start need."""

    def __init__(self, problem: api.PlanningProblem, _: Any, guide: api.Guide) -> None:
        self.sets = sets = api.ScheduleSets(problem, within=guide.cutoff)
        self.horizon = horizon = sets.serial_ticks if guide.cutoff is None else guide.cutoff
        self.unit = unit = api.coarser(sets.tick, horizon, 5_000)
        self.scale = api.Scale(unit, grain=sets.tick)
        self.place = {i: {p.devices[0]: p for p in sets.placements[i]} for i in sets.operators}
        ways = [way for found in sets.combinations.values() for way in found.values()]
        routes = [route for way in ways for needed in way.values() for route in needed]
        self.routes = {(r.value, r.source[0], r.target[0]): r for r in routes}
        self.maker: Any = {(v, b): sets.graph.value(v).producer for v, _, b in self.routes}
        uses: Any = {i: set(self.place[i]) for i in self.place}  # resources of each task
        for (v, _, b), route in self.routes.items():
            uses.setdefault((v, b), set()).update(route.resources)
        self.head: Any = {i: sets.heads[i] / unit for i in sets.operators}
        self.last: Any = {i: (horizon - sets.tails[i]) / unit for i in sets.operators}
        for send, i in self.maker.items():
            self.head[send] = self.head[i] + sets.shortest[i] / unit
            self.last[send] = horizon / unit
        after = sets.graph.descendants
        meet = [(s, t) for s, t in combinations(uses, 2) if uses[s] & uses[t]]
        meet = [p for p in meet if not any(t in after.get(s, ()) for s, t in permutations(p))]
        self.meet = {(s, t): uses[s] & uses[t] for s, t in meet}
        both = [p for pair in meet for p in permutations(pair)]
        self.pairs = [(s, t) for s, t in both if self.head[s] <= self.last[t]]
        self.ticks = {
            (i, a): sets.duration[i, p] / unit for i in self.place for a, p in self.place[i].items()
        }

    def build(self) -> pyo.ConcreteModel:
        self.m = m = pyo.ConcreteModel("flexible_job_shop")
        m.on = pyo.Var(list(self.ticks), domain=pyo.Binary)
        m.send = pyo.Var(list(self.routes), domain=pyo.Binary)
        earliest = list(self.head.values())
        m.start = pyo.Var(range(len(earliest)), bounds=lambda _, n: (earliest[n], None))
        m.makespan = pyo.Var(bounds=(0, max(self.last.values(), default=0)))
        m.objective, m.rows = pyo.Objective(expr=m.makespan), pyo.ConstraintList()
        if self.sets.empty:  # no plan ends by the cutoff
            api.add_le(m.rows, 1, 0)
            return m
        self.on: Any = dict(m.on.items())
        self.start = dict(zip(self.head, m.start.values(), strict=True))
        self.uses: Any = {task: {} for task in self.head}
        length: Any = dict.fromkeys(self.head, 0)
        for (i, a), on in self.on.items():
            self.uses[i][a] = on
            length[i] += self.ticks[i, a] * on
        for (v, a, b), route in self.routes.items():
            length[v, b] += route.duration_ticks / self.unit * m.send[v, a, b]
            for r in route.resources:
                self.uses[v, b][r] = self.uses[v, b].get(r, 0) + m.send[v, a, b]
        self.stop = {task: self.start[task] + length[task] for task in self.head}
        for small, large in (*self.assign(), *self.supply(), *self.order(), *self.finish()):
            api.add_le(m.rows, small, large)
        return m

    def assign(self) -> Rows:
        for i, devices in self.place.items():
            total = sum(self.on[i, a] for a in devices)
            yield from ((1, total), (total, 1))
        for first, *others in self.sets.graph.groups.values():
            for k, a in product(others, self.place[first]):
                yield self.on[first, a], self.on.get((k, a), 0)
        for (i, k), allowed in self.sets.combinations.items():
            yield self.stop[i], self.start[k]
            for (a, made), (b, read) in product(self.place[i].items(), self.place[k].items()):
                if (made, read) not in allowed:
                    yield self.on[i, a] + self.on[k, b], 1

    def supply(self) -> Rows:
        for (v, b), i in self.maker.items():
            sent = {a: self.m.send[v, a, b] for a in self.place[i] if (v, a, b) in self.routes}
            yield self.stop[i], self.start[v, b]
            yield from ((send, self.on[i, a]) for a, send in sent.items())
            for k in (k for k in self.sets.graph.value(v).consumers if b in self.place[k]):
                big = max(0, self.last[v, b] - self.head[k])
                yield self.on[k, b] - self.on.get((i, b), 0), sum(sent.values())
                yield self.stop[v, b] - big * (1 - self.on[k, b]), self.start[k]

    def order(self) -> Rows:
        self.m.before = pyo.Var(range(len(self.pairs)), domain=pyo.Binary)
        bits = dict(zip(self.pairs, self.m.before.values(), strict=True))
        for (s, t), before in bits.items():
            yield self.stop[s] - max(0, self.last[s] - self.head[t]) * (1 - before), self.start[t]
        for (s, t), resources in self.meet.items():
            for r in resources:
                both = self.uses[s].get(r, 0) + self.uses[t].get(r, 0)
                yield both - 1, bits.get((s, t), 0) + bits.get((t, s), 0)

    def finish(self) -> Rows:
        tail = {i: self.sets.tails[i] / self.unit for i in self.place}
        yield from ((self.stop[i] + tail[i], self.m.makespan) for i in self.place)
        for a in {a: 0 for devices in self.place.values() for a in devices}:
            able = [i for i in self.place if a in self.place[i]]
            work = sum(self.ticks[i, a] * self.on[i, a] for i in able)
            least = min(self.head[i] for i in able) + min(tail[i] for i in able)
            yield least + work, self.m.makespan

    def decode(self, values: api.Values) -> api.Plan:
        """Round the decisions and compute the earliest times that they allow, in integers."""
        on = [index for index, value in values["on"].items() if value > 0.5]
        places = {i: self.place[i][a] for i, a in on}
        needed = api.needed_routes(self.sets, places)
        name: Any = {(route.value, route.target[0]): task for task, (route, _) in needed.items()}
        name |= {i: i for i in places}
        chosen = [self.pairs[n] for n, bit in values.get("before", {}).items() if bit > 0.5]
        arcs = [api.Arc(name[s], name[t]) for s, t in chosen if s in name and t in name]
        hint = {name[t]: values["start"][n] for n, t in enumerate(self.head) if t in name}
        return api.retime(self.sets, places, arcs, hint)

    def encode(self, plan: api.Plan) -> api.Values | None:
        """Return the start that a plan is; a send that it does not need lasts no time."""
        if self.sets.empty or plan.stop_ticks > self.horizon:
            return None
        for column in self.m.component_data_objects(pyo.Var):
            column.set_value(0, skip_validation=True)
        time: Any = {run.operator: (run.start_ticks, run.stop_ticks) for run in plan.runs}
        for run in plan.runs:
            self.m.on[run.operator, run.devices[0]].set_value(1)
        time |= {send: (time[i][1], time[i][1]) for send, i in self.maker.items()}
        for t in plan.transfers:
            self.m.send[t.value, t.source[0], t.target[0]].set_value(1)
            time[t.value, t.target[0]] = t.start_ticks, t.stop_ticks
        for task, start in self.start.items():
            start.set_value(time[task][0] / self.unit)
        for n, (s, t) in enumerate(self.pairs):
            self.m.before[n].set_value(time[s][1] <= time[t][0])
        self.m.makespan.set_value(plan.stop_ticks / self.unit)
        return api.column_values(self.m)


FORMULATION = FlexibleJobShop(_Builder)
