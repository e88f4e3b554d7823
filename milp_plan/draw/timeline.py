"""The timeline of a plan: lanes of devices and channels, memory against its limits below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from textwrap import fill as fill_text
from typing import TYPE_CHECKING, Any

from milp_plan.check import critical_chain, replay, verify
from milp_plan.core import Plan, PlanningProblem, Units
from milp_plan.core.schedule import AGAIN

from .canvas import (
    FULL,
    MEMORY,
    Scale,
    axis_label,
    chunk_name,
    figure_legend,
    ink,
    looks,
    new_figure,
    size_scale,
    time_scale,
)
from .lanes import MOST_CHANNELS, MOST_TASKS, Bar, Lane, Lanes, idle_note, lanes
from .style import drawing_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from milp_plan.check.replay import DeviceMemory

_WIDTH = 11.0
_FEW_LANES = 16
_EDGE_POINTS = 5.0
"""Bars wider than this have a white edge; thinner ones an edge of their own colour, to be seen."""
_PLOT_SHARE = 0.78
"""Share of the figure's width that the lanes take, on the safe side."""
_LABEL_POINTS = 6.0
_CHARACTER_POINTS = 0.6 * _LABEL_POINTS
"""Width of a character, on the safe side, in the font of the labels."""
_LABEL: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": _LABEL_POINTS}
_MOST_LANES = 48
"""Devices that are drawn; of channels half as many."""
_MOST_MEMORIES = 24
_NOTE_LETTERS = 190
_MEMORY_ALPHA = 0.55
_CHAIN = "critical path"
_FILL_SHARE = 0.12
"""A limit is left above the picture where the peak stays below this share of it."""


def timeline(
    problem: PlanningProblem,
    plan: Plan,
    most_tasks: int = MOST_TASKS,
    most_channels: int = MOST_CHANNELS,
) -> Figure:
    """Draw a plan.

    Parameters
    ----------
    problem, plan
        The plan needs a schedule; it is drawn as it stands, valid or not.
    most_tasks, most_channels
        Sizes above which neighbouring tasks of one kind, and the channels of one sender, are
        drawn together; the figure then says so.

    Returns
    -------
    matplotlib.figure.Figure
        First axes: one lane per device that runs something, then per channel or port in use, each
        with the share of time it is busy; a line under what the makespan hangs on. Then one axes
        per device with the bytes it holds over time and its limit. Of many lanes the busiest are
        drawn, and the figure says so.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    MissingFacetError
        The plan has no schedule.
    """
    chain = critical_chain(problem, plan) if verify(problem, plan).ok else ()
    rows = lanes(problem, plan, most_tasks, most_channels, chain)
    memory = replay(problem, plan).devices
    rows, memory, notes = _fitted(rows, memory)
    lane_inches, memory_inches = _row_inches(len(rows.all))
    heights = [lane_inches * max(1, len(rows.all)) + 0.2, *[memory_inches] * len(memory)]
    figure = new_figure(_WIDTH, sum(heights) + 1.1)
    with drawing_style():
        grid = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)
        axes = list(grid[:, 0])
        time = time_scale(problem.units, rows.stop_ns)
        fill = looks(rows.looks, rows.chunks)
        _draw_lanes(axes[0], rows, time, fill)
        axes[0].set_title(_title(problem, plan, time, memory), loc="left")
        size = size_scale(problem.units, max(entry.peak_bytes for entry in memory.values()))
        top = _memory_top(memory)
        for panel, entry in zip(axes[1:], memory.values(), strict=True):
            _draw_memory(panel, entry, (rows.start_ns, rows.stop_ns), (time, size), top)
            _say_memory(panel, entry, problem.units, top)
        axes[1].set_title(axis_label("memory", size), loc="left", pad=3, fontsize=8)
        axes[-1].set_xlabel(axis_label("time", time))
        axes[-1].set_xlim(time(rows.start_ns), time(max(rows.stop_ns, rows.start_ns + 1)))
        critical = any(bar.critical for lane in rows.all for bar in lane.bars)
        _draw_legend(figure, fill, rows.chunks, critical=critical)
        if notes:
            told = fill_text(" ".join(notes), _NOTE_LETTERS)
            figure.supxlabel(told, x=0.01, ha="left", fontsize=7)
    return figure


