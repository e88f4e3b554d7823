"""Export of a plan as a trace that Perfetto and chrome://tracing show.

Format: Trace Event Format, JSON object form ("Trace Event Format", Google, 2016): complete
events ``X``, flows ``s``/``f``, counters ``C`` and metadata ``M``; ``ts`` and ``dur`` in
microseconds. A process is a device; its threads are what it computes, sends, receives, and moves
to and from its host. Events of one thread that overlap would not be drawn, so a thread with
several things at once goes on in a second one below it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from milp_plan.core import (
    MissingFacetError,
    Operator,
    OperatorRun,
    Plan,
    PlanningProblem,
    Transfer,
    Units,
)
from milp_plan.core.schedule import AGAIN, runs_again, transfer_kind

COMPUTE, SEND, RECEIVE, OFFLOAD = range(4)
"""Threads of a device."""

_THREADS = ("compute", "send", "receive", "offload")
_HOST = "host-"
"""Name of a device's host in front of the device's own: transfers between them are offload."""

MemoryProfile = Sequence[tuple[int, int]]
"""Steps (tick, bytes held from then on), by time."""

Event = dict[str, Any]


def trace(
    problem: PlanningProblem, plan: Plan, memory: Mapping[str, MemoryProfile] | None = None
) -> dict[str, Any]:
    """Return the schedule of a plan as a trace.

    Parameters
    ----------
    problem, plan
        A plan with a schedule.
    memory
        Device -> steps of the bytes it holds, shown as counters.

    Raises
    ------
    MissingFacetError
        The plan has no schedule.
    """
    if not plan.has_schedule:
        raise MissingFacetError(f"plan of {plan.problem!r} has no schedule to draw")
    clock = _Clock(problem.units)
    lanes = _Lanes(problem, _boxes(problem, plan))
    events = [*lanes.names(), *lanes.events(clock), *lanes.flows(plan, clock)]
    for name, steps in (memory or {}).items():
        events += [
            {
                "ph": "C",
                "name": f"memory {name}",
                "pid": lanes.pid[name],
                "ts": clock.microseconds(tick),
                "args": {"bytes": held},
            }
            for tick, held in steps
        ]
    labels = {"problem": plan.problem, "planner": plan.planner, "objective": plan.objective}
    labels["time unit of the source"] = problem.units.time
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": labels}


def trace_text(
    problem: PlanningProblem, plan: Plan, memory: Mapping[str, MemoryProfile] | None = None
) -> bytes:
    """Return the trace of a plan as JSON text; see :func:`trace`."""
    return json.dumps(trace(problem, plan, memory)).encode()


class _Clock:
    """Ticks as the trace's microseconds; a unit the source does not name counts as a nanosecond."""

    def __init__(self, units: Units) -> None:
        known = units.ticks_per_ns
        self._factor = 1 / (1000 * (units.time_scale if known is None else known))

    def microseconds(self, ticks: int) -> float:
        return float(ticks * self._factor)


@dataclass(frozen=True)
class _Box:
    """Something a device does for a while."""

    task: OperatorRun | Transfer
    name: str
    kind: str
    device: str
    thread: int
    start: int
    stop: int
    labels: Mapping[str, Any]


def _boxes(problem: PlanningProblem, plan: Plan) -> list[_Box]:
    """Everything there is to draw, by time."""
    graph = problem.graph
    boxes: list[_Box] = []
    again = runs_again(plan)
    for run in plan.runs:
        operator = graph.operator(run.operator)
        labels = {"kind": operator.kind, **_origin(operator), "option": run.option}
        title = (operator.name, operator.kind)
        if id(run) in again:
            title = (f"{operator.name}{AGAIN}", operator.kind + AGAIN)
        for device in run.devices:
            boxes.append(_box(run, title, (device, COMPUTE), labels))
    for trip in plan.transfers:
        maker = graph.value(trip.value).producer if graph.has_value(trip.value) else None
        kind = transfer_kind(problem.cluster, trip)
        labels = {"kind": kind, **(_origin(graph.operator(maker)) if maker else {})}
        labels |= {"source": "+".join(trip.source), "target": "+".join(trip.target)}
        title = (f"{trip.value} to {labels['target']}", kind)
        for end in _ends(trip, problem.cluster.hosts):
            boxes.append(_box(trip, title, end, {**labels, "layout": trip.layout}))
    return sorted(boxes, key=lambda box: (box.start, box.stop, box.name, box.thread, box.device))


def _origin(operator: Operator) -> dict[str, Any]:
    """Return the stage and micro-batch of an operator, where it has them."""
    labels = {"stage": operator.block, "micro-batch": operator.micro_batch}
    return {key: entry for key, entry in labels.items() if entry is not None}


def _box(
    task: OperatorRun | Transfer,
    title: tuple[str, str],
    end: tuple[str, int],
    labels: Mapping[str, Any],
) -> _Box:
    assert task.start_ticks is not None
    assert task.stop_ticks is not None
    args = {**labels, "start": str(task.start_ticks), "stop": str(task.stop_ticks)}
    return _Box(task, *title, *end, task.start_ticks, task.stop_ticks, args)


