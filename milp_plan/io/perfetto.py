"""Export of a plan as a trace that Perfetto and chrome://tracing show.

Format: Trace Event Format, JSON object form ("Trace Event Format", Google, 2016): complete
events ``X``, asynchronous pairs ``b``/``e``, counters ``C`` and metadata ``M``; ``ts`` and
``dur`` in microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from milp_plan.core import Plan, PlanningProblem, Units
from milp_plan.core.schedule import Task, schedule

from .files import write_document

_DEVICES, _CHANNELS = 1, 2
_MICROSECONDS = {"ns": Fraction(1, 1000), "us": Fraction(1), "ms": Fraction(1000)}

MemoryProfile = Sequence[tuple[int, int]]
"""Steps (tick, bytes held from then on), by time."""


def trace(
    problem: PlanningProblem, plan: Plan, memory: Mapping[str, MemoryProfile] | None = None
) -> dict[str, Any]:
    """Return the schedule of a plan as a trace: a lane per device, and per channel or port.

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
    tasks = schedule(problem, plan)
    clock = _Clock(problem.units)
    devices = problem.cluster.device_names
    used = {name for task in tasks for name in task.resources}
    channels = sorted(used - set(devices))
    lanes = {name: (_DEVICES, i) for i, name in enumerate(devices, 1)}
    lanes |= {name: (_CHANNELS, i) for i, name in enumerate(channels, 1)}
    events = [*_names(lanes)]
    for number, task in enumerate(tasks):
        events += _task_events(task, number, lanes, clock)
    for name, steps in (memory or {}).items():
        events += [
            {
                "ph": "C",
                "name": f"memory {name}",
                "pid": _DEVICES,
                "ts": clock.microseconds(tick),
                "args": {"bytes": held},
            }
            for tick, held in steps
        ]
    told = {"problem": plan.problem, "planner": plan.planner, "objective": plan.objective}
    told["time unit of the source"] = problem.units.time
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": told}


def write_trace(
    problem: PlanningProblem,
    plan: Plan,
    path: str | Path,
    memory: Mapping[str, MemoryProfile] | None = None,
) -> None:
    """Write the trace of a plan; see :func:`trace`.

    Raises
    ------
    MissingFacetError
        The plan has no schedule.
    OSError
        The folder does not exist or cannot be written.
    """
    write_document(path, json.dumps(trace(problem, plan, memory)).encode())


class _Clock:
    """Ticks as the trace's microseconds; a unit the source does not name counts as a nanosecond."""

    def __init__(self, units: Units) -> None:
        self._factor = _MICROSECONDS.get(units.time, _MICROSECONDS["ns"]) / units.time_scale

    def microseconds(self, ticks: int) -> float:
        return float(ticks * self._factor)


def _names(lanes: Mapping[str, tuple[int, int]]) -> Iterator[dict[str, Any]]:
    for pid, title in ((_DEVICES, "devices"), (_CHANNELS, "channels")):
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": title}}
    for name, (pid, tid) in lanes.items():
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def _task_events(
    task: Task, number: int, lanes: Mapping[str, tuple[int, int]], clock: _Clock
) -> Iterator[dict[str, Any]]:
    common = {"name": task.name, "cat": task.kind}
    start, stop = clock.microseconds(task.start_ns), clock.microseconds(task.stop_ns)
    ticks = {"start": str(task.start_ns), "stop": str(task.stop_ns)}
    for resource in task.resources:
        pid, tid = lanes[resource]
        lane = {"pid": pid, "tid": tid}
        yield {"ph": "X", **common, **lane, "ts": start, "dur": stop - start, "args": ticks}
    if not task.resources:  # nothing is held, so tasks may overlap: one asynchronous track each
        pair = {**common, "id": number, "pid": _CHANNELS, "tid": 0}
        yield {"ph": "b", **pair, "ts": start, "args": ticks}
        yield {"ph": "e", **pair, "ts": stop}
