r"""Resharding: who sends each slice, and when; by slots of time where few suffice, else by order.

Letters: slice i with senders s, p(i,s) the time of its delivery, port q (a card that sends, or one
that receives).

``slots`` (time-indexed): x[i,s,t], the delivery of i by s begins at slot t; slots are as long as
the common divisor of all p.

===========  ====================================================================================
``once``     sum_s,t x[i,s,t] = 1
``turn``     sum of x[i,s,t'] that hold port q during slot t <= 1
``finish``   sum_s,t (t + p(i,s)) x[i,s,t] <= value
``work``     sum_i,s,t p(i,s) x[i,s,t] over deliveries that hold port q <= value
===========  ====================================================================================

``order`` (disjunctive): y[i,s], i is sent by s; begin[i]; first[i,j], i goes before j.

===========  ====================================================================================
``once``     sum_s y[i,s] = 1
``finish``   begin[i] + sum_s p(i,s) y[i,s] <= value
``work``     sum p(i,s) y[i,s] over deliveries that hold port q <= value
``before``   begin[i] + p(i) <= begin[j] + H (1 - first[i,j])      i, j have a receiver in common
``after``    begin[j] + p(j) <= begin[i] + H first[i,j]
``before``   begin[i] + p(i,s) <= begin[j] + H (3 - first[i,j] - y[i,s] - y[j,s])     only sender s
``after``    begin[j] + p(j,s) <= begin[i] + H (2 + first[i,j] - y[i,s] - y[j,s])     in common
===========  ====================================================================================

The objective is value. H is the cutoff, or the time of all deliveries one after the other. Slots
lose nothing: where no delivery can start earlier, each starts at a sum of lengths.

Source: Zhuang et al., arXiv 2211.05322, section 3 (the problem); the models are this project's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import comb, gcd
from typing import Any, Literal

import pyomo.environ as pyo

from milp_plan.api import (
    BuilderFormulation,
    Card,
    Guide,
    Objective,
    Scale,
    Values,
    coarser,
    column_values,
)
from milp_plan.kinds.resharding import problem as resharding

NAME = "resharding"
UNITS = 100_000
"""Units of time that a horizon has at most in the model by order."""


@dataclass(frozen=True)
class Switches:
    """Switches of the formulation."""

    times: Literal["auto", "slots", "order"] = field(
        default="auto", metadata={"help": "time by slots, by order, or slots where they are few"}
    )
    entries: int = field(
        default=200_000,
        metadata={"help": "most entries of the matrix of a model by slots", "least": 0},
    )
    pairs: int = field(
        default=50_000, metadata={"help": "most pairs of slices of a model by order", "least": 0}
    )


class Resharding(BuilderFormulation):
    """Both models of one problem."""

    card = Card(
        name=NAME,
        title="Slices between hosts: senders and times, by slots or by order",
        source="Zhuang et al., arXiv 2211.05322, section 3; this project",
        objectives=(Objective.MAKESPAN,),
        exact=True,
    )
    handles = resharding.ReshardingProblem
    Options = Switches

    def unsupported(self, problem: Any, options: Switches) -> str | None:
        """Slices that somebody has."""
        if not isinstance(problem, resharding.ReshardingProblem):
            return "it is for problems of resharding"
        if not problem.slices:
            return "there is nothing to deliver"
        lost = [entry.name for entry in problem.slices if not entry.senders]
        if lost:
            return f"nobody has the slice {lost[0]!r}"
        entries = _entries(problem, None)
        if options.times == "slots" and entries > options.entries:
            return f"slots need {entries} entries, the switch entries allows {options.entries}"
        count = len(problem.slices)
        if (
            options.times != "slots"
            and entries > options.entries
            and comb(count, 2) > options.pairs
        ):
            return f"{count} slices are too many pairs, the switch pairs allows {options.pairs}"
        return None


def _time(problem: resharding.ReshardingProblem, cutoff: int | None) -> tuple[int, int]:
    """Common divisor of all lengths, and the horizon: one after the other, at most the cutoff."""
    lengths = [[problem.ticks(entry, s) for s in entry.senders] for entry in problem.slices]
    serial = sum(map(max, lengths))
    grain = gcd(*(ticks for row in lengths for ticks in row))
    return grain, serial if cutoff is None else min(serial, cutoff)


def _entries(problem: resharding.ReshardingProblem, cutoff: int | None) -> int:
    """Entries of the matrix of a model by slots, about."""
    grain, end = _time(problem, cutoff)
    held = (
        problem.ticks(entry, s) // grain * (1 + len(entry.receivers))
        for entry in problem.slices
        for s in entry.senders
    )
    return sum(held) * (end // grain)


class _Builder:
    """One model, and what decoding needs."""

    def __init__(
        self, problem: resharding.ReshardingProblem, options: Switches, guide: Guide
    ) -> None:
        self.problem = problem
        self.slices = problem.slices
        self.ticks = {
            (i, s): problem.ticks(entry, s)
            for i, entry in enumerate(self.slices)
            for s in entry.senders
        }
        self.grain, self.end = _time(problem, guide.cutoff)
        self.low = guide.bound or 0
        few = _entries(problem, guide.cutoff) <= options.entries
        self.by_slots = options.times == "slots" or (options.times == "auto" and few)
        self.unit = self.grain if self.by_slots else coarser(self.grain, self.end, UNITS)
        self.scale = Scale(float(self.unit), self.grain)

    @cached_property
    def holders(self) -> dict[tuple[str, str], list[tuple[int, str]]]:
        """Deliveries that may hold each port."""
        found: dict[tuple[str, str], list[tuple[int, str]]] = {}
        for i, s in self.ticks:
            for port in (("send", s), *(("receive", r) for r in self.slices[i].receivers)):
                found.setdefault(port, []).append((i, s))
        return found

    def length(self, i: int, s: str) -> float:
        """Units of a delivery."""
        return self.ticks[i, s] / self.unit

    def build(self) -> Any:
        self.m = m = pyo.ConcreteModel()
        top = self.end // self.grain * self.grain
        m.value = pyo.Var(bounds=(min(self.low, top) / self.unit, top / self.unit))
        m.goal = pyo.Objective(expr=m.value)
        for family in ("once", "turn", "finish", "work", "before", "after"):
            m.add_component(family, pyo.ConstraintList())
        if self.by_slots:
            self.slots()
        else:
            self.order()
        return m

    def slots(self) -> None:
        m = self.m
        last = self.end // self.grain
        lengths = {key: ticks // self.grain for key, ticks in self.ticks.items()}
        index = [(i, s, t) for (i, s), long in lengths.items() for t in range(last - long + 1)]
        m.x = pyo.Var(index, domain=pyo.Binary)
        of: dict[int, list[tuple[int, str, int]]] = {}
        for key in index:
            of.setdefault(key[0], []).append(key)
        for i in range(len(self.slices)):
            keys = of.get(i, [])
            if not keys:  # too long for the horizon
                m.once.add(m.value >= last + 1)
                continue
            m.once.add(pyo.quicksum(m.x[key] for key in keys) == 1)
            stop = pyo.quicksum((t + lengths[i, s]) * m.x[i, s, t] for _, s, t in keys)
            m.finish.add(stop <= m.value)
        for held in self.holders.values():
            starts = [(i, s, t) for i, s in held for t in range(last - lengths[i, s] + 1)]
            m.work.add(pyo.quicksum(lengths[i, s] * m.x[i, s, t] for i, s, t in starts) <= m.value)
            for slot in range(last):
                busy = [
                    m.x[i, s, t]
                    for i, s in held
                    for t in range(
                        max(0, slot - lengths[i, s] + 1), min(slot, last - lengths[i, s]) + 1
                    )
                ]
                if len(busy) > 1:
                    m.turn.add(pyo.quicksum(busy) <= 1)

    def order(self) -> None:
        m, horizon = self.m, self.end / self.unit
        m.y = pyo.Var(list(self.ticks), domain=pyo.Binary)
        m.begin = pyo.Var(range(len(self.slices)), bounds=(0, horizon))
        m.first = pyo.Var(list(self.pairs()), domain=pyo.Binary)
        long = {}
        for i, entry in enumerate(self.slices):
            m.once.add(pyo.quicksum(m.y[i, s] for s in entry.senders) == 1)
            long[i] = pyo.quicksum(self.length(i, s) * m.y[i, s] for s in entry.senders)
            m.finish.add(m.begin[i] + long[i] <= m.value)
        for held in self.holders.values():
            m.work.add(pyo.quicksum(self.length(i, s) * m.y[i, s] for i, s in held) <= m.value)
        for i, j in self.pairs():
            one, two = self.slices[i], self.slices[j]
            if set(one.receivers) & set(two.receivers):
                first = m.first[i, j]
                m.before.add(m.begin[i] + long[i] <= m.begin[j] + horizon * (1 - first))
                m.after.add(m.begin[j] + long[j] <= m.begin[i] + horizon * first)
                continue
            for s in sorted(set(one.senders) & set(two.senders)):
                apart = 2 - m.y[i, s] - m.y[j, s]
                first = m.first[i, j]
                m.before.add(
                    m.begin[i] + self.length(i, s) <= m.begin[j] + horizon * (1 - first + apart)
                )
                m.after.add(
                    m.begin[j] + self.length(j, s) <= m.begin[i] + horizon * (first + apart)
                )

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Slices that may not be on their way at a time, or not by every sender."""
        for (i, one), (j, two) in combinations(enumerate(self.slices), 2):
            if set(one.receivers) & set(two.receivers) or set(one.senders) & set(two.senders):
                yield i, j

    def decode(self, values: Values) -> resharding.ReshardingPlan:
        """Take senders and order; each delivery starts as soon as its ports are free."""
        if self.by_slots:
            chosen = sorted(
                (float(t), i, s) for (i, s, t), bit in values.get("x", {}).items() if bit > 0.5
            )
        else:
            senders = {i: s for (i, s), bit in values["y"].items() if bit > 0.5}
            chosen = sorted(
                (values["begin"][i] + self.length(i, s) / 2, i, s) for i, s in senders.items()
            )
        free: dict[tuple[str, str], int] = {}
        deliveries = []
        for _, i, s in chosen:
            entry = self.slices[i]
            ports = [("send", s), *(("receive", r) for r in entry.receivers)]
            start = max(free.get(port, 0) for port in ports)
            stop = start + self.ticks[i, s]
            free.update(dict.fromkeys(ports, stop))
            deliveries.append(resharding.Delivery(entry.name, s, start, stop))
        return resharding.ReshardingPlan(
            self.problem.name, tuple(deliveries), self.problem.fingerprint, planner=NAME
        )

    def encode(self, plan: resharding.ReshardingPlan) -> Values | None:
        """Complete start from a valid plan; ``None`` if it ends after the horizon."""
        m, number = self.m, {entry.name: i for i, entry in enumerate(self.slices)}
        free: dict[tuple[str, str], int] = {}
        begins: dict[int, tuple[int, str]] = {}
        for entry in sorted(plan.deliveries, key=lambda entry: (entry.start, entry.slice)):
            i, s = number[entry.slice], entry.sender
            ports = [("send", s), *(("receive", r) for r in self.slices[i].receivers)]
            begin = max(free.get(port, 0) for port in ports)
            begins[i] = begin, s
            free.update(dict.fromkeys(ports, begin + self.ticks[i, s]))
        end = max(free.values())
        if end > self.end:
            return None
        for column in m.component_data_objects(pyo.Var):
            column.set_value(0, skip_validation=True)
        for i, (begin, s) in begins.items():
            if self.by_slots:
                m.x[i, s, begin // self.grain].set_value(1)
            else:
                m.y[i, s].set_value(1)
                m.begin[i].set_value(begin / self.unit)
        for i, j in () if self.by_slots else self.pairs():
            m.first[i, j].set_value(int(begins[i][0] < begins[j][0]))
        m.value.set_value(max(end, min(self.low, self.end)) / self.unit)
        return column_values(m)


FORMULATION = Resharding(_Builder)
