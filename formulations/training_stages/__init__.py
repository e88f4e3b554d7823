r"""Layers on the stages of a pipeline: integer counts per run, chunk and way of running.

Letters: chunks k, devices s, runs r of n[r] layers, ways w; x[k,r,w] layers; C[k,r] = layers of r
in chunks up to k; F, B, W, L forward, backward, weight and lane ticks of a device, T = F + B + W;
a, b, c, d the coefficients and the divisor of the fill; m micro-batches; q a set of micro-batches
that wait at once.

=============  ==================================================================================
``assign``     C[last,r] = n[r]
``order``      C[k,r] >= n[r] done[k,r];  C[k,r+1] <= n[r+1] done[k,r]
``fill``       fill[s] >= (a F + b B + c W)[s] / d, fill[s] >= 0 (equal where no coefficient is
               negative, and then no column)
``busiest``    most >= m T[s] - fill[s];  most >= m L[s] - fill[s] (where a way uses the lane)
``workspace``  x[k,r,w] <= n[r] used[s,r,w];  work[s] >= workspace of r, w times used[s,r,w]
``memory``     resident[s] + work[s] + sum over k of s of q[k] kept[k] <= limit[s]
=============  ==================================================================================

The objective is most + sum of fill[s]. Source: this project; the step is the closed form of
Narayanan et al., arXiv 2104.04473, and Qi et al., arXiv 2401.10241, with unequal stages.
"""

from __future__ import annotations

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
    at_most,
    coarser,
    column_values,
    training_stages,
)

NAME = "training_stages"

UNITS = 1_000_000
"""Units of time that a step has at most."""

ROOM = 10_000
"""Units of memory of a device: a byte of a large one is still more than a solver's tolerance."""

TIMES = ("forward", "backward", "weight", "lane")
SIZES = ("kept", "resident", "workspace")


class TrainingStages(BuilderFormulation):
    """Counts as integers, the closed form of the schedule as rows."""

    card = Card(
        name=NAME,
        title="Layers of each run on each chunk, and what recomputes, at given degrees",
        source="this project; steps after arXiv 2104.04473 and arXiv 2401.10241",
        objectives=(Objective.MAKESPAN,),
        exact=True,
    )
    handles = training_stages.TrainingStagesProblem

    def unsupported(self, problem: Any, options: Any) -> str | None:
        """Every problem of layers on stages is for it."""
        if not isinstance(problem, training_stages.TrainingStagesProblem):
            return "it is for problems of layers on stages"
        return None


