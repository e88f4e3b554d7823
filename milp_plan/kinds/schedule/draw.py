"""Panels of a plan with a schedule: devices and channels, memory, utilisation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from milp_plan.check import replay, verify
from milp_plan.check.chain import critical_chain
from milp_plan.check.replay import DeviceMemory
from milp_plan.core import Plan, PlanningProblem, Units
from milp_plan.draw.canvas import (
    FULL,
    MEMORY,
    TRANSFERS,
    Scale,
    colours,
    paler,
    size_scale,
    time_scale,
)
from milp_plan.draw.panels import Axis, Box, Curve, Panel, row_box

from .lanes import Lane, Lanes, idle_note, lanes

_MOST_STEPS = 20_000
"""Changes of memory on all devices above which short ones are joined at their highest."""
_GRAINS = 1_000
_FILL_SHARE = 0.12
"""Rows are as high as limits where some device holds at least this share of its own."""
_USED, _ABOVE = "memory", "above the limit"
_SHARE = Scale(1, "%")


def schedule_panels(problem: PlanningProblem, plan: Plan) -> tuple[Panel, ...]:
    """Return the timeline, the memory and the utilisation of a plan with a schedule, valid or not.

    Every task is a box of its own, however many there are.

    Raises
    ------
    MissingFacetError
        The plan has no schedule.
    """
    chain = critical_chain(problem, plan) if verify(problem, plan).ok else ()
    rows = lanes(problem, plan, chain)
    memory = replay(problem, plan).devices
    time = time_scale(problem.units, rows.stop_ticks)
    shown = tuple(entry for entry in memory.values() if entry.peak_bytes or entry.steps[1:])
    result = (timeline(rows, time), _memory(problem, rows, shown, time), _utilisation(rows))
    return tuple(panel for panel in result if panel.boxes)


def timeline(rows: Lanes, time: Scale) -> Panel:
    """Return what every lane does over time."""
    fills = _fills(rows)
    shown = [lane for lane in rows.all if lane.bars]
    boxes = [
        row_box(
            row,
            bar.label,
            (time(bar.start_ticks), time(bar.stop_ticks)),
            _chunk_name(bar.kind, bar.chunk, rows.chunks),
            lane.name,
            critical=bar.critical,
        )
        for row, lane in enumerate(shown)
        for bar in lane.bars
    ]
    return Panel(
        "Timeline",
        Axis("time", time),
        rows=[lane.name for lane in shown],
        ends=_busy(shown, rows),
        boxes=boxes,
        fills=_named(fills, rows.chunks),
        notes=(*rows.notes, *idle_note(rows)),
        searched=True,
    )


def _memory(
    problem: PlanningProblem, rows: Lanes, memory: tuple[DeviceMemory, ...], time: Scale
) -> Panel:
    """A row per device, as high as its limit, or as what is held at most where that is little."""
    highest = max((entry.peak_bytes for entry in memory), default=1)
    size = size_scale(problem.units, highest)
    fullest = max((_share(entry, highest) for entry in memory), default=1.0)
    near = fullest >= _FILL_SHARE
    grain = (rows.stop_ticks - rows.start_ticks) // _GRAINS
    grain = grain if sum(len(entry.steps) for entry in memory) > _MOST_STEPS else 0
    boxes, limits = [], []
    for row, entry in enumerate(memory):
        if entry.limit_bytes and near:
            at = row + 0.42 - 0.84 * min(1.0, entry.limit_bytes / max(entry.peak_bytes, 1))
            ends = [(time(start), at) for start in (rows.start_ticks, rows.stop_ticks)]
            limits.append(Curve("limit", ends, FULL, limit=True))
        limit = "no limit" if entry.limit_bytes is None else f"limit {size.text(entry.limit_bytes)}"
        top = max(entry.limit_bytes or highest, entry.peak_bytes, 1) * (1.0 if near else fullest)
        for start, stop, held in _spans(entry, rows.stop_ticks, grain):
            full = entry.limit_bytes is not None and held > entry.limit_bytes
            edges = (time(start), time(stop), row + 0.42 - 0.84 * held / top, row + 0.42)
            text = f"{size.text(held)}, {limit}"
            boxes.append(Box(*edges, _ABOVE if full else _USED, entry.device, entry.device, text))
    what = "the limit of its device, or the highest peak without one"
    part = "" if near else f"{100 * fullest:.2g} % of "
    notes = [f"The height of a row is {part}{what}."]
    if grain:
        notes.append("Memory that changes faster than can be seen is drawn at its highest.")
    fills = {_USED: MEMORY, _ABOVE: FULL}
    drawn = {box.kind for box in boxes}
    return Panel(
        "Memory",
        Axis("time", time),
        rows=[entry.device for entry in memory],
        ends=[_fullness(entry, problem.units) for entry in memory],
        curves=limits,
        boxes=boxes,
        fills={kind: colour for kind, colour in fills.items() if kind in drawn},
        notes=notes,
        row_height=1.5,
    )


def _share(entry: DeviceMemory, highest: int) -> float:
    """Return what a device holds at most, of its limit or, without one, of the highest peak."""
    return entry.peak_bytes / max(entry.limit_bytes or highest, 1)


def _fullness(entry: DeviceMemory, units: Units) -> str:
    if not entry.limit_bytes:
        return size_scale(units, entry.peak_bytes).text(entry.peak_bytes)
    share = 100 * entry.peak_bytes / entry.limit_bytes
    limit = size_scale(units, entry.limit_bytes).text(entry.limit_bytes)
    return f"{share:.0f} % of {limit}"


def _spans(entry: DeviceMemory, stop: int, grain: int) -> Iterator[tuple[int, int, int]]:
    """Start, stop and bytes held; spans shorter than the grain join, at their highest."""
    ends = [at for at, _ in entry.steps[1:]] + [max(stop, entry.steps[-1][0])]
    start, most = entry.steps[0][0], 0
    for (_, held), end in zip(entry.steps, ends, strict=True):
        most = max(most, held)
        if end - start > grain or end == ends[-1]:
            if most and end > start:
                yield start, end, most
            start, most = end, 0


def _utilisation(rows: Lanes) -> Panel:
    """Return the share of the makespan that each device and channel is busy, by kind."""
    whole = max(1, rows.stop_ticks - rows.start_ticks)
    fills = _fills(rows)
    shown = [lane for lane in rows.all if lane.bars]
    boxes = []
    for row, lane in enumerate(shown):
        ticks: dict[tuple[str, int], int] = defaultdict(int)
        for bar in lane.bars:
            ticks[bar.kind, bar.chunk] += bar.length_ticks
        left = 0
        for look in fills:
            if ticks.get(look):
                edges = (100 * left / whole, 100 * (left + ticks[look]) / whole)
                kind = _chunk_name(*look, rows.chunks)
                text = f"{100 * ticks[look] / whole:.1f} %"
                boxes.append(row_box(row, kind, edges, kind, lane.name, tooltip=text))
                left += ticks[look]
    return Panel(
        "Utilisation",
        Axis("share of the makespan", _SHARE),
        rows=[lane.name for lane in shown],
        ends=_busy(shown, rows),
        boxes=boxes,
        fills=_named(fills, rows.chunks),
        summary=True,
    )


def _busy(shown: Iterable[Lane], rows: Lanes) -> list[str]:
    whole = max(1, rows.stop_ticks - rows.start_ticks)
    return [f"{100 * lane.busy_ticks / whole:.0f} % busy" for lane in shown]


def _named(fills: Mapping[tuple[str, int], str], chunks: int) -> dict[str, str]:
    return {_chunk_name(*look, chunks): colour for look, colour in fills.items()}


def _fills(rows: Lanes) -> dict[tuple[str, int], str]:
    """Return the colour of each kind and chunk: that of the kind, paler from chunk to chunk."""
    known = set(rows.looks)
    return {
        (kind, chunk): paler(colour, chunk / (rows.chunks + 1))
        for kind, colour in colours(kind for kind, _ in known).items()
        for chunk in range(rows.chunks)
        if (kind, chunk) in known
    }


def _chunk_name(kind: str, chunk: int, chunks: int) -> str:
    """Return the name of a kind, with its chunk where devices have several."""
    return f"{kind}, chunk {chunk + 1}" if chunks > 1 and kind not in TRANSFERS else kind
