"""Panels of plans under the serial law: load of every device, or its calls in time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from milp_plan.check import Load, replay, serial_loads, serial_timeline, verify
from milp_plan.core import Plan, PlanningProblem
from milp_plan.draw.canvas import (
    Scale,
    size_scale,
    time_scale,
)
from milp_plan.draw.panels import Axis, Box, Panel, memory_panel, row_box

if TYPE_CHECKING:
    from milp_plan.check.serial import Timeline

_PARTS = (
    ("receives", "#56B4E9"),
    ("forward", "#0072B2"),
    ("backward", "#B8622B"),
    ("sends", "#F0E442"),
)
"""Parts of a load in the order in which a call runs them, with their colours."""

_OUTSIDE = "outside calls"
_HOST = "#999999"


def _parts(load: Load) -> tuple[int, ...]:
    """Return the ticks of the entries of ``_PARTS``."""
    forward, backward = load.work[False], load.work[True]
    return sum(load.incoming.values()), forward, backward, sum(load.outgoing.values())


def _outside(
    problem: PlanningProblem, plan: Plan, line: Timeline
) -> Iterator[tuple[str, str, int, int]]:
    """Yield operators that run outside calls: name, device, start and stop."""
    for run in plan.runs:
        if run.call is None and run.operator in line.ready:
            kind = problem.cluster.device(run.devices[0]).device_class
            ticks = problem.graph.operator(run.operator).options[0].duration_ticks[kind]
            stop = line.ready[run.operator]
            yield run.operator, run.devices[0], stop - ticks, stop


def loads_panels(problem: PlanningProblem, plan: Plan) -> tuple[Panel, ...]:
    """Return the loads of a plan under the serial law, or its calls in time, and its memory."""
    assert problem.serial is not None
    devices = problem.cluster.device_names
    longest = max((load.total for load in serial_loads(problem, plan).values()), default=1)
    value = verify(problem, plan).value
    time = time_scale(problem.units, max(value or 0, longest))
    boxes = list(_boxes(problem, plan, time))
    quantity = "load" if problem.serial.calls is None else "time"
    drawn = {box.kind for box in boxes}
    fills = {part: colour for part, colour in (*_PARTS, (_OUTSIDE, _HOST)) if part in drawn}
    loaded = Panel(
        quantity.capitalize(), Axis(quantity, time), rows=devices, boxes=boxes, fills=fills
    )
    memories = replay(problem, plan).devices.values()
    highest = max(max(entry.limit_bytes or 0, entry.peak_bytes) for entry in memories)
    size = size_scale(problem.units, highest)
    held = [(entry.device, entry.peak_bytes, entry.limit_bytes) for entry in memories]
    return loaded, memory_panel(held, size)


def _boxes(problem: PlanningProblem, plan: Plan, time: Scale) -> Iterator[Box]:
    """Yield parts of loads, from 0 or from the start of their call, and operators outside calls."""
    assert problem.serial is not None
    rows = {device: row for row, device in enumerate(problem.cluster.device_names)}
    line = serial_timeline(problem, plan)
    timed = problem.serial.calls is not None
    for (device, call), load in serial_loads(problem, plan).items():
        if timed and (device, call) not in line.calls:  # outside calls, or without a time
            continue
        start = line.calls[device, call][0] if timed else 0
        for (part, _), ticks in zip(_PARTS, _parts(load), strict=True):
            if ticks:
                text = f"call {call}, {time.text(ticks)}" if timed else time.text(ticks)
                span = (time(start), time(start + ticks))
                yield row_box(rows[device], part, span, part, device, tooltip=text)
                start += ticks
    for name, device, start, stop in _outside(problem, plan, line):
        span, text = (time(start), time(stop)), time.text(stop - start)
        yield row_box(rows[device], name, span, _OUTSIDE, device, tooltip=text)
