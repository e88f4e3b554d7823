r"""Time-indexed model of a pipeline, aggregated over micro-batches: how many have started by when.

Micro-batches that take the same way are identical, so a plan is how many tasks of each kind k have
started by each tick t, S[k](t). Letters: d duration, n number of micro-batches; m machine; T
horizon; g the largest number that divides all durations and lags for the makespan, 1 for the span
(whose least value need not be a multiple of it). Times are multiples of g.

==============  ==================================================================================
``order``       S[k](t) <= S[k](t + g)
``window``      S[k](t) = 0 before the head of k, n[k] from T - tail - d[k] on (no columns there)
``precedence``  S[b](t) <= S[a](t - d[a] - lag)
``exclusion``   sum over the kinds of m of S[k](t) - S[k](t - d[k]) <= 1
``memory``      sum over the kinds of m of alloc S[k](t) - free S[k](t - d[k]) <= limit of m
``finish``      n[k] unfinished(t) >= n[k] - S[k](t - d[k] - tail)           (makespan)
``begin``       begun(m, t) >= begun(m, t - g), running(m, t), S[k](t) / n[k] (span)
``end``         unfinished(m, t) >= unfinished(m, t + g), running(m, t), and
                1 - S[k](t - d[k]) / n[k]                                     (span)
``cover``       begun(m, t) + unfinished(m, t) >= 1                           (span)
``span``        span >= g sum over t of begun(m, t) + unfinished(m, t) - 1
==============  ==================================================================================

Here ``running(m, t)`` is the left side of ``exclusion``. No big-M, no index of micro-batches, few
entries per row. Source: Sousa and Wolsey (1992) for the time-indexed formulation; counting over
identical micro-batches is this project's, with the proofs in :mod:`milp_plan.kinds.pipeline.slots`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from milp_plan.api import (
    BuilderFormulation,
    Card,
    CompiledModel,
    Guide,
    Objective,
    Plan,
    PlanningProblem,
    Scale,
    SlotRows,
    Values,
    suited,
)
from milp_plan.kinds.pipeline.reading import read_shop
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.span import best_times
from milp_plan.kinds.pipeline.timing import value_of, words_of

Ints = NDArray[np.int64]

PLANNER = "pipeline_slots"


@dataclass(frozen=True)
class Switches:
    """Switches of the formulation."""

    columns: int = field(
        default=200_000, metadata={"help": "refuse problems with more columns than this"}
    )


class PipelineSlots(BuilderFormulation):
    """How many tasks of each kind have started by when."""

    card = Card(
        name="pipeline_slots",
        title="Time-indexed counts of started tasks, for pipelines with few ticks",
        source="this project; Sousa and Wolsey 1992",
        objectives=(Objective.MAKESPAN, Objective.SPAN),
        exact=True,
    )
    handles = PlanningProblem
    Options = Switches

    def unsupported(self, problem: PlanningProblem, options: Switches) -> str | None:
        """Shops whose tasks all take time, and whose horizon has few enough ticks."""
        shop = read_shop(problem)
        if not isinstance(shop, Shop):
            return shop
        instant = [kind.name for kind in shop.kinds if not kind.duration]
        if instant:
            return f"{instant[0]} lasts no time: counts do not say on which side of a task it runs"
        needed = len(shop.kinds) * serial(shop) // _grain(shop)
        if needed > options.columns:
            return f"needs about {needed} columns, the switch columns allows {options.columns}"
        return None

    def encode(
        self, problem: PlanningProblem, options: Switches, model: CompiledModel, plan: Plan
    ) -> Values | None:
        """Complete start from a valid plan; ``None`` if it does not fit into the horizon."""
        shop = suited(read_shop(problem), problem.name)
        for starts in (
            _starts(shop, plan),
            best_times(shop, words_of(shop, plan)),
        ):
            values = _values(shop, model, starts)
            if model.violation(model.vector(values))[0] <= 1e-6:
                return values
        return None


def serial(shop: Shop) -> int:
    """Ticks within which some best plan fits.

    Under given words times are longest paths; each passes a task and an arc at most once, and the
    arcs that keep a span short only go back.
    """
    lags = sum(lag * shop.kinds[a].count for a, _, lag in shop.arcs)
    return sum(shop.work) + lags


def _grain(shop: Shop) -> int:
    """Ticks of which all times of some best plan are multiples."""
    return 1 if shop.objective is Objective.SPAN else shop.tick


def _starts(shop: Shop, plan: Plan) -> list[list[int]]:
    """Starts of a plan per kind, in order, moved back to a multiple of the grain.

    All lengths are multiples of it, so what did not overlap or come too early still does not.
    """
    grain = _grain(shop)
    begun = {run.operator: run.start_ns or 0 for run in plan.runs}
    sent = {(t.value, "->".join([*t.source, *t.target])): t.start_ns or 0 for t in plan.transfers}
    return [
        sorted(
            begun.get(member, sent.get((member, shop.machines[kind.machine]), 0)) // grain * grain
            for member in kind.members
        )
        for kind in shop.kinds
    ]


class _Builder:
    """One model, and what decoding needs."""

    def __init__(self, problem: PlanningProblem, _: Switches, guide: Guide) -> None:
        self.shop, self.guide = suited(read_shop(problem), problem.name), guide
        self.grain = _grain(self.shop)
        self.scale = Scale(1.0, self.grain)
        self.span = problem.objective is Objective.SPAN
        paths = (
            head + kind.duration + tail
            for kind, head, tail in zip(
                self.shop.kinds, self.shop.heads, self.shop.tails, strict=True
            )
        )
        self.low = max(0, *paths)
        horizon = serial(self.shop)
        if not self.span:
            self.low = max(self.low, -(-(guide.bound or 0) // self.grain) * self.grain)
            if guide.cutoff is not None:
                horizon = min(horizon, guide.cutoff // self.grain * self.grain)
        self.horizon = max(horizon, self.low)
        self.rows = SlotRows(self.shop, None, self.horizon, self.grain, merge=False)
        self.cost: dict[int, float] = {}

    def build(self) -> CompiledModel:
        if self.span:
            self.spans()
        else:
            self.makespan()
        model = self.rows.plans()
        cost, lower = np.zeros(model.num_columns), model.column_lower.copy()
        cost[list(self.cost)] = list(self.cost.values())
        if self.span:
            lower[-1] = float(self.guide.bound or 0)
        offset = 0.0 if self.span else float(self.low)
        return replace(model, cost=cost, offset=offset, column_lower=lower)

    # -- rows --------------------------------------------------------------------------------

    def makespan(self) -> None:
        """``finish``: the clock runs while anything is unfinished."""
        ticks = np.arange(self.low, self.horizon, self.grain)
        clock = self.rows.columns("unfinished", ticks.tolist())
        self.cost = dict.fromkeys(clock.tolist(), float(self.grain))
        for k, kind in enumerate(self.shop.kinds):
            done = ticks - kind.duration - self.shop.tails[k]
            rows = self.add("finish", np.full(len(ticks), -kind.count))
            self.term(rows, clock, -kind.count)
            self.term(rows, self.rows.started(k, done), -1, kind.count)

    def spans(self) -> None:
        """``begin``, ``end`` and ``span``: from the first start to the last stop of each device."""
        ticks = np.arange(0, self.horizon, self.grain)
        sums = []
        for device, kinds in enumerate(self.shop.on_machine[: self.shop.num_devices]):
            if not kinds:
                continue
            begun = self.rows.columns("begun", [(device, t) for t in ticks.tolist()])
            unfinished = self.rows.columns("unfinished", [(device, t) for t in ticks.tolist()])
            for family, earlier, later in (
                ("begin", begun[:-1], begun[1:]),
                ("end", unfinished[1:], unfinished[:-1]),
            ):
                rows = self.add(family, np.zeros(len(ticks) - 1, np.int64))
                self.term(rows, earlier, 1)
                self.term(rows, later, -1)
            rows = self.add("cover", np.full(len(ticks), -1))
            self.term(rows, begun, -1)
            self.term(rows, unfinished, -1)
            for k in kinds:
                kind = self.shop.kinds[k]
                rows = self.add("begin", np.zeros(len(ticks), np.int64))
                self.term(rows, begun, -kind.count)
                self.term(rows, self.rows.started(k, ticks), 1, kind.count)
                rows = self.add("end", np.full(len(ticks), -kind.count))
                self.term(rows, unfinished, -kind.count)
                ended = self.rows.started(k, ticks - kind.duration)
                self.term(rows, ended, -1, kind.count)
            for family, flags in (("begin", begun), ("end", unfinished)):
                rows = self.add(family, np.zeros(len(ticks), np.int64))
                self.term(rows, flags, -1)
                for k in kinds:
                    kind = self.shop.kinds[k]
                    self.term(rows, self.rows.started(k, ticks), 1, kind.count)
                    ended = self.rows.started(k, ticks - kind.duration)
                    self.term(rows, ended, -1, kind.count)
            sums.append((begun, unfinished))
        longest = self.rows.columns("span", [None], self.guide.cutoff or self.horizon)
        self.cost = {int(longest[0]): 1.0}
        for begun, unfinished in sums:
            row = self.add("span", np.array([self.grain * len(ticks)]))
            self.term(row, longest, -1)
            for columns in (begun, unfinished):
                self.term(np.repeat(row, len(columns)), columns, self.grain)

    def add(self, family: str, limits: Ints) -> Ints:
        return self.rows.rows.new(family, limits)

    def term(self, rows: Ints, columns: Ints, factor: int, count: int = 1) -> None:
        """Add columns to rows; where a column is that of ``share``, all ``count`` have started."""
        factors = np.full(len(rows), factor)
        self.rows.rows.add(rows, np.broadcast_to(columns, rows.shape), factors, count)

    # -- answers -----------------------------------------------------------------------------

    def decode(self, values: Values) -> Plan:
        """Round the counts, take the order of starts from them, and give it its exact times."""
        started = values.get("started", {})  # a tight horizon leaves no column
        starts: list[list[int]] = []
        for curve in self.rows.curves:
            kind = self.shop.kinds[curve.kind]
            row: list[int] = []
            for tick in curve.points.tolist():
                reached = round(started[kind.name, kind.route, tick])
                row += [tick] * (min(reached, kind.count) - len(row))
            assert curve.last is not None, "the makespan's clock gives every kind a latest start"
            starts.append(row + [curve.last] * (kind.count - len(row)))
        words: list[list[tuple[int, int]]] = [[] for _ in self.shop.machines]
        for k, row in enumerate(starts):
            words[self.shop.kinds[k].machine] += [(start, k) for start in row]
        best = best_times(self.shop, [[k for _, k in sorted(word)] for word in words])
        return self.shop.plan(best, PLANNER)


def _values(shop: Shop, model: CompiledModel, starts: list[list[int]]) -> Values:
    """Values of every column under exact starts."""
    rows = {
        (kind.name, kind.route): np.array(row) for kind, row in zip(shop.kinds, starts, strict=True)
    }
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for kind, row in zip(shop.kinds, starts, strict=True):
        first[kind.machine] = min(first.get(kind.machine, row[0]), row[0])
        last[kind.machine] = max(last.get(kind.machine, 0), row[-1] + kind.duration)
    end = max(last.values())
    found: Values = {}
    index: Any
    for family, index in model.columns:
        value = 1.0
        if family == "started":
            name, route, tick = index
            value = float(np.searchsorted(rows[name, route], tick, "right"))
        elif family == "span":
            value = float(value_of(shop, starts))
        elif family == "begun":
            device, tick = index
            value = float(first[device] <= tick)
        elif family == "unfinished":
            stop, tick = (end, index) if isinstance(index, int) else (last[index[0]], index[1])
            value = float(stop > tick)
        found.setdefault(family, {})[index] = value
    return found


FORMULATION = PipelineSlots(_Builder)
