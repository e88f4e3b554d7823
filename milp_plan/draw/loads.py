"""Pictures of plans under the serial law: load of every device, or its calls in time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from milp_plan.check import Load, replay, serial_loads, serial_timeline, verify
from milp_plan.core import Plan, PlanningProblem

from .canvas import (
    FULL,
    MEMORY,
    Scale,
    axis_label,
    figure_legend,
    new_figure,
    size_scale,
    time_scale,
)
from .panels import Axis, Box, Panel, row_box
from .style import drawing_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
_WIDTH = 9.0


def loads_figure(problem: PlanningProblem, plan: Plan) -> Figure:
    """Draw a plan of a problem under the serial law, valid or not.

    Returns
    -------
    matplotlib.figure.Figure
        First axes: a bar per device, made of what it receives, computes and sends; for latency
        one bar per call at the time it runs, and one lane for operators outside calls. Second
        axes: bytes of every device and their limits.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    """
    assert problem.serial is not None
    devices = problem.cluster.device_names
    figure = new_figure(_WIDTH, 0.3 * len(devices) + 1.6)
    with drawing_style():
        first, second = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
        verdict = verify(problem, plan)
        loads = serial_loads(problem, plan)
        longest = max((load.total for load in loads.values()), default=1)
        time = time_scale(problem.units, verdict.value or longest)
        if problem.serial.calls is None:
            _draw_loads(first, devices, {place[0]: load for place, load in loads.items()}, time)
            first.set_xlabel(axis_label("load", time))
        else:
            _draw_calls(first, problem, plan, time)
            first.set_xlabel(axis_label("time", time))
        if verdict.value is not None:
            first.axvline(time(verdict.value), color="black", linewidth=0.8, linestyle="--")
            text = time.text(verdict.value)
            first.set_title(f"{problem.name}: {problem.objective} {text}", loc="left")
        first.set_yticks(range(len(devices)), devices)
        first.invert_yaxis()
        _draw_memory(second, problem, plan)
        _draw_legend(figure, {box.kind for box in _boxes(problem, plan, time)})
    return figure


def _parts(load: Load) -> tuple[int, ...]:
    """Ticks of the entries of ``_PARTS``."""
    forward, backward = load.work[False], load.work[True]
    return sum(load.incoming.values()), forward, backward, sum(load.outgoing.values())


def _draw_bar(axes: Axes, row: int, start: int, load: Load, time: Scale) -> None:
    for (_, colour), ticks in zip(_PARTS, _parts(load), strict=True):
        if ticks:
            axes.barh(row, time(ticks), 0.7, left=time(start), color=colour)
            start += ticks


def _draw_loads(axes: Axes, devices: tuple[str, ...], loads: dict[str, Load], time: Scale) -> None:
    for row, device in enumerate(devices):
        if device in loads:
            _draw_bar(axes, row, 0, loads[device], time)


def _draw_calls(axes: Axes, problem: PlanningProblem, plan: Plan, time: Scale) -> None:
    loads, line = serial_loads(problem, plan), serial_timeline(problem, plan)
    rows = {device: row for row, device in enumerate(problem.cluster.device_names)}
    for (device, call), (start, stop) in line.calls.items():
        _draw_bar(axes, rows[device], start, loads[device, call], time)
        axes.plot([time(stop)] * 2, [rows[device] - 0.35, rows[device] + 0.35], color="black")
    for _, device, start, stop in _outside(problem, plan, line):
        left, width = time(start), time(stop - start)
        axes.barh(rows[device], width, 0.7, left=left, color=_HOST, alpha=0.5)


def _outside(
    problem: PlanningProblem, plan: Plan, line: Timeline
) -> Iterator[tuple[str, str, int, int]]:
    """Operators that run outside calls: name, device, start and stop."""
    for run in plan.runs:
        if run.call is None and run.operator in line.ready:
            kind = problem.cluster.device(run.devices[0]).device_class
            ticks = problem.graph.operator(run.operator).options[0].duration_ns[kind]
            stop = line.ready[run.operator]
            yield run.operator, run.devices[0], stop - ticks, stop


def _draw_memory(axes: Axes, problem: PlanningProblem, plan: Plan) -> None:
    memories = replay(problem, plan).devices
    limits = [entry.limit_bytes or 0 for entry in memories.values()]
    size = size_scale(problem.units, max([*limits, *(m.peak_bytes for m in memories.values())]))
    for row, entry in enumerate(memories.values()):
        full = entry.limit_bytes is not None and entry.peak_bytes > entry.limit_bytes
        axes.barh(row, size(entry.peak_bytes), 0.7, color=FULL if full else MEMORY)
        if entry.limit_bytes is not None:
            limit = size(entry.limit_bytes)
            axes.plot([limit, limit], [row - 0.4, row + 0.4], color="black", linewidth=1.2)
    axes.set_xlabel(axis_label("memory, its limit as a line", size))


def _draw_legend(figure: Figure, drawn: set[str]) -> None:
    from matplotlib.patches import Patch

    known = (*_PARTS, (_OUTSIDE, _HOST))
    handles = [Patch(color=colour, label=name) for name, colour in known if name in drawn]
    figure_legend(figure, handles, "outside lower center")


def loads_panels(problem: PlanningProblem, plan: Plan) -> tuple[Panel, ...]:
    """Return the loads of a plan under the serial law, or its calls in time, and its memory."""
    assert problem.serial is not None
    devices = problem.cluster.device_names
    longest = max((load.total for load in serial_loads(problem, plan).values()), default=1)
    value = verify(problem, plan).value
    time = time_scale(problem.units, max(value or 0, longest))
    boxes = list(_boxes(problem, plan, time))
    what = "load" if problem.serial.calls is None else "time"
    drawn = {box.kind for box in boxes}
    fills = {part: colour for part, colour in (*_PARTS, (_OUTSIDE, _HOST)) if part in drawn}
    loaded = Panel(what.capitalize(), Axis(what, time), rows=devices, boxes=boxes, fills=fills)
    return loaded, _memory_panel(problem, plan)


def _boxes(problem: PlanningProblem, plan: Plan, time: Scale) -> Iterator[Box]:
    """Parts of loads, from 0 or from the start of their call, and operators outside calls."""
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
                said = f"call {call}, {time.text(ticks)}" if timed else time.text(ticks)
                span = (time(start), time(start + ticks))
                yield row_box(rows[device], part, span, part, device, said=said)
                start += ticks
    for name, device, start, stop in _outside(problem, plan, line):
        span, said = (time(start), time(stop)), time.text(stop - start)
        yield row_box(rows[device], name, span, _OUTSIDE, device, said=said)


def _memory_panel(problem: PlanningProblem, plan: Plan) -> Panel:
    memories = replay(problem, plan).devices.values()
    highest = max(max(entry.limit_bytes or 0, entry.peak_bytes) for entry in memories)
    size = size_scale(problem.units, highest)
    boxes = []
    for row, entry in enumerate(memories):
        limit = entry.limit_bytes
        full = limit is not None and entry.peak_bytes > limit
        said = size.text(entry.peak_bytes)
        said += ", no limit" if limit is None else f", limit {size.text(limit)}"
        kind = "above the limit" if full else "held"
        span = (0.0, size(entry.peak_bytes))
        boxes.append(row_box(row, entry.device, span, kind, entry.device, said=said))
        if limit is not None and limit > entry.peak_bytes:
            span = (size(entry.peak_bytes), size(limit))
            boxes.append(row_box(row, entry.device, span, "free", entry.device, said=said))
    fills = {"held": MEMORY, "above the limit": FULL, "free": "#CCCCCC"}
    rows = [entry.device for entry in memories]
    return Panel("Memory", Axis("memory", size), rows=rows, boxes=boxes, fills=fills)
