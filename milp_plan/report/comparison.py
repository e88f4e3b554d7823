"""Figures of many runs, from plain data: value against time, performance profile, gaps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milp_plan.draw.canvas import LINES, figure_legend, new_figure
from milp_plan.draw.style import drawing_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES = ("-", "--", "-.", ":")
WIDEST, NARROWEST = 3.4, 1.2
"""Widths of lines, decreasing by planner: lines on top of each other all stay visible."""
_NO_BARS = "every gap is 0 or unknown: there are no bars"
_COLUMNS = 3


@dataclass(frozen=True)
class Curve:
    """Incumbents and bounds of one run over time, in the unit of its instance's file.

    Parameters
    ----------
    planner
        Whose run.
    points
        (seconds, incumbent, bound), in order of time; ``None`` while there is none.
    end_s
        Time at which the run ended.
    """

    planner: str
    points: Sequence[tuple[float, float | None, float | None]]
    end_s: float


@dataclass(frozen=True)
class Panel:
    """Runs on one problem, and the unit of their values."""

    title: str
    unit: str
    curves: Sequence[Curve]


@dataclass(frozen=True)
class Gap:
    """The gap of a run; ``None`` without plan or bound (``why`` has the reason)."""

    title: str
    planner: str
    gap: float | None
    proved: bool
    why: str = ""


@dataclass(frozen=True)
class Look:
    """Style of a planner's line."""

    colour: str
    dash: Any
    width: float


def styles(planners: Sequence[str]) -> dict[str, Look]:
    """Return the style of each planner: colour, width and, beyond the eighth, another dash."""
    count, last = len(LINES), max(1, len(planners) - 1)
    return {
        name: Look(
            LINES[place % count],
            DASHES[place // count % len(DASHES)],
            WIDEST - (WIDEST - NARROWEST) * place / last if len(planners) > 1 else 1.6,
        )
        for place, name in enumerate(planners)
    }


def value_time(panels: Sequence[Panel], title: str) -> Figure:
    """Draw incumbents (bold) and bounds (thin, dashed) against time, a panel per problem.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    """
    names = list(dict.fromkeys(curve.planner for panel in panels for curve in panel.curves))
    looks = styles(names)
    columns = min(_COLUMNS, max(1, len(panels)))
    rows = max(1, math.ceil(len(panels) / columns))
    figure = new_figure(max(4.5, 3.1 * columns), 2.4 * rows + 0.8)
    with drawing_style():
        figure.suptitle(title, fontsize=10)
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            end = max((curve.end_s for curve in panel.curves), default=0.0)
            for curve in panel.curves:
                _steps(axes, curve, looks[curve.planner], end)
            axes.set_title(panel.title, loc="left", fontsize=7)
            axes.set_xlabel("seconds")
            axes.set_ylabel(f"value ({panel.unit})")
            axes.ticklabel_format(axis="y", useOffset=False)
            _zoom(axes, panel)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        _legend(figure, looks, bounds=any(_bounds(c) for p in panels for c in p.curves))
    return figure


def _bounds(curve: Curve) -> list[tuple[float, float]]:
    return [(seconds, bound) for seconds, _, bound in curve.points if bound is not None]


def _values(curve: Curve) -> list[tuple[float, float]]:
    return [(seconds, value) for seconds, value, _ in curve.points if value is not None]


def _steps(axes: Any, curve: Curve, look: Look, end: float) -> None:
    """Draw a run: a dot where its value improves; the last value continues to the end."""
    for line, width, name in (
        (_values(curve), look.width, "value"),
        (_bounds(curve), 0.8, "bound"),
    ):
        if line:
            axes.step(
                [*(seconds for seconds, _ in line), end],
                [*(number for _, number in line), line[-1][1]],
                where="post",
                color=look.colour,
                linestyle=look.dash if name == "value" else (0, (4, 1.5)),
                linewidth=width,
                label=f"{curve.planner} {name}",
            )
    news = [point for place, point in enumerate(_values(curve)) if _is_news(curve, place)]
    axes.plot(*zip(*news, strict=True), "o", color=look.colour, markersize=3) if news else None


def _is_news(curve: Curve, place: int) -> bool:
    line = _values(curve)
    return place == 0 or line[place][1] != line[place - 1][1]


def _zoom(axes: Any, panel: Panel) -> None:
    """Set axis limits around the last values and bounds; the first ones may be far away."""
    last = [line[-1][1] for curve in panel.curves for line in (_values(curve),) if line]
    if not last:
        return
    floor = [line[-1][1] for curve in panel.curves for line in (_bounds(curve),) if line]
    high = max(last) + 0.5 * abs(max(last))
    shown = [v for curve in panel.curves for _, v in _values(curve) if v <= high]
    low, top = min([*floor, *last]), max(shown)
    margin = 0.08 * (top - low) or 0.05 * abs(top) or 1.0
    axes.set_ylim(low - margin, top + margin)


def _legend(figure: Any, looks: Mapping[str, Look], *, bounds: bool) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=look.colour, linestyle=look.dash, linewidth=look.width, label=name)
        for name, look in looks.items()
    ]
    if bounds:
        handles.append(
            Line2D([], [], color="#666666", linewidth=0.8, linestyle=(0, (4, 1.5)), label="bound")
        )
    figure_legend(figure, handles, "outside lower center")


