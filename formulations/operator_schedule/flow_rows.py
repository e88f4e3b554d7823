"""Which pairs of placements are chosen, and which transfers run.

====================  ==========================================================================
``link_flows``        sum_q flow[i,k,p,q] = place[i,p];  sum_p flow[i,k,p,q] = place[k,q]
``link_flows``        together[i,k] = sum of flow[i,k,p,q] with p, q on one device
``use_legs``          use[t,p,a] >= sum_q flow[i,k,p,q] over the q that call for t (shared t)
``use_legs``          sent[t] = sum_pa use[t,p,a]
====================  ==========================================================================

``together`` and ``sent`` stand for their sums wherever these occur, so that constraints stay short.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyomo.environ as pyo

from milp_plan.api import Placement, TransferTask, add_le, label

from .columns import Combination, Pair


class FlowRows:
    """Variables ``flow``, ``together``, ``use`` and ``sent`` and their constraints.

    Parameters
    ----------
    model
        Builder with ``m`` (placements are in it), ``sets``, ``columns`` and ``transfers``.
    """

    def __init__(self, model: Any) -> None:
        self.m, self.sets, self.columns = model.m, model.sets, model.columns
        self.transfers: tuple[TransferTask, ...] = model.transfers

    def write(self) -> None:
        """Add all of them."""
        self.link_flows()
        self.use_legs()

    def link_flows(self) -> None:
        """Pair the placements of representatives whose operators exchange values.

        All values between two of them share the variables. Forbidden pairs have none.
        """
        m, sets, columns = self.m, self.sets, self.columns
        m.flow, m.link_flows = pyo.Var(pyo.Any, bounds=(0, 1), dense=False), pyo.ConstraintList()
        m.together = pyo.Var(pyo.Any, domain=pyo.Binary, dense=False)
        tables: dict[Pair, dict[Pair, dict[Combination, Combination]]] = {}
        for pair in sets.values_between:
            if pair not in sets.local_pairs:
                ends, found = columns.represented_combinations(pair)
                tables.setdefault(ends, {})[pair] = found
        for ends, table in tables.items():
            first, *others = table.values()
            allowed = [both for both in first if all(both in other for other in others)]
            flows = self.link(ends, allowed)
            self.add_same_device(ends, flows)
            for pair, combinations in table.items():
                for own, both in combinations.items():
                    columns.flows[(*pair, *both)] = flows.get(own, 0)

    def link(self, ends: Pair, allowed: list[Combination]) -> dict[Combination, Any]:
        """Variables of the allowed pairs of placements of two representatives; they sum to 1."""
        columns = self.columns
        sides = [(name, self.sets.placements[name]) for name in ends]
        flows: dict[Combination, Any] = {}
        found: list[dict[Placement, list[Any]]] = [{p: [] for p in side} for _, side in sides]
        for one, other in allowed:
            if len(sides[0][1]) == 1 or ends[0] == ends[1]:  # the other side alone decides
                column = columns.place(ends[1], other)
            elif len(sides[1][1]) == 1:
                column = columns.place(ends[0], one)
            else:
                column = self.m.flow[(*ends, label(one), label(other))]
            flows[one, other] = column
            found[0][one].append(column)
            found[1][other].append(column)
        for (name, _), table in zip(sides, found, strict=True):
            for placement, sharing in table.items():
                place = columns.place(name, placement)
                if len(sharing) != 1 or sharing[0] is not place:
                    add_le(self.m.link_flows, pyo.quicksum(sharing), place)
                    add_le(self.m.link_flows, place, pyo.quicksum(sharing))
        return flows

    def add_same_device(self, ends: Pair, flows: Mapping[Combination, Any]) -> None:
        """A variable for whether two representatives share a device, where each runs on one."""
        if any(len(p.devices) > 1 for both in flows for p in both):
            return
        shared = [flow for (one, other), flow in flows.items() if one.devices == other.devices]
        column: Any = shared[0] if len(shared) == 1 else 0
        if len(shared) > 1:
            column = self.m.together[ends]
            self.total(shared, column, self.m.link_flows)
        self.columns.together[ends] = column

    def total(self, columns: list[Any], total: Any, rows: Any) -> None:
        """Have a variable be the sum of others, in whose place it appears in other constraints."""
        add_le(rows, pyo.quicksum(columns), total)
        add_le(rows, total, pyo.quicksum(columns))
        self.columns.sums[frozenset(map(id, columns))] = total

    def use_legs(self) -> None:
        """A shared transfer runs if any of its consumers calls for it."""
        m, columns = self.m, self.columns
        m.use, m.use_legs = pyo.Var(pyo.Any, bounds=(0, 1), dense=False), pyo.ConstraintList()
        m.sent = pyo.Var(pyo.Any, bounds=(0, 1), dense=False)
        for task in self.transfers:
            if not task.shared:
                continue
            calls: dict[Placement, dict[str, dict[Any, Any]]] = {}
            sources: dict[Placement, dict[tuple[str, ...], None]] = {}
            for leg in task.legs:
                made = leg.combination[0]
                flows = calls.setdefault(made, {}).setdefault(leg.consumer, {})
                flows[leg.combination] = columns.flow(task, leg)
                sources.setdefault(made, {})[leg.route.source] = None
            for made, readers in calls.items():
                wanted = [sum(flows.values()) for flows in readers.values()]
                self.use(task, made, list(sources[made]), wanted)
            uses = [use for use, _ in columns.uses(task)]
            if len(uses) > 1 and not any(isinstance(use, int) for use in uses):
                columns.sent[task.name] = m.sent[task.name]
                self.total(uses, m.sent[task.name], m.use_legs)

    def use(
        self, task: TransferTask, made: Placement, sources: list[tuple[str, ...]], wanted: list[Any]
    ) -> None:
        """One variable per device that the copy may leave from; 1 if it is sure to leave there."""
        m, columns = self.m, self.columns
        if len(sources) == 1 and any(isinstance(t, int) and t == 1 for t in wanted):
            columns.use[task.name, made, sources[0]] = 1
            return
        for source in sources:
            column = m.use[task.name, label(made), "+".join(source)]
            if len(sources) > 1:  # half a send from each of two devices would hold neither
                column.domain = pyo.Binary
            columns.use[task.name, made, source] = column
        total = sum(columns.use[task.name, made, source] for source in sources)
        for call in wanted:
            add_le(m.use_legs, call, total)
        if len(sources) > 1:
            add_le(m.use_legs, total, 1)