def _ends(trip: Transfer, hosts: Set[str]) -> list[tuple[str, int]]:
    """Return the devices and threads a transfer is drawn on."""
    ends = (*trip.source, *trip.target)
    if not hosts.isdisjoint(ends):
        return [(device, OFFLOAD) for device in ends if device not in hosts]
    for device in (*trip.source, *trip.target):
        if _HOST + device in (*trip.source, *trip.target):
            return [(device, OFFLOAD)]
    sends = [(device, SEND) for device in trip.source if trip.target != (device,)]
    return sends + [(device, RECEIVE) for device in trip.target if trip.source != (device,)]


class _Lanes:
    """Boxes on threads that hold one at a time."""

    def __init__(self, problem: PlanningProblem, boxes: Sequence[_Box]) -> None:
        self.pid = {name: number for number, name in enumerate(problem.cluster.device_names)}
        self.problem = problem
        self.placed: list[tuple[_Box, int]] = []
        self.lane: dict[tuple[str, int, int], int] = {}
        """(device, thread, copy) -> when it is free again."""
        for box in boxes:
            copy = 0
            while self.lane.get((box.device, box.thread, copy), box.start) > box.start:
                copy += 1
            self.lane[box.device, box.thread, copy] = box.stop
            self.placed.append((box, self.tid(box.thread, copy)))

    def tid(self, thread: int, copy: int) -> int:
        """Number of a thread: 0 to 3 are the usual four, what overlaps follows by fours."""
        return thread + len(_THREADS) * copy

    def names(self) -> Iterator[Event]:
        """Yield names of devices and threads, and the order in which to show them."""
        for name, pid in self.pid.items():
            yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
            yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}}
        used = {(self.pid[device], thread, copy) for device, thread, copy in self.lane}
        used |= {(pid, COMPUTE, 0) for pid in self.pid.values()}
        for order, (pid, thread, copy) in enumerate(sorted(used)):
            lane = {"ph": "M", "pid": pid, "tid": self.tid(thread, copy)}
            title = _THREADS[thread] + (f" {copy + 1}" if copy else "")
            yield {**lane, "name": "thread_name", "args": {"name": title}}
            yield {**lane, "name": "thread_sort_index", "args": {"sort_index": order}}

    def events(self, clock: _Clock) -> Iterator[Event]:
        """Yield the boxes."""
        for box, tid in self.placed:
            start, stop = clock.microseconds(box.start), clock.microseconds(box.stop)
            lane = {"pid": self.pid[box.device], "tid": tid}
            event = {"ph": "X", "name": box.name, "cat": box.kind, **lane}
            yield {**event, "ts": start, "dur": stop - start, "args": dict(box.labels)}

    def flows(self, plan: Plan, clock: _Clock) -> Iterator[Event]:
        """Yield an arrow from each transfer to every operator that reads its copy."""
        hosts = self.problem.cluster.hosts
        where = {(id(box.task), box.device, box.thread): tid for box, tid in self.placed}
        number = 0
        for trip in plan.transfers:
            for device, thread in _ends(trip, hosts)[:1]:
                begin = {"pid": self.pid[device], "tid": where[id(trip), device, thread]}
            for reader in _readers(self.problem, plan, trip):
                place = next(d for d in reader.devices if d in trip.target)
                end = {"pid": self.pid[place], "tid": where[id(reader), place, COMPUTE]}
                assert trip.start_ticks is not None
                assert reader.start_ticks is not None
                arrow = {"name": trip.value, "cat": "transfer", "id": number}
                number += 1
                left, read = map(clock.microseconds, (trip.start_ticks, reader.start_ticks))
                yield {"ph": "s", **arrow, **begin, "ts": left}
                yield {"ph": "f", "bp": "e", **arrow, **end, "ts": read}


def _readers(problem: PlanningProblem, plan: Plan, trip: Transfer) -> Iterator[OperatorRun]:
    """Yield the runs that read the copy a transfer makes, unless a newer one was there."""
    if not _ends(trip, problem.cluster.hosts) or not problem.graph.has_value(trip.value):
        return  # a plan that is not valid can be drawn all the same
    value = problem.graph.value(trip.value)
    for reader in plan.runs:
        name = reader.operator
        if name not in value.consumers or _renewed(problem, plan, trip, reader):
            continue
        part = len(trip.target) == 1 and trip.target[0] in reader.devices
        options = {option.name: option for option in problem.graph.operator(name).options}
        option = options.get(reader.option)
        read = trip.layout if option is None else option.layout_read(trip.value)
        if (part or reader.devices == trip.target) and read == trip.layout:
            yield reader


def _renewed(problem: PlanningProblem, plan: Plan, trip: Transfer, reader: OperatorRun) -> bool:
    """Return whether a copy may have come between, where values are made more than once."""
    if not problem.allows_memory_saving:
        return False
    producer = problem.graph.value(trip.value).producer
    stops = [
        t.stop_ticks or 0
        for t in plan.transfers
        if t.value == trip.value and not set(t.target).isdisjoint(trip.target)
    ]
    stops += [
        run.stop_ticks or 0
        for run in plan.runs
        if run.operator == producer and not set(run.devices).isdisjoint(trip.target)
    ]
    before = [stop for stop in stops if stop <= (reader.start_ticks or 0)]
    return max(before, default=-1) != trip.stop_ticks
