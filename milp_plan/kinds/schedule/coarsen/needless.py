"""Removal of repeated runs and transfers that nobody reads in an expanded plan."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from milp_plan.core import OperatorRun, Plan, PlanningProblem


class _Copy(NamedTuple):
    """Stop and start, minus its position in the plan, and the identity of what made it."""

    stop: int
    start: int
    number: int
    maker: int


def without_needless(problem: PlanningProblem, plan: Plan) -> Plan:
    """Return the plan without transfers and repeated runs whose copies nobody reads.

    A cluster runs again for one of its results; members that make another one need not. Each
    reader has the copy that was completed last before it starts, so what is left out changes
    nothing for the others.
    """
    while True:
        read = _Reading(problem, plan).needed()
        count: dict[str, int] = {}
        for run in plan.runs:
            count[run.operator] = count.get(run.operator, 0) + 1
        runs: list[OperatorRun] = []
        for run in plan.runs:
            if id(run) not in read and count[run.operator] > 1:
                count[run.operator] -= 1
            else:
                runs.append(run)
        transfers = tuple(t for t in plan.transfers if id(t) in read)
        if len(runs) == len(plan.runs) and len(transfers) == len(plan.transfers):
            return plan
        plan = replace(plan, runs=tuple(runs), transfers=transfers)


class _Reading:
    """The copies of a plan, and which of them are read."""

    def __init__(self, problem: PlanningProblem, plan: Plan) -> None:
        self.problem, self.plan = problem, plan
        self.native: dict[tuple[str, str], list[tuple[str, _Copy]]] = {}
        self.brought: dict[tuple[str, str], list[tuple[str, _Copy]]] = {}
        for number, run in enumerate(plan.runs):
            option = problem.graph.operator(run.operator).option(run.option)
            copy = _Copy(run.stop_ticks or 0, run.start_ticks or 0, -number, id(run))
            for value in problem.graph.outputs[run.operator]:
                layout = option.layout_written(value.name)
                for device in run.devices:
                    self.native.setdefault((value.name, device), []).append((layout, copy))
        for number, trip in enumerate(plan.transfers, len(plan.runs)):
            copy = _Copy(trip.stop_ticks or 0, trip.start_ticks or 0, -number, id(trip))
            for device in trip.target:
                self.brought.setdefault((trip.value, device), []).append((trip.layout, copy))

    def needed(self) -> set[int]:
        """Return the identities of runs and transfers whose copies are read or stay to the end."""
        makers = {self._by_run(run, value) for run in self.plan.runs for value in self._read(run)}
        flat = {maker for row in makers for maker in row}
        for trip in self.plan.transfers:
            for device in trip.source:
                table = self.brought if device in self.problem.cluster.hosts else self.native
                copies = [copy for _, copy in table.get((trip.value, device), ())]
                flat |= _latest(copies, trip.start_ticks or 0)
        for value in self.problem.graph.values:
            if value.is_kept:
                rows = (row for key, row in self.native.items() if key[0] == value.name)
                flat |= _latest([copy for row in rows for _, copy in row], None)
        return flat

    def _read(self, run: OperatorRun) -> list[str]:
        inputs = self.problem.graph.inputs[run.operator]
        return [value.name for value in inputs if value.producer is not None]

    def _by_run(self, run: OperatorRun, value: str) -> frozenset[int]:
        option = self.problem.graph.operator(run.operator).option(run.option)
        result: set[int] = set()
        for device in run.devices:
            key = (value, device)
            rows = [*self.native.get(key, ()), *self.brought.get(key, ())]
            copies = [copy for layout, copy in rows if layout == option.layout_read(value)]
            result |= _latest(copies, run.start_ticks or 0)
        return frozenset(result)


def _latest(copies: list[_Copy], start: int | None) -> set[int]:
    """Return makers of the copy completed last by then; ties go to the latest start."""
    able = [copy for copy in copies if start is None or copy.stop <= start]
    return {max(able).maker} if able else set()
