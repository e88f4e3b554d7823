"""The way back: a plan of clusters as a plan of their members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from milp_plan.core import FULL, OperatorRun, Placement, Plan, PlanningProblem, Transfer
from milp_plan.cost import route_between


@dataclass(frozen=True)
class Expansion:
    """Runs the members of a cluster, and sends the parts of a bundle, one after the other.

    Why the plan is valid when the coarse one is. *Placement*: members take options of the chosen
    composite, on its site, which has classes they all have. *Time*: the members' lengths add up
    to at most the coarse length on every site, and the parts of a bundle to at most its transfer
    (:meth:`milp_plan.core.Channel.transfer_ns` pays latency and rounding per message); so every
    task stays inside the interval of the task it came from, where the resources are its own.
    *Supply*: inside a cluster the site is one and the layouts agree, so native copies serve, in
    topological order. Between clusters a part has the bundle's producer site, layouts and reading
    sites, so it needs exactly the bundle's transfers, which end before the readers' clusters
    start. *Memory*: copies of parts live inside the lives of their bundle's copies, and the
    workspace of the coarse operator covers the rest
    (:func:`milp_plan.coarsen.composite.workspace_bytes`). No task stops later than the task it
    came from, no device starts earlier, holds more or is busy longer: no objective grows.

    Parameters
    ----------
    before
        The problem whose operators are the members.
    members
        Coarse operator -> its members, in running order.
    options
        (coarse operator, coarse option) -> option of each member.
    parts
        Coarse value -> the values it bundles.
    """

    before: PlanningProblem
    members: Mapping[str, tuple[str, ...]]
    options: Mapping[tuple[str, str], tuple[str, ...]]
    parts: Mapping[str, tuple[str, ...]]

    def undo(self, plan: Plan) -> Plan:
        """Plan of ``before``; the claimed value is dropped, since the real one may be smaller."""
        runs = tuple(run for coarse in plan.runs for run in self._runs(coarse))
        expanded = Plan(self.before.name, runs, planner=plan.planner, notes=dict(plan.notes))
        transfers = tuple(t for coarse in plan.transfers for t in self._transfers(coarse, expanded))
        return Plan(self.before.name, runs, transfers, planner=plan.planner, notes=dict(plan.notes))

    def project(self, plan: Plan, after: PlanningProblem) -> Plan | None:
        """Plan of clusters that decides what a plan of ``before`` decides; its times are rough.

        A cluster is on its members' site (those of no length go along), with the options they
        have or the fastest there, from the start of the first to the stop of the last; retiming
        makes a valid plan of that.
        ``None`` where members are on several sites, or nothing runs them together there.
        """
        runs = [self._joined(plan, operator.name, after) for operator in after.graph.operators]
        if any(run is None for run in runs):
            return None
        sent: dict[str, list[Transfer]] = {}
        for transfer in plan.transfers:
            sent.setdefault(transfer.value, []).append(transfer)
        transfers: dict[tuple[str, tuple[str, ...], str], Transfer] = {}
        for value, parts in self.parts.items():
            for t in (t for part in parts for t in sent.get(part, ())):
                key = (value, t.target, t.layout)
                last = transfers.get(key)
                if last is None or (last.start_ns or 0) < (t.start_ns or 0):
                    transfers[key] = replace(t, value=value)
        found = [run for run in runs if run is not None]
        return Plan(after.name, tuple(found), tuple(transfers.values()), planner=plan.planner)

    def _joined(self, plan: Plan, name: str, after: PlanningProblem) -> OperatorRun | None:
        runs = [plan.run(member) for member in self.members[name]]
        long = max(runs, key=self._ticks_of)
        devices = long.devices
        if any(run.devices != devices and self._ticks_of(run) for run in runs):
            return None
        chosen = tuple(run.option for run in runs)
        able = [p for p in after.placements(name) if p.devices == devices]
        same = [p for p in able if self.options[name, p.option] == chosen]
        if not able:
            return None
        best = min(same or able, key=lambda p: after.duration_ns(name, p))
        starts, stops = [r.start_ns for r in runs], [r.stop_ns for r in runs]
        start = None if None in starts else min(s for s in starts if s is not None)
        stop = None if None in stops else max(s for s in stops if s is not None)
        return OperatorRun(name, best.option, devices, start, stop)

    def _ticks_of(self, run: OperatorRun) -> int:
        return self.before.duration_ns(run.operator, run.placement)

    def _runs(self, coarse: OperatorRun) -> Iterator[OperatorRun]:
        start = coarse.start_ns
        chosen = self.options[coarse.operator, coarse.option]
        for member, option in zip(self.members[coarse.operator], chosen, strict=True):
            if start is None:
                yield OperatorRun(member, option, coarse.devices)
                continue
            ticks = self.before.duration_ns(member, Placement(option, coarse.devices))
            yield OperatorRun(member, option, coarse.devices, start, start + ticks)
            start += ticks

    def _transfers(self, coarse: Transfer, expanded: Plan) -> Iterator[Transfer]:
        start = coarse.start_ns
        for part in self.parts[coarse.value]:
            if start is None:
                yield Transfer(part, coarse.source, coarse.target, coarse.layout)
                continue
            stop = start + self._ticks(part, coarse, expanded)
            yield Transfer(part, coarse.source, coarse.target, coarse.layout, start, stop)
            start = stop

    def _ticks(self, part: str, coarse: Transfer, expanded: Plan) -> int:
        value = self.before.graph.value(part)
        assert value.producer is not None
        run = expanded.run(value.producer)
        option = self.before.graph.operator(value.producer).option(run.option)
        native = option.layout_written(part)
        if native == coarse.layout == FULL:
            channel = self.before.cluster.channel(coarse.source[0], coarse.target[0])
            assert channel is not None
            return channel.transfer_ns(value.payload(native), value.messages)
        made, read = (run.devices, native), (coarse.target, coarse.layout)
        found = route_between(self.before, value, made, read)
        assert found is not None
        return found[0].duration_ns
