"""Pictures of pipelines: schedules one above the other, and time against memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milp_plan.core import Operator, Plan, PlanningProblem
from milp_plan.core.schedule import schedule
from milp_plan.draw.canvas import (
    axis_label,
    colours,
    figure_legend,
    ink,
    new_figure,
    paler,
    time_scale,
)
from milp_plan.draw.lanes import chunks
from milp_plan.draw.style import drawing_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 11.0
_LANE_INCHES = 0.22
_PLOT_POINTS = 72 * _WIDTH * 0.88
_DIGIT_POINTS = 3.6
_TEXT: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 5.5}
_OTHER_WAY = "other direction"
_MARKS = "osv^D*Px"
_LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


@dataclass(frozen=True)
class Panel:
    """A schedule with the words above it."""

    title: str
    problem: PlanningProblem
    plan: Plan


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """What one plan costs.

    Parameters
    ----------
    series
        Plans of one series share a colour, for example a placement.
    memory, time
        Peak memory and time, in the source's units.
    bound
        Lower bound on the time under the same memory limit, if known.
    on_front
        Whether no other plan is better in both.
    """

    series: str
    memory: float
    time: float
    bound: float | None = None
    on_front: bool = False


def schedules(panels: Sequence[Panel]) -> Figure:
    """Draw schedules of pipelines one above the other, on one time axis.

    A row per device; each box is an operator with its micro-batch inside, coloured by kind. Boxes
    are paler from chunk to chunk where devices have several (interleaved placements), or where
    micro-batches take another way through the devices than the first one (bidirectional ones); the
    legend says which.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    MissingFacetError
        A plan has no schedule.
    """
    from matplotlib.patches import Patch

    heights = [len(panel.problem.cluster.devices) * _LANE_INCHES for panel in panels]
    figure = new_figure(_WIDTH, sum(heights) + 0.45 * len(panels) + 0.8)
    kinds = [op.kind for panel in panels for op in panel.problem.graph.operators]
    fill = colours(dict.fromkeys(kinds))
    stop = max(panel.plan.stop_ns for panel in panels)
    with drawing_style():
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)
        shades: dict[tuple[str, str], str] = {}
        for axes, panel in zip(grid[:, 0], panels, strict=True):
            shades |= _draw(axes, panel, fill, stop)
        scale = time_scale(panels[0].problem.units, stop)
        grid[-1, 0].set_xlabel(axis_label("time", scale))
        order = sorted(shades, key=lambda shade: (list(fill).index(shade[0]), shade[1]))
        handles = [
            Patch(facecolor=shades[kind, shade], label=f"{kind}, {shade}" if shade else kind)
            for kind, shade in order
        ]
        figure_legend(figure, handles, "outside lower right")
    return figure


def _draw(axes: Axes, panel: Panel, fill: dict[str, str], stop: int) -> dict[tuple[str, str], str]:
    """Draw one schedule; return the colour of each kind and shade in it."""
    problem = panel.problem
    scale = time_scale(problem.units, stop)
    rows = {name: row for row, name in enumerate(problem.cluster.device_names)}
    shade_of = _shades(problem, panel.plan)
    shades: dict[tuple[str, str], str] = {}
    end = 0
    for run in panel.plan.runs:
        assert run.start_ns is not None
        assert run.stop_ns is not None
        operator = problem.graph.operator(run.operator)
        end = max(end, run.stop_ns)
        for device in run.devices:
            box = (scale(run.start_ns), scale(run.stop_ns - run.start_ns))
            shade, share = shade_of.get((device, run.operator), ("", 0.0))
            colour = shades.setdefault((operator.kind, shade), paler(fill[operator.kind], share))
            place = (rows[device] - 0.44, 0.88)
            axes.broken_barh([box], place, facecolors=colour, edgecolors="white", linewidth=0.4)
            label = _label(operator)
            points = (run.stop_ns - run.start_ns) / stop * _PLOT_POINTS
            if label and len(label) * _DIGIT_POINTS + 1 <= points:
                middle = box[0] + box[1] / 2
                axes.text(middle, rows[device], label, color=ink(colour), **_TEXT)
    axes.axvline(scale(end), color="black", linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, scale(stop) * 1.01)
    axes.tick_params(axis="y", length=0)
    axes.set_title(panel.title, loc="left")
    return shades


def _shades(problem: PlanningProblem, plan: Plan) -> dict[tuple[str, str], tuple[str, float]]:
    """What the shade of an operator on a device says, and how pale it is."""
    tasks = [t for t in schedule(problem, plan) if problem.graph.has_operator(t.name)]
    second = _second_way(problem, plan)
    if second:
        return {
            (device, task.name): (_OTHER_WAY, 0.5)
            for task in tasks
            if problem.graph.operator(task.name).micro_batch in second
            for device in task.resources
        }
    found = chunks(problem, tasks)
    count = 1 + max(found.values(), default=0)
    if count == 1:
        return {}
    return {place: (f"chunk {c + 1}", c / (count + 1)) for place, c in found.items()}


def _label(operator: Operator) -> str:
    """Micro-batch; of operators fused from several, the micro-batches of its parts."""
    if operator.micro_batch is not None:
        return str(operator.micro_batch)
    parts = [part.rpartition("@")[2] for part in operator.name.split("&") if "@" in part]
    return "+".join(dict.fromkeys(parts))


def _second_way(problem: PlanningProblem, plan: Plan) -> set[int]:
    """Micro-batches whose first stage lies elsewhere than that of the first micro-batch."""
    first: dict[int, tuple[int, tuple[str, ...]]] = {}
    for run in plan.runs:
        batch = problem.graph.operator(run.operator).micro_batch
        if batch is None or run.start_ns is None:
            continue
        if batch not in first or run.start_ns < first[batch][0]:
            first[batch] = (run.start_ns, run.devices)
    if not first:
        return set()
    usual = first[min(first)][1]
    return {batch for batch, (_, devices) in first.items() if devices != usual}


def time_and_memory(points: Sequence[FrontPoint], title: str, labels: tuple[str, str]) -> Figure:
    """Draw time against peak memory: every plan, its bound below it, and the Pareto front.

    Parameters
    ----------
    points
        Plans.
    title
        Above the figure.
    labels
        Of the memory axis and the time axis.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    """
    figure = new_figure(6.4, 4.0)
    front = sorted((p.memory, p.time) for p in points if p.on_front)
    with drawing_style():
        axes = figure.subplots()
        if front:
            memories, times = zip(*front, strict=True)
            axes.step(memories, times, where="post", color="0.4", linewidth=1.0, label="front")
        for place, series in enumerate(dict.fromkeys(point.series for point in points)):
            _draw_series(axes, [p for p in points if p.series == series], series, place)
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        axes.set_title(title, loc="left")
        axes.margins(0.06)
        axes.legend(frameon=False)
    return figure


def _draw_series(axes: Axes, points: list[FrontPoint], series: str, place: int) -> None:
    colour, mark = _LINES[place % len(_LINES)], _MARKS[place % len(_MARKS)]
    style: dict[str, Any] = {"color": colour, "linestyle": "none", "markersize": 4.5}
    xs, ys = [p.memory for p in points], [p.time for p in points]
    axes.plot(xs, ys, mark, fillstyle="none", label=series, **style)
    for point in points:
        if point.bound is not None and point.bound < point.time:
            axes.plot([point.memory] * 2, [point.bound, point.time], color=colour, linewidth=0.7)
            axes.plot([point.memory], [point.bound], "_", **style)
    winners = [p for p in points if p.on_front]
    axes.plot([p.memory for p in winners], [p.time for p in winners], mark, **style)
