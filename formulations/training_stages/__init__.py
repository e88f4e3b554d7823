r"""Layers on the stages of a pipeline: integer counts per run, chunk and way of running.

Letters: chunks k, devices s, runs r of n[r] layers, ways w; x[k,r,w] layers; C[k,r] = layers of r
in chunks up to k; F, B, W, L forward, backward, weight and lane ticks of a device, T = F + B + W;
a, b, c the coefficients of the fill; m micro-batches; q a set of micro-batches that wait at once.

=============  ==================================================================================
``assign``     C[last,r] = n[r]
``order``      C[k,r] >= n[r] done[k,r];  C[k,r+1] <= n[r+1] done[k,r]
``fill``       fill[s] >= (a F + b B + c W)[k] for each chunk k of s, fill[s] >= 0 (equal and no
               column where s has one chunk and no coefficient is negative)
``busiest``    most >= m T[s] - fill[s];  most >= m L[s] - fill[s] (where a way uses the lane)
``workspace``  sum of x[k,r,w] with workspace z <= n used[s,z], for each z above that beside layers
``memory``     resident[s] + z used[s,z] + sum over k of s of q[k] kept[k] <= limit[s]
=============  ==================================================================================

The objective is most + sum of fill[s]. A large limit of ``h U + l`` bytes takes two rows of smaller
numbers, ``high + carry <= h`` and ``low <= l + U carry``, so that a byte counts.

Source: this project; the step is the closed form of Narayanan et al., arXiv 2104.04473, and Qi et
al., arXiv 2401.10241, with unequal stages.
"""

from __future__ import annotations

from math import gcd
from typing import Any, NamedTuple

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
from milp_plan.kinds.training import stages_problem as training_stages

NAME = "training_stages"

UNITS = 1_000_000
"""Units of time that a step has at most."""

WHOLE = 1_000_000
"""Largest limit, in the sizes' common divisor, for which a row of memory is written as it is."""

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


class _Carry(NamedTuple):
    """Lower digits of a sum, which may carry over to the higher ones."""

    terms: list[tuple[Any, int]]
    base: int
    limit: int

    def least(self) -> int:
        """Return the least carry for the values that columns have."""
        total: int = sum(amount * round(column.value) for column, amount in self.terms)
        return max(0, -(-(total - self.limit) // self.base))


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
        self.scale = Scale(self.unit, grain=grain)
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
        cut = min(fill.forward, fill.backward, fill.weight) < 0
        free = [s for s, chunks in enumerate(problem.chunks_of) if cut or len(chunks) > 1]
        m.fill = pyo.Var(free, domain=pyo.NonNegativeReals)
        fills: list[Any] = []
        for s, chunks in enumerate(problem.chunks_of):
            parts = [[self.amount(k, name) for name in TIMES] for k in chunks]
            own = [fill.times(*part[:3]) / self.unit for part in parts]
            if s in m.fill:
                for each in own:
                    add_le(m.rows, each, m.fill[s])
            fills.append(m.fill[s] if s in m.fill else own[0])
            count = problem.micro_batches / self.unit
            busy = sum(sum(part[:3]) for part in parts)
            lane = sum(part[3] for part in parts)
            add_le(m.rows, count * busy - fills[s], m.most)
            if not isinstance(lane, int) or lane:
                add_le(m.rows, count * lane - fills[s], m.most)
        total = m.most + sum(fills)
        m.objective = pyo.Objective(expr=total)
        if self.guide.cutoff is not None:
            m.rows.add(total <= self.guide.cutoff / self.unit * (1 + 1e-9))

    def memory(self) -> None:
        """Bytes of every device with a limit, for each set of micro-batches that wait at once."""
        m, problem = self.m, self.problem
        m.used = pyo.Var(pyo.Any, domain=pyo.Binary, dense=False)
        m.carry = pyo.Var(pyo.Any, domain=pyo.NonNegativeIntegers, dense=False)
        self.carries: dict[Any, _Carry] = {}
        for s, device in enumerate(problem.devices):
            if device.limit is None:
                continue
            chunks, limit = problem.chunks_of[s], device.limit // self.byte
            beside = [problem.chunks[k].beside for k in chunks]
            base = max(load.workspace for load in beside)
            for size in (base, *self.workspaces(s, base)):
                if size > base:
                    some = [column for column, load in self.layers(s) if load.workspace == size]
                    m.rows.add(sum(some) <= problem.layers * m.used[s, size])
                for place, row in enumerate(device.waiting):
                    waits = dict(zip(chunks, row, strict=True))
                    fixed = sum(b.resident + n * b.kept for b, n in zip(beside, row, strict=True))
                    terms = [
                        (column, (load.resident + waits[column.index()[0]] * load.kept))
                        for column, load in self.layers(s)
                    ]
                    if size > base:
                        terms.append((m.used[s, size], size))
                    else:
                        fixed += base
                    units = [(column, amount // self.byte) for column, amount in terms]
                    self.fit((s, size, place), units, limit - fixed // self.byte)

    def layers(self, s: int) -> list[tuple[Any, training_stages.Load]]:
        """Return the columns of a device with what one layer takes."""
        kind = self.problem.devices[s].kind
        return [
            (self.m.layers[k, r, w], load)
            for k in self.problem.chunks_of[s]
            for r, run in enumerate(self.problem.runs)
            for w, load in enumerate(run.ways[kind])
        ]

    def workspaces(self, s: int, base: int) -> list[int]:
        """Return the workspaces that layers of a device may need beyond what is there anyway."""
        return sorted({load.workspace for _, load in self.layers(s) if load.workspace > base})

    def fit(self, key: Any, terms: list[tuple[Any, int]], limit: int) -> None:
        """Add that a sum of whole amounts is at most a limit, to the last of them."""
        m = self.m
        if limit <= WHOLE:
            add_le(m.rows, sum(amount * column for column, amount in terms if amount), limit + 0.5)
            return
        base = 1 << (limit.bit_length() + 1) // 2
        high = sum(amount // base * column for column, amount in terms if amount >= base)
        low = [(column, amount % base) for column, amount in terms if amount % base]
        self.carries[key] = _Carry(low, base, limit % base)
        add_le(m.rows, high + m.carry[key], limit // base + 0.5)
        add_le(m.rows, sum(n * c for c, n in low) - base * m.carry[key], limit % base + 0.5)

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
        most = 0
        for s, row in enumerate(training_stages.times_of(problem, plan.counts)):
            own = max(0, *(problem.fill.times(*part[:3]) for part in row))
            if s in m.fill:
                m.fill[s].set_value(own / self.unit)
            busy, lane = sum(sum(part[:3]) for part in row), sum(part[3] for part in row)
            most = max(most, problem.micro_batches * max(busy, lane) - own)
        m.most.set_value(most / self.unit)
        for (s, size), column in m.used.items():
            loads = self.layers(s)
            column.set_value(int(any(c.value for c, load in loads if load.workspace == size)))
        for key, carry in self.carries.items():
            m.carry[key].set_value(carry.least())
        return column_values(m)


FORMULATION = TrainingStages(_Builder)
