r"""A repeating pattern of a pipeline: the shortest period, then the shortest schedule with it.

Every ``K`` consecutive micro-batches of a route run like the ``K`` before them, one period P later
(modulo scheduling). A task x is (kind, one of the K); it starts at start[x] + n P for n = 0, 1, ...
For two tasks x, y of one machine, the integer turn[x,y] = q says how many periods lie between
them: exactly y's repetitions n >= -q come after x's repetition 0.

==============  ==================================================================================
``precede``     start[y] >= start[x] + d[x] + lag, for each arc within a micro-batch
``in_order``    start[k,j+1] >= start[k,j] + d[k];  start[k,0] + P >= start[k,K-1] + d[k]
``turns``       d[x] <= start[y] - start[x] - P turn[x,y] <= P - d[y]
``triangles``   turn[x,y] + turn[y,z] <= turn[x,z] <= turn[x,y] + turn[y,z] + 1
``memory``      alloc[x] - sum_y (alloc[y] - free[y]) turn[x,y] <= limit, at each allocating x
``makespan``    makespan >= start[x] + P (repetitions of x - 1) + d[x]; a span per device alike
==============  ==================================================================================

Bytes on a device change only at its own tasks, and what is allocated in a period is released in a
period; so the number of repetitions of y before one of x, up to a constant that cancels, is
-turn[x,y], and the memory rows are exact however many stages a device runs. At the ends of the
schedule there are fewer repetitions, hence no more bytes.

Divided by P all rows are linear in the rate 1/P too: one model finds the shortest period for K
without a scan, and the turns of its solution determine P exactly, as the largest ratio of length
and turns on a cycle. With P known, the model minimises the objective of the schedule.

Source: this project; the model is the cyclic shop's (Hanen and Munier 1995; the form in 1/P:
Brucker and Kampmeyer 2008), with memory as linear rows in the turns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
    require_supported,
)
from milp_plan.kinds.pipeline.reading import read_shop

from .rates import shortest_periods
from .rows import PeriodCycle, PeriodRows


@dataclass(frozen=True)
class Switches:
    """Switches of the formulation."""

    micro_batches: int = field(
        default=1,
        metadata={"help": "micro-batches per period and route (1 to 3 are useful)", "least": 0},
    )
    period: int = field(
        default=0, metadata={"help": "ticks of a period; 0: the shortest", "least": 0}
    )
    search_s: float = field(
        default=20.0, metadata={"help": "seconds to look for the shortest period", "least": 0}
    )
    mirror: bool = field(
        default=True, metadata={"help": "opposite routes do the same on opposite devices"}
    )
    even: int = field(
        default=0,
        metadata={"help": "n: every n-th device does the same, a far smaller model", "least": 0},
    )


class PipelinePeriod(BuilderFormulation):
    """Schedules that repeat themselves: the best of them is a plan, not the optimum."""

    card = Card(
        name="pipeline_period",
        title="The shortest repeating pattern of a pipeline, unrolled over all micro-batches",
        source="this project; cyclic shops: Hanen and Munier 1995, Brucker and Kampmeyer 2008",
        objectives=(Objective.MAKESPAN, Objective.SPAN),
        exact=False,
    )
    handles = PlanningProblem
    Options = Switches

    def restricts(self, options: Switches) -> bool:
        """Plans that repeat themselves need not be among the best."""
        return True

    def unsupported(self, problem: PlanningProblem, options: Switches) -> str | None:
        """Only shops of identical micro-batches repeat themselves."""
        shop = read_shop(problem)
        return shop if isinstance(shop, str) else None

    def fastest(self, problem: PlanningProblem, options: Switches) -> list[tuple[int, Plan]]:
        """Shortest periods, ticks, each with a plan that repeats itself; empty if none is found."""
        pattern = _pattern(problem, options)
        found = shortest_periods(pattern, options.search_s, options.even)
        return [(period, pattern.plan(pattern.exact(t, period), period)) for period, t in found]


def _pattern(problem: PlanningProblem, options: Switches) -> PeriodRows:
    mirror = options.mirror and not options.even
    shop = require_supported(read_shop(problem), problem.name)
    return PeriodRows(shop, max(1, options.micro_batches), mirror)


class _Builder:
    """The pattern with a period that is given or the shortest, and its schedule's value.

    A known plan's value cuts nothing off: what is decoded may still be shifted left.
    """

    def __init__(self, problem: PlanningProblem, options: Switches, guide: Guide) -> None:
        self.options, self.guide = options, guide
        self.pattern = _pattern(problem, options)
        self.span = problem.objective is Objective.SPAN
        self.unit = self.pattern.shop.tick
        self.scale = Scale(self.unit)

    def build(self) -> pyo.ConcreteModel:
        pattern, unit, most = self.pattern, self.unit, self.pattern.most_periods()
        self.period = period = self.options.period or self.shortest()
        self.m = m = pyo.ConcreteModel("pipeline_period")
        m.start = pyo.Var(range(pattern.num_starts), bounds=(0, most * period / unit))
        m.turn = pyo.Var(range(pattern.num_turns), bounds=(-most - 1, most), domain=pyo.Integers)
        m.period = pyo.Var(bounds=(period / unit, period / unit))
        m.value = pyo.Var(bounds=(max(0, self.guide.bound or 0) / unit, None))
        m.rows = pyo.ConstraintList()
        m.rows.add(m.period >= period / unit)
        for row in [*pattern.rows, *(pattern.spans(0) if self.span else ())]:
            body = sum(f * m.start[c] for c, f in row.starts)
            body += sum(f * period / unit * m.turn[i] for i, f in row.turns)
            if row.value:
                body -= m.value
            m.rows.add(body + row.ticks / unit + row.periods * m.period <= 0)
        if not self.span:
            m.makespan = pyo.ConstraintList()
            for x, last in pattern.lasts():
                stop = m.start[pattern.column[x]] + pattern.duration(x) / unit
                m.makespan.add(stop + last * m.period - m.value <= 0)
        m.between = pyo.ConstraintList()
        for terms, limit in pattern.between_turns():
            if terms:
                m.between.add(sum(f * m.turn[i] for i, f in terms) <= limit)
            elif limit < 0:
                m.between.add(m.value <= -1)  # a task that alone is too large
        m.objective = pyo.Objective(expr=m.value)
        return m

    def shortest(self) -> int:
        """Shortest period, ticks; everything one after the other where none is found."""
        found = shortest_periods(self.pattern, self.options.search_s, self.options.even)
        return found[0][0] if found else self.pattern.serial()

    def decode(self, values: Values) -> Plan:
        """Round the turns, give every task its earliest start under them, and unroll."""
        pattern = self.pattern
        period = round(values["period"][None] * self.unit)
        turns = [round(values["turn"][i]) for i in range(pattern.num_turns)]
        worst = round(values["value"][None] * self.unit)
        for value in range(worst, worst + period + 1):
            rows = list(pattern.spans(value)) if self.span else []
            try:
                return pattern.plan(pattern.exact(turns, period, rows), period)
            except PeriodCycle as cycle:
                if not rows:
                    raise FormulationError(f"no pattern of period {period}: {cycle}") from None
        raise FormulationError(f"no pattern of period {period} and span {worst}")

    def encode(self, plan: Plan) -> Values | None:
        """Complete start from a plan that repeats itself with the model's period."""
        pattern, period, unit = self.pattern, self.period, self.unit
        starts = pattern.read(plan, period)
        if starts is None or max(starts) > period * pattern.most_periods():
            return None
        turns = [0] * pattern.num_turns
        for (x, y), index in pattern.turn.items():
            ahead = starts[pattern.column[y]] - starts[pattern.column[x]]
            turns[index] = ahead // period - (ahead % period < pattern.duration(x))
        try:
            pattern.exact(turns, period)
        except PeriodCycle:
            return None
        value = max(pattern.value(starts, period), round(self.m.value.lb * unit))
        return {
            "start": {i: ticks / unit for i, ticks in enumerate(starts)},
            "turn": dict(enumerate(turns)),
            "period": {None: period / unit},
            "value": {None: value / unit},
        }


FORMULATION = PipelinePeriod(_Builder)
