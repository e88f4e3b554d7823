r"""Smallest largest load of devices in a chain, transfers counted as work, as one MILP.

Letters: block b (classes that share a device in any case), stage s = 1..n (one per device, payers
and hosts in an order that the model finds), net e with pins b in e and a centre e0 among them.
y[b,s] says that b is in stage s or earlier; x[b,s] = y[b,s] - y[b,s-1] that it is in s.

==============  =================================================================================
``rising``      y[b,s-1] <= y[b,s];  y[b,n] = 1
``ordered``     y[b,s] <= y[a,s] for an arc from a to b
``hosts``       sum_s host[s] = number of hosts
``crossing``    crosses[e,s] >= x[b,s] - x[e0,s] - host[s] and >= x[e0,s] - x[b,s] - host[s]
``payer``       sum_b w_b x[b,s] + sum_e c_e crosses[e,s] <= load - (L - A) host[s], each pass
``host``        sum_b h_b x[b,s] <= load + P (1 - host[s]), each pass
``memory``      sum_b m_b x[b,s] <= M + (N - M) host[s]
``able``        x[b,s] <= 1 - host[s] where no host can run b in time, <= host[s] where no payer
``passes``      load of both passes <= bottleneck
==============  =================================================================================

L is a known bound, A the most payer work that one host can take within the cutoff, so a host's
stage has no more than A <= load - (L - A). P is the most host time of blocks that one payer can
take. Which y are 0 or 1 from the start follows from the cutoff (``chain_windows``).

Source: Tarnawski et al. (NeurIPS 2020), section 5.1.2, minimises the same load with a variable
per node and device and auxiliary variables for contiguity; prefixes in their place, hosts at an
unknown stage, and the windows are this project's.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import gcd
from typing import Any

import numpy as np
import pyomo.environ as pyo

from milp_plan.api import (
    BuilderFormulation,
    Card,
    Contiguity,
    FormulationError,
    Guide,
    Objective,
    Passes,
    Plan,
    PlanningProblem,
    Scale,
    Values,
    chain_windows,
    coarser,
    require_supported,
)
from milp_plan.kinds.placement.serial.graph import SerialGraph, read_serial
from milp_plan.kinds.placement.serial.order import chain_graph
from milp_plan.kinds.placement.serial.windows import most_within

Named = dict[Hashable, float]


class ContiguousLoad(BuilderFormulation):
    """The exact formulation of a bottleneck problem under the chain law."""

    card = Card(
        name="contiguous_load",
        title="Smallest largest load of a chain of devices that pay for transfers",
        source="this project; problem of Tarnawski et al. (NeurIPS 2020), section 5.1",
        objectives=(Objective.BOTTLENECK,),
        exact=True,
    )
    handles = PlanningProblem

    def unsupported(self, problem: PlanningProblem, options: Any) -> str | None:
        """Only bottleneck problems under the chain law are supported."""
        if problem.objective is not Objective.BOTTLENECK:
            return f"objective {problem.objective} is not bottleneck"
        if problem.serial is None:
            return "the problem is not under the serial law"
        if problem.serial.contiguity is not Contiguity.CHAIN:
            return f"contiguity {problem.serial.contiguity} is not chain: use max_load"
        graph = read_serial(problem)
        return graph if isinstance(graph, str) else None


def _units(graph: SerialGraph) -> tuple[float, int]:
    """Ticks per unit of the model, and ticks that all loads have in common."""
    ticks = [t for t in (*graph.work, *graph.host_work) if t is not None]
    ticks += [*graph.backward_work, *graph.backward_host_work, *(net.ticks for net in graph.nets)]
    grain = max(1, gcd(*ticks))
    return coarser(grain, sum(ticks), 1_000_000), grain


class _Builder:
    """One model under construction, and what encoding a plan into it needs."""

    def __init__(self, problem: PlanningProblem, _: Any, guide: Guide) -> None:
        self.graph = graph = require_supported(read_serial(problem), problem.name)
        self.guide = guide
        self.chain = chain_graph(graph)
        self.scale = Scale(*_units(graph))
        self.unit = self.scale.unit
        factor = float(self.chain.unit) / self.unit
        self.joint = graph.law.passes is Passes.JOINT
        self.work = _passes(self.chain.work * factor, self.joint)
        self.host_work = _passes(self.chain.host_work * factor, self.joint)
        self.cost = _passes(self.chain.cost * factor, self.joint)
        self.stages = range(len(graph.payers) + len(graph.hosts))
        most = float(self.work.sum() + self.host_work.sum() + 2 * self.cost.sum())
        cutoff = None if guide.cutoff is None else guide.cutoff / self.unit
        self.top = most if cutoff is None else cutoff
        self.cutoff = cutoff
        self.low = max(0, guide.bound or 0) / self.unit
        # One host can take so much payer work within the cutoff, and a payer so much host time.
        alone = self.chain.work.sum(axis=1), self.chain.host_work.sum(axis=1)
        room = self.top / factor if graph.hosts else 0.0
        taken = most_within(*alone, self.chain.on_host, room) if graph.hosts else 0.0
        self.hosted = taken * factor
        together = self.work.sum(axis=1), self.host_work.sum(axis=1)
        self.payable = most_within(together[1], together[0], self.chain.on_payer, self.top)
        self.windows = chain_windows(self.chain, self.top / factor)

    def build(self) -> pyo.ConcreteModel:
        self.m = pyo.ConcreteModel("contiguous_load")
        self.prefixes()
        self.rising()
        self.ordered()
        self.hosts()
        self.crossing()
        self.passes()
        self.payer()
        self.host()
        self.memory()
        self.able()
        self.m.objective = pyo.Objective(expr=self.m.bottleneck)
        return self.m

    def prefixes(self) -> None:
        """Columns y[b,s]; those that the windows decide are numbers."""
        m, last = self.m, len(self.stages) - 1
        m.contradiction = pyo.ConstraintList()
        self.decided = self.windows or [(0, last)] * len(self.chain)
        if self.windows is None:  # no plan within the cutoff, or none at all
            self.refuse()
        index = [(b, s) for b, (first, stop) in enumerate(self.decided) for s in range(first, stop)]
        m.prefix = pyo.Var(index, domain=pyo.Binary)

    def refuse(self) -> None:
        """Add a contradiction."""
        if not hasattr(self.m, "impossible"):
            self.m.impossible = pyo.Var(bounds=(0, 0))
            self.m.contradiction.add(self.m.impossible >= 1)

    def limit(self, rows: Any, expression: Any, most: float) -> None:
        """Add a row: at most so much; numbers that hold anyway are no rows."""
        if not isinstance(expression, float | int):
            rows.add(expression <= most)
        elif expression > most + 1e-9:
            self.refuse()

    def prefix(self, block: int, stage: int) -> Any:
        """y[b,s]: a column, or 0 before the window and 1 from its end on."""
        first, stop = self.decided[block]
        if stage < first:
            return 0.0
        return 1.0 if stage >= stop else self.m.prefix[block, stage]

    def at(self, block: int, stage: int) -> Any:
        """x[b,s]."""
        return self.prefix(block, stage) - self.prefix(block, stage - 1)

    def can_be(self, block: int, stage: int) -> bool:
        """Whether the window admits the stage."""
        return self.decided[block][0] <= stage <= self.decided[block][1]

    def rising(self) -> None:
        """Once in a prefix, always in it."""
        m = self.m
        m.rising = pyo.ConstraintList()
        for b, (first, stop) in enumerate(self.decided):
            for s in range(first + 1, stop):
                m.rising.add(m.prefix[b, s - 1] - m.prefix[b, s] <= 0)

    def ordered(self) -> None:
        """No arc goes back."""
        m = self.m
        m.ordered = pyo.ConstraintList()
        for b in range(len(self.chain)):
            for a in self.chain.before[b]:
                for s in self.stages:
                    self.limit(m.ordered, self.prefix(b, s) - self.prefix(a, s), 0.0)

    def hosts(self) -> None:
        """As many stages are hosts as there are hosts."""
        m = self.m
        m.host = pyo.Var(self.stages, domain=pyo.Binary)
        m.hosts = pyo.Constraint(expr=pyo.quicksum(m.host.values()) == len(self.graph.hosts))

    def crossing(self) -> None:
        """A payer with a part of a net, but not all of it, pays for it."""
        m = self.m
        index = []
        for e, pins in enumerate(self.chain.pins):
            for s in self.stages:
                if any(self.can_be(b, s) for b in pins):
                    index.append((e, s))
        m.crosses = pyo.Var(index, bounds=(0, 1))
        m.crossing = pyo.ConstraintList()
        for e, s in index:
            centre, *others = self.chain.pins[e]
            here = self.at(centre, s)
            for b in others:
                difference = self.at(b, s) - here
                column = m.crosses[e, s] + m.host[s]
                self.limit(m.crossing, difference - column, 0.0)
                self.limit(m.crossing, -difference - column, 0.0)

    def passes(self) -> None:
        """What counts: the largest load of both passes together, or the sum of two largest."""
        m = self.m
        turns = range(1 if self.joint else 2)
        m.largest = pyo.Var(turns, bounds=(0, None))
        m.bottleneck = pyo.Var(bounds=(self.low, self.cutoff))
        m.passes = pyo.Constraint(expr=pyo.quicksum(m.largest.values()) - m.bottleneck <= 0)

    def work_at(self, table: Any, turn: int, stage: int) -> Any:
        """Sum of a table over the blocks of a stage."""
        return pyo.quicksum(
            float(table[b, turn]) * self.at(b, stage)
            for b in range(len(self.chain))
            if table[b, turn] and self.can_be(b, stage)
        )

    def payer(self) -> None:
        """No payer has more to do than the largest load of a pass."""
        m = self.m
        m.payer = pyo.ConstraintList()
        spare = max(0.0, self.low - self.hosted) if self.joint else 0.0
        hidden = 0.0 if spare else self.hosted
        for turn in m.largest:
            for s in self.stages:
                paid = pyo.quicksum(
                    float(self.cost[e, turn]) * m.crosses[e, s]
                    for e in range(len(self.cost))
                    if self.cost[e, turn] and (e, s) in m.crosses
                )
                busy = self.work_at(self.work, turn, s) + paid
                self.limit(m.payer, busy - m.largest[turn] - (hidden - spare) * m.host[s], 0.0)

    def host(self) -> None:
        """No host has more to do than the largest load of a pass."""
        m = self.m
        m.busy_host = pyo.ConstraintList()
        for turn in m.largest if self.graph.hosts else ():
            for s in self.stages:
                busy = self.work_at(self.host_work, turn, s)
                self.limit(
                    m.busy_host, busy - m.largest[turn] + self.payable * m.host[s], self.payable
                )

    def memory(self) -> None:
        """What lies on a device fits."""
        m, total = self.m, sum(self.chain.size)
        m.memory = pyo.ConstraintList()
        payer = total if self.graph.memory is None else self.graph.memory
        host = total if self.graph.host_memory is None else self.graph.host_memory
        payer, host = min(payer, total), min(host, total)
        unit = max(1, total) / 1e4
        if min(payer, host) >= total:
            return
        for s in self.stages:
            held = pyo.quicksum(
                size / unit * self.at(b, s)
                for b, size in enumerate(self.chain.size)
                if size and self.can_be(b, s)
            )
            self.limit(m.memory, held - (host - payer) / unit * m.host[s], payer / unit)

    def able(self) -> None:
        """Blocks stay away from devices that cannot run them within the cutoff."""
        m, edge = self.m, self.top * (1 + 1e-9)
        m.able = pyo.ConstraintList()
        here, there = self.work.sum(axis=1), self.host_work.sum(axis=1)
        for b in range(len(self.chain)):
            for s in self.stages:
                if not self.can_be(b, s):
                    continue
                if not self.chain.on_host[b] or there[b] > edge:
                    self.limit(m.able, self.at(b, s) + m.host[s], 1.0)
                if not self.chain.on_payer[b] or here[b] > edge:
                    self.limit(m.able, self.at(b, s) - m.host[s], 0.0)

    # -- start -------------------------------------------------------------------------------

    def decode(self, values: Values) -> Plan:
        """Read stages from the prefixes, hosts from their flags."""
        graph, count = self.graph, len(self.graph.payers)
        flags = [values["host"].get(s, 0.0) > 0.5 for s in self.stages]
        if sum(flags) != len(graph.hosts):
            raise FormulationError("contiguous_load: the hosts have no stages")
        device = [count + sum(flags[:s]) if flags[s] else s - sum(flags[:s]) for s in self.stages]
        if self.windows is None:
            raise FormulationError("contiguous_load: no stages are left, yet there is a solution")
        prefix = values.get("prefix", {})
        chosen = [
            next((s for s in range(first, stop) if prefix.get((b, s), 0.0) > 0.5), stop)
            for b, (first, stop) in enumerate(self.windows)
        ]
        return graph.plan(self.chain.places([device[stage] for stage in chosen]))

    def encode(self, plan: Plan) -> Values | None:
        """Values of every column under a valid plan; ``None`` if it is above the cutoff."""
        graph, chain = self.graph, self.chain
        places = graph.places(plan)
        order = self.device_order(chain.devices(places))
        count, hosts = len(graph.payers), len(graph.hosts)
        idle = [d for d in range(count + hosts) if d not in order]
        stage_of = {device: s for s, device in enumerate([*order, *idle])}
        flags: Named = {s: float(device >= count) for device, s in stage_of.items()}
        stage = [stage_of[device] for device in chain.devices(places)]
        prefix: Named = {(b, s): float(stage[b] <= s) for b, s in self.m.prefix}
        crosses: Named = {}
        for e, s in self.m.crosses:
            inside = sum(stage[b] == s for b in chain.pins[e])
            crosses[e, s] = float(0 < inside < len(chain.pins[e]) and not flags[s])
        loads = self.loads(stage, flags, crosses)
        value = sum(loads.values())
        if hasattr(self.m, "impossible") or (
            self.cutoff is not None and value > self.cutoff + 1e-9 * value
        ):
            return None
        bottleneck = max(self.low, value)
        return {
            "prefix": prefix,
            "host": flags,
            "crosses": crosses,
            "largest": loads,
            "bottleneck": {None: bottleneck},
        }

    def device_order(self, devices: Sequence[int]) -> list[int]:
        """Devices that run anything, in an order in which no arc goes back."""
        needs: dict[int, set[int]] = {device: set() for device in devices}
        for b, earlier in enumerate(self.chain.before):
            needs[devices[b]] |= {devices[a] for a in earlier} - {devices[b]}
        order: list[int] = []
        while len(order) < len(needs):
            ready = [d for d in sorted(needs) if d not in order and needs[d] <= set(order)]
            assert ready, "the plan does not keep the chain law"
            order.append(ready[0])
        return order

    def loads(self, stage: Sequence[int], flags: Named, crosses: Named) -> Named:
        """Largest load of each pass."""
        found: Named = {}
        for turn in self.m.largest:
            loads = np.zeros(len(self.stages))
            for b, s in enumerate(stage):
                loads[s] += (self.host_work if flags[s] else self.work)[b, turn]
            for e, s in self.m.crosses:
                loads[s] += crosses[e, s] * self.cost[e, turn]
            found[turn] = float(loads.max())
        return found


def _passes(table: Any, joint: bool) -> Any:
    """Both passes apart, or together in the first column."""
    return np.column_stack((table.sum(axis=1), np.zeros(len(table)))) if joint else table


FORMULATION = ContiguousLoad(_Builder)