class _Builder:
    """One model, and what its decoding and its start need."""

    def __init__(
        self, problem: training_stages.TrainingStagesProblem, _: Any, guide: Guide
    ) -> None:
        self.problem, self.guide = problem, guide
        loads = [load for run in problem.runs for row in run.ways for load in row]
        loads += [chunk.beside for chunk in problem.chunks]
        worst = sum(
            run.count * max(max(load.time, load.lane) for row in run.ways for load in row)
            for run in problem.runs
        )
        worst += sum(max(chunk.beside.time, chunk.beside.lane) for chunk in problem.chunks)
        grain = gcd(*(getattr(load, name) for load in loads for name in TIMES)) or 1
        self.unit = coarser(grain, worst * problem.micro_batches, UNITS)
        self.scale = Scale(self.unit, grain=1 if problem.fill.divisor > 1 else grain)
        sizes = [getattr(load, name) for load in loads for name in SIZES]
        self.byte = gcd(*sizes) or 1

    def build(self) -> pyo.ConcreteModel:
        problem = self.problem
        self.m = m = pyo.ConcreteModel(NAME)
        every = range(len(problem.chunks)), range(len(problem.runs)), range(len(problem.ways))
        m.layers = pyo.Var(
            *every,
            domain=pyo.NonNegativeIntegers,
            bounds=lambda _, k, r, w: (0, problem.runs[r].count),  # noqa: ARG005
        )
        m.most = pyo.Var(domain=pyo.NonNegativeReals)
        m.rows = pyo.ConstraintList()
        self.assign(*every[:2])
        self.goal()
        self.memory()
        return m

    def assign(self, chunks: range, runs: range) -> None:
        """Every layer is in one chunk, and runs are in order."""
        m, problem = self.m, self.problem
        m.done = pyo.Var(chunks[:-1], runs[:-1], domain=pyo.Binary)
        for r, run in enumerate(problem.runs):
            total: Any = 0
            for k in chunks:
                total += sum(m.layers[k, r, w] for w in range(len(problem.ways)))
                if k == chunks[-1]:
                    m.rows.add(total == run.count)
                    break
                if r < runs[-1]:
                    m.rows.add(total >= run.count * m.done[k, r])
                if r:
                    m.rows.add(total <= run.count * m.done[k, r - 1])

    def amount(self, chunk: int, name: str) -> Any:
        """Return what a chunk takes of something, as an expression."""
        problem = self.problem
        terms = (
            getattr(load, name) * self.m.layers[chunk, r, w]
            for r, run in enumerate(problem.runs)
            for w, load in enumerate(run.ways[problem.devices[problem.chunks[chunk].device].kind])
            if getattr(load, name)
        )
        return sum(terms, getattr(problem.chunks[chunk].beside, name))

    def goal(self) -> None:
        """Fill of every device, and the busiest one."""
        m, problem, fill = self.m, self.problem, self.problem.fill
        each = range(len(problem.devices))
        cut = min(fill.forward, fill.backward, fill.weight) < 0
        m.fill = pyo.Var(each if cut else (), domain=pyo.NonNegativeReals)
        self.fills: dict[int, Any] = {}
        for s in each:
            forward, backward, weight, lane = (
                sum(self.amount(k, name) for k in problem.chunks_of[s]) for name in TIMES
            )
            own = fill.times(forward, backward, weight) / fill.divisor / self.unit
            if cut:
                at_most(m.rows, own, m.fill[s])
            self.fills[s] = m.fill[s] if cut else own
            count = problem.micro_batches / self.unit
            at_most(m.rows, count * (forward + backward + weight) - self.fills[s], m.most)
            if not isinstance(lane, int) or lane:
                at_most(m.rows, count * lane - self.fills[s], m.most)
        total = m.most + sum(self.fills.values())
        m.objective = pyo.Objective(expr=total)
        if self.guide.cutoff is not None:
            m.rows.add(total <= self.guide.cutoff / self.unit * (1 + 1e-9))

    def memory_unit(self, limit: int) -> float:
        """Return the bytes of a unit in the rows of a device with this limit."""
        return max(self.byte, limit / ROOM)

    def memory(self) -> None:
        """Bytes of every device with a limit, for each set of micro-batches that wait at once."""
        m, problem = self.m, self.problem
        limited = [s for s, device in enumerate(problem.devices) if device.limit is not None]
        m.work = pyo.Var(limited, domain=pyo.NonNegativeReals)
        m.used = pyo.Var(pyo.Any, domain=pyo.Binary, dense=False)
        for s in limited:
            device = problem.devices[s]
            assert device.limit is not None
            unit = self.memory_unit(device.limit)
            room = (device.limit // self.byte + 0.5) * self.byte / unit
            base = max(problem.chunks[k].beside.workspace for k in problem.chunks_of[s])
            m.rows.add(m.work[s] >= base / unit)
            for r, run in enumerate(problem.runs):
                for w, load in enumerate(run.ways[device.kind]):
                    if load.workspace > base:
                        used = m.used[s, r, w]
                        layers = sum(m.layers[k, r, w] for k in problem.chunks_of[s])
                        m.rows.add(layers <= run.count * used)
                        m.rows.add(m.work[s] >= load.workspace / unit * used)
            resident = sum(self.amount(k, "resident") for k in problem.chunks_of[s])
            for row in device.waiting:
                waits = zip(row, problem.chunks_of[s], strict=True)
                kept = sum(n * self.amount(k, "kept") for n, k in waits if n)
                at_most(m.rows, m.work[s] + (resident + kept) / unit, room)

    def decode(self, values: Values) -> training_stages.TrainingStagesPlan:
        """Round the counts; the value is computed in integers."""
        problem, layers = self.problem, values["layers"]
        counts = tuple(
            tuple(
                tuple(round(layers[k, r, w]) for w in range(len(problem.ways)))
                for r in range(len(problem.runs))
            )
            for k in range(len(problem.chunks))
        )
        value = training_stages.step_of(problem, counts)
        return training_stages.TrainingStagesPlan(
            problem.name, counts, problem.fingerprint, value, NAME
        )

    def encode(self, plan: training_stages.TrainingStagesPlan) -> Values | None:
        """Return the start that a plan is."""
        m, problem = self.m, self.problem
        if self.guide.cutoff is not None and training_stages.step_of(problem, plan.counts) > (
            self.guide.cutoff
        ):
            return None
        for (k, r, w), column in m.layers.items():
            column.set_value(plan.counts[k][r][w])
        for (k, r), column in m.done.items():
            before = sum(sum(chunk[r]) for chunk in plan.counts[: k + 1])
            column.set_value(int(before == problem.runs[r].count))
        times = training_stages.times_of(problem, plan.counts)
        fill = problem.fill
        most = 0.0
        for s, row in enumerate(times):
            own = max(0, fill.times(*row[:3])) / fill.divisor
            if s in m.fill:
                m.fill[s].set_value(own / self.unit)
            most = max(most, problem.micro_batches * max(sum(row[:3]), row[3]) - own)
        m.most.set_value(most / self.unit)
        for s, column in m.work.items():
            device = problem.devices[s]
            assert device.limit is not None
            largest = max(problem.chunks[k].beside.workspace for k in problem.chunks_of[s])
            for r, run in enumerate(problem.runs):
                for w, load in enumerate(run.ways[device.kind]):
                    used = any(plan.counts[k][r][w] for k in problem.chunks_of[s])
                    largest = max(largest, load.workspace * used)
                    if (s, r, w) in m.used:
                        m.used[s, r, w].set_value(int(used))
            column.set_value(largest / self.memory_unit(device.limit))
        return column_values(m)


FORMULATION = TrainingStages(_Builder)