def _fitted(
    rows: Lanes, memory: Mapping[str, DeviceMemory]
) -> tuple[Lanes, dict[str, DeviceMemory], tuple[str, ...]]:
    """Leave out what is empty, and of many lanes those that are least busy; say so."""
    notes = list(rows.notes)
    compute = [lane for lane in rows.compute if lane.bars]
    notes += idle_note(rows)
    transfer = list(rows.transfer)
    most = {"devices": (compute, _MOST_LANES), "channels": (transfer, _MOST_LANES // 2)}
    for what, (found, limit) in most.items():
        if len(found) > limit:
            notes.append(f"The {limit} busiest of {len(found)} {what} are drawn.")
    compute, transfer = (_busiest(*entry) for entry in most.values())
    held = [entry for entry in memory.values() if entry.peak_bytes] or [*memory.values()][:1]
    fullest = sorted(held, key=lambda entry: -_fullness(entry))[:_MOST_MEMORIES]
    if len(held) > len(fullest):
        notes.append(f"Memory of the {len(fullest)} fullest of {len(held)} devices is drawn.")
    kept = {entry.device for entry in fullest}
    shown = {name: entry for name, entry in memory.items() if name in kept}
    return replace(rows, compute=tuple(compute), transfer=tuple(transfer)), shown, tuple(notes)


def _busiest(found: Sequence[Lane], most: int) -> list[Lane]:
    """Lanes that are busy longest, in their own order."""
    kept = sorted(range(len(found)), key=lambda place: -found[place].busy_ns)[:most]
    return [found[place] for place in sorted(kept)]


def _fullness(entry: DeviceMemory) -> float:
    return entry.peak_bytes / (entry.limit_bytes or 2**63)


def _row_inches(num_lanes: int) -> tuple[float, float]:
    """Height of a lane and of a memory panel; many rows are lower."""
    return (0.3, 0.5) if num_lanes <= _FEW_LANES else (0.2, 0.34)


def _title(
    problem: PlanningProblem, plan: Plan, time: Scale, memory: Mapping[str, DeviceMemory]
) -> str:
    peak = _bytes(problem.units, max(entry.peak_bytes for entry in memory.values()))
    planner = f", planned by {plan.planner}" if plan.planner else ""
    return f"{problem.name}: makespan {time.text(plan.stop_ns)}, peak memory {peak}{planner}"


def _bytes(units: Units, num_bytes: int) -> str:
    return size_scale(units, num_bytes).text(num_bytes)


def _draw_lanes(axes: Axes, rows: Lanes, time: Scale, fill: Mapping[tuple[str, int], str]) -> None:
    span = max(rows.stop_ns - rows.start_ns, 1)
    points_per_tick = 72 * _WIDTH * _PLOT_SHARE / span
    for row, lane in enumerate(rows.all):
        see_through = rows.overlapping and row >= len(rows.compute)
        for look, colour in fill.items():
            bars = [bar for bar in lane.bars if (bar.kind, bar.chunk) == look]
            if bars:
                wide = [bar.length_ns * points_per_tick > _EDGE_POINTS for bar in bars]
                axes.broken_barh(
                    [(time(bar.start_ns), time(bar.length_ns)) for bar in bars],
                    (row - 0.42, 0.84),
                    facecolors=colour,
                    edgecolors=["white" if yes else colour for yes in wide],
                    linewidth=0.4,
                    hatch=_hatch(look[0]),
                    alpha=0.6 if see_through else None,
                    label=chunk_name(*look, rows.chunks),
                )
        for bar in lane.bars:
            label = _label(bar, bar.length_ns * points_per_tick)
            if label:
                middle = time(bar.start_ns) + time(bar.length_ns) / 2
                over = ink(fill[bar.kind, bar.chunk])
                axes.text(middle, row, label, color=over, clip_on=True, **_LABEL)
    _draw_chain(axes, rows, time)
    if rows.transfer:
        axes.axhline(len(rows.compute) - 0.5, color="0.6", linewidth=0.6)
    whole = max(rows.stop_ns - min(rows.start_ns, 0), 1)
    axes.set_yticks(range(len(rows.all)), [lane.name for lane in rows.all])
    axes.set_ylim(max(len(rows.all), 1) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    for row, lane in enumerate(rows.all):
        axes.annotate(
            f"{100 * lane.busy_ns / whole:.0f} % busy",
            (1.0, row),
            xytext=(4, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            fontsize=_LABEL_POINTS,
        )


def _draw_chain(axes: Axes, rows: Lanes, time: Scale) -> None:
    """Underline the tasks that the makespan hangs on."""
    lines = [
        [(time(bar.start_ns), row + 0.42), (time(bar.stop_ns), row + 0.42)]
        for row, lane in enumerate(rows.all)
        for bar in lane.bars
        if bar.critical
    ]
    if lines:
        from matplotlib.collections import LineCollection

        axes.add_collection(
            LineCollection(lines, colors="black", linewidths=1.6, label=_CHAIN, capstyle="butt")
        )


def _hatch(kind: str) -> str | None:
    """What runs again is hatched."""
    return "/////" if kind.endswith(AGAIN) else None


def _label(bar: Bar, points: float) -> str:
    """Return the longest form of the label that fits: all of it, the value, the micro-batch."""
    value = bar.label.partition(" to ")[0]
    batch = value[value.rfind("@") :] if "@" in value else ""
    for label in (bar.label, value, batch):
        if label and len(label) * _CHARACTER_POINTS + 2 <= points:
            return label
    return ""


def _draw_legend(
    figure: Figure, fill: Mapping[tuple[str, int], str], chunks: int, *, critical: bool
) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(
            facecolor=colour,
            hatch=_hatch(look[0]),
            edgecolor="white",
            label=chunk_name(*look, chunks),
        )
        for look, colour in fill.items()
    ]
    if critical:
        handles.append(Line2D([], [], color="black", linewidth=1.6, label=_CHAIN))
    handles.append(Patch(color=MEMORY, alpha=_MEMORY_ALPHA, label="memory"))
    figure_legend(figure, handles, "outside upper right")


def _memory_top(memory: Mapping[str, DeviceMemory]) -> int:
    """Upper end of all memory axes: the limits too, unless the curves would lie flat below."""
    peak = max(entry.peak_bytes for entry in memory.values())
    limits = [entry.limit_bytes for entry in memory.values() if entry.limit_bytes is not None]
    near = [limit for limit in limits if limit * _FILL_SHARE <= peak]
    return max(peak, *near, 1) if near else max(peak, 1)


def _draw_memory(
    axes: Axes,
    entry: DeviceMemory,
    span: tuple[int, int],
    scales: tuple[Scale, Scale],
    top: int,
) -> None:
    time, size = scales
    times = [max(at, span[0]) for at, _ in entry.steps]
    held = [num_bytes for _, num_bytes in entry.steps]
    axes.fill_between(
        [*(time(at) for at in times), time(max(span[1], times[-1]))],
        [*(size(num_bytes) for num_bytes in held), size(held[-1])],
        step="post",
        color=MEMORY,
        alpha=_MEMORY_ALPHA,
        linewidth=0,
    )
    limit = entry.limit_bytes
    if limit is not None and limit <= top:
        axes.axhline(size(limit), color=FULL, linewidth=1.0, linestyle="--", label="limit")
    axes.set_ylim(0, size(top) * 1.08)
    axes.set_ylabel(entry.device, rotation=0, ha="right", va="center", fontsize=7)
    axes.locator_params(axis="y", nbins=2)


def _say_memory(axes: Axes, entry: DeviceMemory, units: Units, top: int) -> None:
    limit = entry.limit_bytes
    said = f"peak {_bytes(units, entry.peak_bytes)}\n"
    said += "no limit" if limit is None else f"limit {_bytes(units, limit)}"
    if limit is not None and limit > top:
        said += " (above)"
    axes.annotate(
        said,
        (1.0, 0.5),
        xytext=(4, 0),
        xycoords="axes fraction",
        textcoords="offset points",
        va="center",
        fontsize=_LABEL_POINTS,
    )
