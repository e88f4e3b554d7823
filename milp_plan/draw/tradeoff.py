"""Draws values against the resources that they need: memory, devices, bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .canvas import LINES, figure_legend, new_figure
from .style import drawing_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_SHAPES = "os^Dv*Px"


@dataclass(frozen=True, slots=True)
class Mark:
    """The value of one plan, and the resources that it needs.

    Parameters
    ----------
    series
        Marks of one series share colour, shape and line; ``""`` is not in the legend.
    x, y
        Amount of the resource, and the plan's value; ``None`` without a plan.
    bound
        Lower bound on the value, if there is one.
    best
        Whether no other mark is as good with as little.
    infeasible
        Whether it is proved that there is no plan.
    """

    series: str
    x: float
    y: float | None
    bound: float | None = None
    best: bool = False
    infeasible: bool = False


def tradeoff_figure(
    marks: Sequence[Mark], title: str, labels: tuple[str, str], *, joined: bool = True
) -> Figure:
    """Draw marks: the best ones filled, bounds as ticks below, those without a plan near the axis.

    Parameters
    ----------
    marks, title
        Marks of the figure, and its title.
    labels
        Labels of both axes.
    joined
        Whether a line joins the marks of each series; otherwise one joins the best marks.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    """
    figure = new_figure(6.4, 4.0)
    with drawing_style():
        axes = figure.subplots()
        front = sorted((mark.x, mark.y) for mark in marks if mark.best and mark.y is not None)
        if front and not joined:
            axes.step(*zip(*front, strict=True), where="post", color="0.4", label="front")
        series = list(dict.fromkeys(mark.series for mark in marks))
        for place, name in enumerate(series):
            own = [mark for mark in marks if mark.series == name]
            width = max(0.8, 2.4 - 0.5 * place) if joined else 0.0  # lines on one spot stay visible
            _draw_series(axes, own, place, width)
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        axes.set_title(title, loc="left")
        axes.margins(0.06, 0.12)
        named = axes.get_legend_handles_labels()[0]
        figure_legend(figure, [*named, *_legend_of_shapes(marks)], "outside lower center")
    return figure


def _draw_series(axes: Axes, marks: Sequence[Mark], place: int, width: float) -> None:
    style: dict[str, Any] = {"color": LINES[place % len(LINES)], "markersize": 4.5}
    alone = {**style, "linestyle": "none"}
    shape = _SHAPES[place % len(_SHAPES)]
    points = sorted((mark.x, mark.y) for mark in marks if mark.y is not None)
    best = [(mark.x, mark.y) for mark in marks if mark.best and mark.y is not None]
    line = "-" if width else "none"
    axes.plot(
        *_columns(points),
        shape,
        fillstyle="none",
        label=marks[0].series,
        linestyle=line,
        linewidth=width,
        **style,
    )
    axes.plot(*_columns(best), shape, **alone)
    for mark in marks:
        if mark.y is not None and mark.bound is not None and mark.bound < mark.y:
            axes.plot([mark.x] * 2, [mark.bound, mark.y], color=style["color"], linewidth=0.7)
            axes.plot([mark.x], [mark.bound], "_", **alone)
        elif mark.y is None:
            height, sign = 0.02 + 0.035 * place, "x" if mark.infeasible else "s"
            where = axes.get_xaxis_transform()
            axes.plot([mark.x], [height], sign, fillstyle="none", transform=where, **alone)


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _legend_of_shapes(marks: Sequence[Mark]) -> list[Line2D]:
    """Return entries of the legend for the marks that occur."""
    from matplotlib.lines import Line2D

    planned = [mark for mark in marks if mark.y is not None]
    without = [mark for mark in marks if mark.y is None]
    bounded = any(m.bound is not None and m.y is not None and m.bound < m.y for m in planned)
    known = (
        (any(mark.best for mark in planned), "o", "none better with as much"),
        (bounded, "_", "its bound"),
        (any(mark.infeasible for mark in without), "x", "no plan exists"),
        (any(not mark.infeasible for mark in without), "s", "no plan found"),
    )
    style: dict[str, Any] = {"color": "#555555", "linestyle": "none"}
    return [Line2D([], [], marker=m, label=label, **style) for shown, m, label in known if shown]
