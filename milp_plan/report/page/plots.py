"""Panels as plots of Bokeh, whose canvas is fast with tens of thousands of boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from milp_plan.core import BackendUnavailableError
from milp_plan.draw.panels import Box, Panel, span

if TYPE_CHECKING:
    from bokeh.plotting import figure

BOXES, CRITICAL, FOUND = "boxes", "critical", "found"
"""Names of renderers that the page's script shows, hides and fills."""

_ROW_PIXELS, _MANY_ROW_PIXELS, _MANY = 26, 16, 24
_PLOT_PIXELS = 300
_LEFT_PIXELS = 150
_NAME_LETTERS, _END_LETTERS = 24, 9
_STRIP = 0.22
_EDGES = ("left", "right", "low", "high")
_FEW_ROWS = 10
_WORDS = ("name", "kind", "row", "tooltip")
_MOST_EDGED = 300
"""Maximum average boxes of a row with edges between neighbours of one kind."""


def need_bokeh() -> None:
    """Raise an error with advice if the library is missing.

    Raises
    ------
    BackendUnavailableError
        Bokeh is not installed.
    """
    try:
        import bokeh.plotting  # noqa: F401
        import jinja2  # noqa: F401
    except ImportError as error:
        raise BackendUnavailableError(
            "reports need Bokeh, which is not installed; "
            "install it with: pip install 'milp_plan[report]'"
        ) from error


class Plots:
    """Plots of one page; plots of one kind of problem with equal axes move together."""

    def __init__(self) -> None:
        self._ranges: dict[tuple[str, str], Any] = {}
        self._spans: dict[tuple[str, str], tuple[float, float]] = {}

    def plan(self, kind: str, panels: Sequence[Panel]) -> None:
        """Record the ranges of the axes of a kind's panels, before any is drawn."""
        for panel in panels:
            low, high = span(panel)
            known = self._spans.get((kind, panel.x.label), (low, high))
            self._spans[kind, panel.x.label] = (min(low, known[0]), max(high, known[1]))

    def plot(self, kind: str, panel: Panel, name: str) -> figure:
        """Return the plot of a panel."""
        from bokeh.models import (
            BoxZoomTool,
            PanTool,
            Range1d,
            ResetTool,
            SaveTool,
            WheelPanTool,
            WheelZoomTool,
        )
        from bokeh.plotting import figure

        label = (kind, panel.x.label)
        if label not in self._ranges:
            low, high = self._spans[label]
            space = 0.01 * (high - low)
            edges = {"start": low - space, "end": high + space}
            self._ranges[label] = Range1d(**edges, bounds=tuple(edges.values()))
        sideways = "width" if panel.rows else "both"
        zoom = WheelZoomTool(dimensions=sideways, modifiers={"ctrl": True})
        plot = figure(
            name=name,
            title=None,
            height=_height(panel),
            sizing_mode="stretch_width",
            x_range=self._ranges[label],
            tools=[
                PanTool(dimensions=sideways),
                BoxZoomTool(dimensions=sideways),
                zoom,
                WheelPanTool(dimension="width", modifiers={"shift": True}),
                ResetTool(),
                SaveTool(filename=name),
            ],
            active_scroll=zoom,
            min_border_left=_LEFT_PIXELS,
            min_border_right=20,
            x_axis_label=panel.x.label,
        )
        plot.toolbar.logo = None
        if panel.rows:  # the page has buttons, and few rows no space for a toolbar
            plot.toolbar_location = None
        plot.background_fill_color = None
        plot.border_fill_color = None
        plot.outline_line_color = None
        if panel.rows:
            _set_rows(plot, panel)
        elif panel.y is not None:
            plot.yaxis.axis_label = panel.y.label
            if panel.from_zero:
                plot.y_range.start = 0
        if panel.boxes:
            _draw_boxes(plot, panel)
        _draw_curves(plot, panel)
        return plot


def _height(panel: Panel) -> int:
    if not panel.rows:
        return _PLOT_PIXELS
    each = _MANY_ROW_PIXELS if len(panel.rows) > _MANY else _ROW_PIXELS
    return 60 + round(each * panel.row_height * len(panel.rows))