def performance_profile(values: Mapping[str, Sequence[float | None]], title: str) -> Figure:
    """Draw, per planner, the fraction of problems within a ratio of the best planner's value.

    Source: Dolan and Moré, "Benchmarking optimization software with performance profiles",
    Mathematical Programming 91, 2002. A planner without a plan is within no ratio.

    Parameters
    ----------
    values
        Planner -> value per problem, all in the same order.
    title
        Title above the figure.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    """
    ratios = profile(values)
    finite = [ratio for line in ratios.values() for ratio in line if math.isfinite(ratio)]
    end = min(10.0, max([1.05, *finite]) ** 1.05)
    looks = styles(list(ratios))
    figure = new_figure(5.6, 3.6)
    with drawing_style():
        axes = figure.subplots()
        for name, line in ratios.items():
            steps = sorted(ratio for ratio in line if ratio <= end)
            shares = [(place + 1) / len(line) for place in range(len(steps))]
            axes.step(
                [1.0, *steps, end],
                [0.0, *shares, shares[-1] if shares else 0.0],
                where="post",
                color=looks[name].colour,
                linestyle=looks[name].dash,
                linewidth=looks[name].width,
                label=name,
            )
        axes.set_xscale("log")
        axes.set_xlim(1.0, end)
        axes.set_ylim(0.0, 1.03)
        ticks = [tick for tick in _ticks(end) if tick <= end]
        axes.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("value over the best planner's value (log scale)")
        count = len(next(iter(ratios.values()), []))
        axes.set_ylabel(f"fraction of {count} problems")
        axes.set_title(title, loc="left")
        if count:
            axes.legend(frameon=False, loc="lower right")
        else:
            _say_empty(axes, "no run has a plan: nothing to compare")
    return figure


def _say_empty(axes: Axes, why: str) -> None:
    """Write into empty axes why they are empty."""
    axes.text(0.5, 0.5, why, ha="center", va="center", transform=axes.transAxes, color="0.4")


def _ticks(end: float) -> list[float]:
    for ticks in ((1, 1.01, 1.02, 1.03, 1.04, 1.05), (1, 1.05, 1.1, 1.15, 1.2, 1.3)):
        if end <= ticks[-1]:
            return list(ticks)
    return [1, 1.1, 1.2, 1.5, 2, 3, 4, 5, 7, 10] if end > 2 else [1, 1.1, 1.2, 1.3, 1.5, 1.7, 2]


def profile(values: Mapping[str, Sequence[float | None]]) -> dict[str, list[float]]:
    """Return the ratio of each planner's value to the best, per problem with a plan."""
    columns = list(zip(*values.values(), strict=True))
    best = [min((v for v in column if v is not None), default=None) for column in columns]
    known = [place for place, value in enumerate(best) if value is not None]
    return {
        name: [_ratio(line[place], best[place]) for place in known] for name, line in values.items()
    }


def _ratio(value: float | None, best: float | None) -> float:
    if value is None or best is None:
        return math.inf
    if best == 0:
        return 1.0 if value == 0 else math.inf
    return value / best


def gaps(bars: Sequence[Gap], title: str) -> Figure:
    """Draw the gap of every run as a bar; proved runs and runs without a gap have labels.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    """
    problems = list(dict.fromkeys(bar.title for bar in bars))
    planners = list(dict.fromkeys(bar.planner for bar in bars))
    looks = styles(planners)
    height = 0.8 / max(1, len(planners))
    most = max((100 * bar.gap for bar in bars if bar.gap is not None), default=1.0) or 1.0
    inches = max(2.2, 0.6 + 0.17 * len(problems) * max(1.4, len(planners)))
    figure = new_figure(6.4, inches)
    with drawing_style():
        axes = figure.subplots()
        for bar in bars:
            place = problems.index(bar.title) - 0.4 + height * (planners.index(bar.planner) + 0.5)
            colour = looks[bar.planner].colour
            share = 0.0 if bar.gap is None else 100 * bar.gap
            axes.barh(place, share, height=0.9 * height, color=colour)
            label = "proved" if bar.proved else bar.why or f"{share:.2g} %"
            axes.text(share + 0.01 * most, place, label, va="center", fontsize=6, color=colour)
        if not bars:
            _say_empty(axes, "no run has a plan and a bound")
        elif not any(bar.gap for bar in bars):
            axes.text(0.98, 0.02, _NO_BARS, transform=axes.transAxes, ha="right", va="bottom")
        axes.set_yticks(range(len(problems)), labels=problems)
        axes.set_ylim(max(1, len(problems)) - 0.5, -0.5)
        axes.set_xlim(0, 1.15 * most)
        axes.set_xlabel("gap = (value − bound) / value, %")
        axes.set_title(title, loc="left")
        if len(planners) > 1:
            from matplotlib.patches import Patch

            handles = [Patch(color=looks[name].colour, label=name) for name in planners]
            axes.legend(handles=handles, frameon=False, loc="lower right")
    return figure
