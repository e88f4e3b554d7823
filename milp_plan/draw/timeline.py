"""The timeline of a plan: lanes of devices and channels, memory against its limits below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from milp_plan.check import replay
from milp_plan.core import Plan, PlanningProblem, Units
from milp_plan.core.schedule import AGAIN

from .canvas import (
    Scale,
    axis_label,
    colours,
    drawing_style,
    ink,
    new_figure,
    size_scale,
    time_scale,
)
from .lanes import MOST_CHANNELS, MOST_TASKS, Bar, Lanes, lanes

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
        First axes: one lane per device, then per channel or port in use. Then one axes per
        device with the bytes it holds over time and its limit.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    MissingFacetError
        The plan has no schedule.
    """
    rows = lanes(problem, plan, most_tasks, most_channels)
    memory = replay(problem, plan).devices
    lane_inches, memory_inches = _row_inches(len(rows.all))
    heights = [lane_inches * len(rows.all) + 0.2, *[memory_inches] * len(memory)]
    figure = new_figure(_WIDTH, sum(heights) + 1.1)
    with drawing_style():
        grid = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)
        axes = list(grid[:, 0])
        time = time_scale(problem.units, rows.stop_ns)
        fill = colours(rows.kinds)
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
        _draw_legend(figure, fill)
        if rows.notes:
            figure.supxlabel(" ".join(rows.notes), x=0.01, ha="left", fontsize=7)
    return figure


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


def _draw_lanes(axes: Axes, rows: Lanes, time: Scale, fill: Mapping[str, str]) -> None:
    span = max(rows.stop_ns - rows.start_ns, 1)
    points_per_tick = 72 * _WIDTH * _PLOT_SHARE / span
    for row, lane in enumerate(rows.all):
        see_through = rows.overlapping and row >= len(rows.compute)
        for kind in rows.kinds:
            bars = [bar for bar in lane.bars if bar.kind == kind]
            if bars:
                wide = [bar.length_ns * points_per_tick > _EDGE_POINTS for bar in bars]
                axes.broken_barh(
                    [(time(bar.start_ns), time(bar.length_ns)) for bar in bars],
                    (row - 0.42, 0.84),
                    facecolors=fill[kind],
                    edgecolors=["white" if yes else fill[kind] for yes in wide],
                    linewidth=0.4,
                    hatch=_hatch(kind),
                    alpha=0.6 if see_through else None,
                    label=kind,
                )
        for bar in lane.bars:
            label = _label(bar, bar.length_ns * points_per_tick)
            if label:
                middle = time(bar.start_ns) + time(bar.length_ns) / 2
                over = ink(fill[bar.kind])
                axes.text(middle, row, label, color=over, clip_on=True, **_LABEL)
    if rows.transfer:
        axes.axhline(len(rows.compute) - 0.5, color="0.6", linewidth=0.6)
    axes.set_yticks(range(len(rows.all)), [lane.name for lane in rows.all])
    axes.set_ylim(len(rows.all) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


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


def _draw_legend(figure: Figure, fill: Mapping[str, str]) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=colour, hatch=_hatch(kind), edgecolor="white", label=kind)
        for kind, colour in fill.items()
    ]
    figure.legend(
        handles=handles,
        loc="outside upper right",
        ncols=len(handles) or 1,
        frameon=False,
        handlelength=1.0,
        columnspacing=1.2,
    )


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
        color="#0072B2",
        alpha=0.35,
        linewidth=0,
    )
    limit = entry.limit_bytes
    if limit is not None and limit <= top:
        axes.axhline(size(limit), color="#D55E00", linewidth=1.0, linestyle="--", label="limit")
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
