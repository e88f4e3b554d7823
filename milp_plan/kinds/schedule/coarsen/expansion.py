"""Expansion: the plan of a coarse problem as a plan of the members of its clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from milp_plan.core import FULL, OperatorRun, Placement, Plan, PlanningProblem, Transfer
from milp_plan.cost.routes import route_between

from .needless import without_needless


@dataclass(frozen=True)
class Expansion:
    """Runs the members of a cluster, and sends the parts of a bundle, one after the other.

    Why the plan is valid when the coarse one is. *Placement*: members take options of the chosen
    composite, on its site, which has classes they all have. *Time*: the members' lengths add up
    to at most the coarse length on every site, and the parts of a bundle to at most its transfer
    (:meth:`milp_plan.core.Channel.transfer_ticks` pays latency and rounding per message); so every
    task stays inside the interval of the task it came from, where the resources are its own.
    *Supply*: inside a cluster the site is one and the layouts agree, so native copies serve, in
    topological order. Between clusters a part has the bundle's producer site, layouts and reading
    sites, so it needs exactly the bundle's transfers, which end before the readers' clusters
    start. *Memory*: copies of parts live inside the lives of their bundle's copies, and the
    workspace of the coarse operator covers the rest
    (:func:`.workspace_bytes`). *Runs again*: each run of a cluster runs
    its members once more, but for those whose results nobody reads. A member may read a copy that
    came during the run of its cluster, where the cluster read the one before; that copy lies there
    for a later reader anyway. No task stops later than the task it came from, no device starts
    earlier, holds more or is busy longer: no objective grows.

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
        """Return a plan of ``before``, without a claimed value: the real one may be smaller."""
        runs = tuple(run for coarse in plan.runs for run in self._runs(coarse))
        expanded = Plan(self.before.name, runs, planner=plan.planner, notes=dict(plan.notes))
        transfers = tuple(t for coarse in plan.transfers for t in self._transfers(coarse, expanded))
        expanded = replace(expanded, transfers=transfers)
        if not self.before.allows_memory_saving:
            return expanded
        return without_needless(self.before, expanded)

    def project(self, plan: Plan, after: PlanningProblem) -> Plan | None:
        """Return a plan of clusters with the decisions of a plan of ``before`` and rough times.

        A cluster is on its members' site (those of no length go along), with the options they
        have or the fastest there, from the start of the first to the stop of the last; retiming
        makes a valid plan of that. ``None`` where members are on several sites or run unequally
        often, or nothing runs them together there.
        """
        runs_of: dict[str, list[OperatorRun]] = {}
        for run in sorted(plan.runs, key=lambda run: run.start_ticks or 0):
            runs_of.setdefault(run.operator, []).append(run)
        runs: list[OperatorRun] = []
        for name in self.members:
            result = self._joined(name, runs_of, after)
            if not result:
                return None
            runs += result
        sent: dict[str, list[Transfer]] = {}
        for transfer in plan.transfers:
            sent.setdefault(transfer.value, []).append(transfer)
        transfers: list[Transfer] = []
        for value, parts in self.parts.items():
            last: dict[tuple[tuple[str, ...], str], Transfer] = {}
            for t in (t for part in parts for t in sent.get(part, ())):
                other = last.get((t.target, t.layout))
                if other is None or (other.start_ticks or 0) < (t.start_ticks or 0):
                    last[t.target, t.layout] = replace(t, value=value)
            several = [replace(t, value=value) for part in parts for t in sent.get(part, ())]
            transfers += several if len(parts) == 1 else last.values()
        return Plan(after.name, tuple(runs), tuple(transfers), planner=plan.planner)

    def _joined(
        self, name: str, runs_of: Mapping[str, Sequence[OperatorRun]], after: PlanningProblem
    ) -> list[OperatorRun]:
        """Return runs of a cluster: of the first run of each member, of the second, and so on."""
        rows = [runs_of[member] for member in self.members[name]]
        if len({len(row) for row in rows}) > 1:
            return []
        result = [self._together(name, runs, after) for runs in zip(*rows, strict=True)]
        made = [run for run in result if run is not None]
        return made if len(made) == len(result) else []

    def _together(
        self, name: str, runs: Sequence[OperatorRun], after: PlanningProblem
    ) -> OperatorRun | None:
        devices = max(runs, key=self._ticks_of).devices
        if any(run.devices != devices and self._ticks_of(run) for run in runs):
            return None
        chosen = tuple(run.option for run in runs)
        able = [p for p in after.placements(name) if p.devices == devices]
        same = [p for p in able if self.options[name, p.option] == chosen]
        if not able:
            return None
        best = min(same or able, key=lambda p: after.duration_ticks(name, p))
        times = [(r.start_ticks, r.stop_ticks) for r in runs]
        starts = [start for start, _ in times if start is not None]
        stops = [stop for _, stop in times if stop is not None]
        if len(starts) < len(runs) or len(stops) < len(runs):
            return OperatorRun(name, best.option, devices)
        return OperatorRun(name, best.option, devices, min(starts), max(stops))

    def _ticks_of(self, run: OperatorRun) -> int:
        return self.before.duration_ticks(run.operator, run.placement)

    def _runs(self, coarse: OperatorRun) -> Iterator[OperatorRun]:
        start = coarse.start_ticks
        chosen = self.options[coarse.operator, coarse.option]
        for member, option in zip(self.members[coarse.operator], chosen, strict=True):
            if start is None:
                yield OperatorRun(member, option, coarse.devices)
                continue
            ticks = self.before.duration_ticks(member, Placement(option, coarse.devices))
            yield OperatorRun(member, option, coarse.devices, start, start + ticks)
            start += ticks

    def _transfers(self, coarse: Transfer, expanded: Plan) -> Iterator[Transfer]:
        start = coarse.start_ticks
        parts = self.parts[coarse.value]
        for part in parts:
            if len(parts) == 1:
                yield replace(coarse, value=part)
                continue
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
            return channel.transfer_ticks(value.payload(native), value.messages)
        made, read = (run.devices, native), (coarse.target, coarse.layout)
        result = route_between(self.before, value, made, read)
        assert result is not None
        return result[0].duration_ticks
