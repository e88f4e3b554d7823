r"""Which boundaries of a pipeline to cut under a budget, with 1F1B inside of chunks.

Letters: K stages k, M micro-batches m; f, b, a ticks of forward, backward and head; c transfer;
z[k] whether gradients stop behind k; e[k,d] whether the chunk of k ends d stages behind it; F, B
starts of forwards and backwards; w[k] = f[k] + a[k] z[k]; n = min(m + d, M - 1).

============  ===================================================================================
``budget``    sum of price[k] z[k] <= Q
``chunk``     e[k,0] = z[k] (1 for the last), sum over d of e[k,d] = 1, e[k,d] <= e[k+1,d-1]
``memory``    no e[k,d] where min(M, d + 1) micro-batches are more than k can hold
``forward``   F[k+1,m] >= F[k,m] + f[k] + c
``gradient``  B[k,m] >= B[k+1,m] + b[k+1] + c - L z[k]
``in_order``  F[k,m+1] >= F[k,m] + w[k], B[k,m+1] >= B[k,m] + b[k]
``ahead``     B[k,m] >= F[k,n] + w[k] - L (1 - e[k,d]); where no F[k,n] is left out:
              F[k,m+d+1] >= B[k,m] + b[k] - L (1 - e[k,d])
``finish``    B[k,M-1] + b[k] <= value
``work``      head of k + M (w[k] + b[k]) <= value
============  ===================================================================================

The objective is value. L is what the row can be short of: the latest start of what comes first,
which leaves room for all that its device still has to do before the horizon, less the earliest of
what comes next. Only z is binary; for given z the rest of e follows.

Source: Laskin et al., arXiv 2012.03837 (the method); the model is this project's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd
from typing import Any

import pyomo.environ as pyo

from milp_plan.api import (
    BuilderFormulation,
    Card,
    Guide,
    Objective,
    Scale,
    Values,
    add_le,
    coarser,
    column_values,
)
from milp_plan.kinds.local_updates import problem as local_updates
from milp_plan.kinds.local_updates.planners import plan_stops as step_stops

NAME = "local_updates"
UNITS = 100_000
"""Units of time that a horizon has at most."""


@dataclass(frozen=True)
class Switches:
    """Switches of the formulation."""

    rows: int = field(
        default=200_000,
        metadata={"help": "refuse problems whose model has more rows than this", "least": 0},
    )


class LocalUpdates(BuilderFormulation):
    """Cuts as binaries, times as longest paths."""

    card = Card(
        name=NAME,
        title="Boundaries behind which gradients stop, under a budget and with limited memory",
        source="Laskin et al., arXiv 2012.03837; this project",
        objectives=(Objective.MAKESPAN,),
        exact=True,
    )
    handles = local_updates.LocalUpdatesProblem
    Options = Switches

    def unsupported(self, problem: Any, options: Switches) -> str | None:
        """Problems whose model is not too large."""
        if not isinstance(problem, local_updates.LocalUpdatesProblem):
            return "it is for problems of local updates"
        stages = len(problem.stages)
        rows = problem.micro_batches * stages * (stages + 5)
        if rows > options.rows:
            return f"needs about {rows} rows, the switch rows allows {options.rows}"
        return None


class _Builder:
    """One model, and what decoding needs."""

    def __init__(
        self, problem: local_updates.LocalUpdatesProblem, options: Switches, guide: Guide
    ) -> None:
        self.problem, self.stages = problem, problem.stages
        self.last, self.batches = len(problem.stages) - 1, problem.micro_batches
        serial = problem.serial
        self.end = serial if guide.cutoff is None else min(serial, guide.cutoff)
        times = [t for s in self.stages for t in (s.forward, s.backward, s.head)]
        self.grain = gcd(*times, problem.transfer)
        self.unit = coarser(self.grain, self.end, UNITS)
        self.low = min(guide.bound or 0, self.end)
        self.scale = Scale(self.unit, self.grain)
        self.lag = problem.transfer / self.unit
        self.forward = [stage.forward / self.unit for stage in self.stages]
        self.backward = [stage.backward / self.unit for stage in self.stages]
        self.way = [0.0]
        for forward in self.forward:
            self.way.append(self.way[-1] + forward + self.lag)

    def build(self) -> Any:
        self.m = m = pyo.ConcreteModel()
        top = self.end / self.unit
        m.value = pyo.Var(bounds=(self.low / self.unit, top))
        m.goal = pyo.Objective(expr=m.value)
        m.z = pyo.Var(range(self.last), domain=pyo.Binary)
        ends = [(k, d) for k in range(self.last + 1) for d in range(self.last - k + 1)]
        m.e = pyo.Var(ends, bounds=(0, 1))
        tasks = [(k, i) for k in range(self.last + 1) for i in range(self.batches)]
        m.F = pyo.Var(tasks, bounds=lambda _, k, i: (self.soonest_forward(k, i), top))
        m.B = pyo.Var(tasks, bounds=lambda _, k, i: (self.soonest_backward(k, i), top))
        families = ("budget", "chunk", "forward", "gradient", "in_order", "ahead", "finish", "work")
        for family in families:
            m.add_component(family, pyo.ConstraintList())
        self.cuts()
        self.times()
        for k in range(self.last + 1):
            for d in range(self.last - k + 1):
                if self.problem.fits(k, k + d):
                    self.ahead(k, d)
                else:
                    m.e[k, d].setub(0)
        return m

    def head(self, k: int) -> Any:
        """Ticks of a forward and what follows it at once."""
        stage = self.stages[k]
        head = stage.head / self.unit * self.m.z[k] if k < self.last and stage.head else 0.0
        return self.forward[k] + head

    def soonest_forward(self, k: int, i: int) -> float:
        """Earliest start of a forward."""
        return self.way[k] + i * self.forward[k]

    def soonest_backward(self, k: int, i: int) -> float:
        """Earliest start of a backward: behind its own forward."""
        return self.soonest_forward(k, i) + self.forward[k] + i * self.backward[k]

    def latest_backward(self, k: int, i: int) -> float:
        """Latest start of a backward: it and those behind it stop by the horizon."""
        return self.end / self.unit - (self.batches - i) * self.backward[k]

    def cuts(self) -> None:
        """``budget`` and ``chunk``: where gradients stop, and how far off that is."""
        m = self.m
        if self.problem.budget is not None and self.last:
            prices = [(self.stages[k].price, m.z[k]) for k in range(self.last)]
            spent = sum(price * bit for price, bit in prices if price)
            add_le(m.budget, spent, self.problem.budget)
        for k in range(self.last + 1):
            m.chunk.add(m.e[k, 0] == (m.z[k] if k < self.last else 1))
            m.chunk.add(pyo.quicksum(m.e[k, d] for d in range(self.last - k + 1)) == 1)
            for d in range(1, self.last - k + 1):
                m.chunk.add(m.e[k, d] <= m.e[k + 1, d - 1])

    def times(self) -> None:
        """``forward``, ``gradient``, ``in_order``, ``finish`` and ``work``."""
        m, count = self.m, self.batches
        for k in range(self.last + 1):
            held = self.head(k)
            for i in range(count):
                if k < self.last:
                    m.forward.add(m.F[k + 1, i] >= m.F[k, i] + self.forward[k] + self.lag)
                    come = self.latest_backward(k + 1, i) + self.backward[k + 1] + self.lag
                    short = max(0.0, come - self.soonest_backward(k, i))
                    behind = m.B[k + 1, i] + self.backward[k + 1] + self.lag
                    m.gradient.add(m.B[k, i] >= behind - short * m.z[k])
                if i + 1 < count:
                    m.in_order.add(m.F[k, i + 1] >= m.F[k, i] + held)
                    m.in_order.add(m.B[k, i + 1] >= m.B[k, i] + self.backward[k])
            m.finish.add(m.B[k, count - 1] + self.backward[k] <= m.value)
            work = self.way[k] + count * (held + self.backward[k])
            m.work.add(work <= m.value)

    def ahead(self, k: int, d: int) -> None:
        """``ahead``: forwards and backwards of a device take turns."""
        m, count, held = self.m, self.batches, self.head(k)
        stage = self.stages[k]
        longest = (stage.forward + stage.head) / self.unit
        off = 1 - m.e[k, d]
        for i in range(count):
            n = min(i + d, count - 1)
            done = self.latest_backward(k, n)  # its own backward is still to come
            short = max(0.0, done + longest - self.soonest_backward(k, i))
            m.ahead.add(m.B[k, i] >= m.F[k, n] + held - short * off)
            if i + d + 1 < count:
                done = self.latest_backward(k, i) + self.backward[k]
                short = max(0.0, done - self.soonest_forward(k, i + d + 1))
                m.ahead.add(m.F[k, i + d + 1] >= m.B[k, i] + self.backward[k] - short * off)

    def decode(self, values: Values) -> local_updates.LocalUpdatesPlan:
        """Take the cuts; the law gives them their exact times."""
        bits = values.get("z", {})
        names = tuple(self.stages[k].name for k in range(self.last) if bits[k] > 0.5)
        problem = self.problem
        return local_updates.LocalUpdatesPlan(
            problem.name, names, problem.fingerprint, planner=NAME
        )

    def encode(self, plan: local_updates.LocalUpdatesPlan) -> Values | None:
        """Complete start from a valid plan; ``None`` if it ends after the horizon."""
        m, stops = self.m, step_stops(self.problem, plan)
        end = max(stops.values())
        if end > self.end:
            return None
        for k in range(self.last):
            m.z[k].set_value(int(self.stages[k].name in plan.cuts))
        for k in range(self.last + 1):
            cut = next((j for j in range(k, self.last) if m.z[j].value), self.last)
            for d in range(self.last - k + 1):
                m.e[k, d].set_value(int(d == cut - k), skip_validation=True)
            for i in range(self.batches):
                m.F[k, i].set_value((stops["F", k, i] - self.stages[k].forward) / self.unit)
                m.B[k, i].set_value((stops["B", k, i] - self.stages[k].backward) / self.unit)
        m.value.set_value(max(end, self.low) / self.unit)
        return column_values(m)


FORMULATION = LocalUpdates(_Builder)