def _set_rows(plot: figure, panel: Panel) -> None:
    from bokeh.models import FixedTicker, PlainText, Range1d

    names: Sequence[str] = panel.rows
    if panel.ends:
        names = [f"{row}: {end}" for row, end in zip(panel.rows, panel.ends, strict=True)]
    plot.y_range = Range1d(len(names) - 0.5, -0.5)
    plot.yaxis.ticker = FixedTicker(ticks=list(range(len(names))))
    plot.yaxis.major_label_overrides = {
        row: PlainText(text=short_name(name)) for row, name in enumerate(names)
    }
    plot.yaxis.major_tick_line_color = None
    plot.ygrid.visible = False


def short_name(name: str) -> str:
    """Return a text cut in the middle; its end has the numbers."""
    if len(name) <= _NAME_LETTERS:
        return name
    return f"{name[: _NAME_LETTERS - _END_LETTERS - 1]}…{name[-_END_LETTERS:]}"


def _strip(box: Box) -> Box:
    """Return the lower edge of a box's tooltip, which leaves the box visible."""
    return replace(box, low=box.high - _STRIP * (box.high - box.low))


def _columns(boxes: Sequence[Box]) -> dict[str, Any]:
    """Return the columns of a data source of boxes: edges, texts, and lengths."""
    edges = {name: np.array([getattr(box, name) for box in boxes], float) for name in _EDGES}
    words = {name: [getattr(box, name) for box in boxes] for name in _WORDS}
    return edges | words | {"length": edges["right"] - edges["left"]}


def _draw_boxes(plot: figure, panel: Panel) -> None:
    from bokeh.models import ColumnDataSource, HoverTool
    from bokeh.transform import factor_cmap

    fill = factor_cmap("kind", list(panel.fills.values()), list(panel.fills))
    edges = {"left": "left", "right": "right", "bottom": "low", "top": "high"}
    source = ColumnDataSource(_columns(panel.boxes))
    drawn = plot.quad(**edges, source=source, fill_color=fill, line_color=None, name=BOXES)
    if len(panel.boxes) <= _MOST_EDGED * (len(panel.rows) or _FEW_ROWS):
        drawn.glyph.line_color, drawn.glyph.line_width = "white", 0.7
    drawn.nonselection_glyph = drawn.selection_glyph = None
    chain = [_strip(box) for box in panel.boxes if box.critical]
    if chain:
        strips = ColumnDataSource(_columns(chain))
        plot.quad(**edges, source=strips, fill_color="black", line_color=None, name=CRITICAL)
    if panel.searched:
        none = ColumnDataSource(_columns([]))
        plot.quad(**edges, source=none, fill_color=None, line_width=3, name=FOUND)
    plot.add_tools(HoverTool(renderers=[drawn], tooltips=_tooltips(panel)))


def _tooltips(panel: Panel) -> list[tuple[str, str]]:
    unit = f" {panel.x.scale.unit}" if panel.x.scale.unit else ""
    number = "{0,0.[0000]}"
    lines = [("name", "@name"), ("kind", "@kind")]
    lines += [("on", "@row")] if panel.rows else []
    lines += [("", "@tooltip")] if any(box.tooltip for box in panel.boxes) else []
    along = (f"@left{number} to @right{number}{unit}", f"@length{number}{unit}")
    return [*lines, (panel.x.what, along[0]), ("length", along[1])]


def _draw_curves(plot: figure, panel: Panel) -> None:
    from bokeh.models import ColumnDataSource, HoverTool

    lines = []
    for curve in panel.curves:
        xs, ys = zip(*curve.points, strict=True) if curve.points else ((), ())
        source = ColumnDataSource({"x": xs, "y": ys, "name": [curve.name] * len(xs)})
        style = {"line_color": curve.colour, "line_width": 1 if curve.limit else 2}
        style["line_dash"] = "dashed" if curve.limit else "solid"
        plot.step("x", "y", source=source, mode="after", **style)
        lines.append(plot.scatter("x", "y", source=source, size=4, color=curve.colour))
    if lines and panel.y is not None:
        number = "{0,0.[0000]}"
        lines_of_tooltip = [
            ("", "@name"),
            (panel.x.what, f"@x{number}"),
            (panel.y.what, f"@y{number}"),
        ]
        plot.add_tools(HoverTool(renderers=lines, tooltips=lines_of_tooltip))
