"""Draws panels with matplotlib: below each other, and several plans next to each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from textwrap import fill as fill_text
from typing import TYPE_CHECKING, Any

from milp_plan.core.schedule import AGAIN

from .canvas import figure_legend, ink, new_figure
from .panels import Box, Curve, Panel, span
from .style import drawing_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _MOST_INCHES = 11.0, 40.0
_ROW_INCHES, _LOW_ROW_INCHES, _FEW_ROWS = 0.3, 0.2, 16
_PLOT_INCHES = 2.6
"""Height of a panel without rows."""
_MOST_ROWS = 48
_MOST_BOXES, _MOST_IN_ROW = 400, 100
"""Boxes of a panel with rows, and per row on average, above which equal neighbours merge."""
_GAPS = 500
"""Maximum gap between merged neighbours, as a fraction of the panel."""
_MOST_NAMED = 24
"""Maximum number of entries of a legend."""
_EDGE_POINTS = 5.0
"""Points from which boxes have a white edge; thinner ones have an edge of their own colour."""
_MOST_EDGED = 3_000
"""Maximum boxes of a panel without rows with white edges."""
_PLOT_SHARE = 0.78
"""Conservative share of the width of the axes."""
_LABEL_POINTS = 6.0
_CHARACTER_POINTS = 0.6 * _LABEL_POINTS
"""Conservative width of a character in the font of labels."""
_NOTE_LETTERS = 190
_CRITICAL = "critical path"


def panels_figure(columns: Sequence[tuple[str, Sequence[Panel]]]) -> Figure:
    """Return the figure of one plan, or of several plans next to each other.

    Of many rows the busiest are drawn, and many boxes are merged; notes below the panels say so.
    Axes that count the same in the same unit have the same limits.

    Parameters
    ----------
    columns
        Title and panels of each plan.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    """
    shown = [
        [_fitted(panel) for panel in panels_of_plan if not panel.summary]
        for _, panels_of_plan in columns
    ]
    inches = [[_inches(panel) for panel in panels] or [_PLOT_INCHES] for panels in shown]
    width = min(_WIDTH, _MOST_INCHES / len(columns))
    figure = new_figure(width * len(columns), max(map(sum, inches)) + 1.1)
    drawn: list[tuple[Axes, Panel]] = []
    with drawing_style():
        many = len(columns) > 1
        parts: Any = figure.subfigures(1, len(columns)) if many else [figure]
        for part, (title, _), panels, heights in zip(parts, columns, shown, inches, strict=True):
            grid = part.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
            for axes, panel, height in zip(grid, panels, heights, strict=False):
                _draw(axes, panel, (72 * width * _PLOT_SHARE, 72 * height))
                axes.set_title(panel.title, loc="left")
                drawn.append((axes, panel))
            for axes, panel, below in zip(grid, panels, panels[1:], strict=False):
                if panel.x.label == below.x.label:
                    axes.set_xlabel("")
                    axes.tick_params(axis="x", labelbottom=False)
            if title:
                grid[0].set_title(title, loc="left")
            _legend(part, panels)
            notes = " ".join(note for panel in panels for note in panel.notes)
            part.supxlabel(fill_text(notes, _NOTE_LETTERS), x=0.01, ha="left", fontsize=7)
        _align(drawn)
    return figure


def _inches(panel: Panel) -> float:
    if not panel.rows:
        return _PLOT_INCHES
    each = _ROW_INCHES if len(panel.rows) <= _FEW_ROWS else _LOW_ROW_INCHES
    return each * panel.row_height * len(panel.rows) + 0.5


def _fitted(panel: Panel) -> Panel:
    """Return a panel without the least busy of many rows, with merged boxes, and notes on that."""
    if not panel.rows:
        return panel
    if len(panel.rows) > _MOST_ROWS:
        panel = _busiest(panel)
    if len(panel.boxes) > max(_MOST_BOXES, _MOST_IN_ROW * len(panel.rows)):
        low, high = span(panel)
        boxes = list(_merged(panel.boxes, (high - low) / _GAPS))
        if len(boxes) < len(panel.boxes) and panel.searched:
            summary = f"{len(panel.boxes):,} tasks are drawn as {len(boxes):,} bars: "
            notes = (f"{summary}neighbours of one kind merge.", *panel.notes)
            panel = replace(panel, notes=notes)
        panel = replace(panel, boxes=boxes)
    return panel


def _busiest(panel: Panel) -> Panel:
    area: dict[str, float] = defaultdict(float)
    for box in panel.boxes:
        area[box.row] += (box.right - box.left) * (box.high - box.low)
    order = sorted(range(len(panel.rows)), key=lambda row: -area[panel.rows[row]])
    chosen = sorted(order[:_MOST_ROWS])
    place = {panel.rows[row]: new for new, row in enumerate(chosen)}
    shift = {panel.rows[row]: new - row for new, row in enumerate(chosen)}
    boxes = [
        replace(box, low=box.low + shift[box.row], high=box.high + shift[box.row])
        for box in panel.boxes
        if box.row in shift
    ]
    note = f"The {len(place)} busiest of {len(panel.rows)} rows are drawn."
    return replace(
        panel,
        rows=list(place),
        ends=[panel.ends[row] for row in chosen] if panel.ends else (),
        boxes=boxes,
        curves=list(_moved(panel.curves, {row: new for new, row in enumerate(chosen)})),
        notes=(*panel.notes, note),
    )


def _moved(curves: Iterable[Curve], rows: dict[int, int]) -> Iterable[Curve]:
    """Yield the curves of the rows that are drawn, at their new positions."""
    for curve in curves:
        row = int(curve.points[0][1] + 0.5)
        if row in rows:
            yield replace(curve, points=[(x, y + rows[row] - row) for x, y in curve.points])


def _merged(boxes: Iterable[Box], gap: float) -> Iterable[Box]:
    """Yield boxes with neighbours that look the same merged."""
    last: dict[tuple[str, float], Box] = {}
    for box in sorted(boxes, key=lambda box: (box.row, box.left)):
        place = (box.row, box.high)
        before = last.get(place)
        if before is None:
            last[place] = box
        elif _look(before) == _look(box) and box.left - before.right <= gap:
            last[place] = replace(before, right=max(before.right, box.right), name="")
        else:
            yield before
            last[place] = box
    yield from last.values()


def _look(box: Box) -> tuple[float, str, bool]:
    return box.low, box.kind, box.critical


def _draw(axes: Axes, panel: Panel, points: tuple[float, float]) -> None:
    """Draw a panel into axes of about a width and height in points."""
    from matplotlib.ticker import MaxNLocator

    low, high = span(panel)
    if panel.rows:
        axes.set_yticks(range(len(panel.rows)), list(panel.rows))
        axes.set_ylim(len(panel.rows) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        for row, end in enumerate(panel.ends):
            _write(axes, end, (1.0, row), xycoords=axes.get_yaxis_transform(), xytext=(4, 0))
    elif panel.y is not None:
        axes.set_ylabel(panel.y.label)
    _draw_boxes(axes, panel, points[0] / (high - low))
    for curve in panel.curves:
        xs, ys = zip(*curve.points, strict=True) if curve.points else ((), ())
        axes.plot(xs, ys, drawstyle="steps-post", color=curve.colour, **_style(curve))
    if not panel.rows:
        axes.autoscale_view()
        bottom, top = axes.get_ylim()
        axes.set_ylim(0 if panel.from_zero else bottom, top)
        height = points[1] / max(top - bottom, 1e-9)
    else:
        height = points[1] / len(panel.rows)
    axes.set_xlim(low, high)
    if panel.x.scale.per_unit == 1:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.set_xlabel(panel.x.label)
    _label_boxes(axes, panel, points[0] / (high - low), height)


def _style(curve: Curve) -> dict[str, Any]:
    return {"linestyle": "--", "linewidth": 1.0} if curve.limit else {"linewidth": 1.4}


def _draw_boxes(axes: Axes, panel: Panel, points_each: float) -> None:
    from matplotlib.collections import LineCollection, PolyCollection

    by_kind: dict[str, list[Box]] = {kind: [] for kind in panel.fills}
    for box in panel.boxes:
        by_kind[box.kind].append(box)
    alpha = 0.6 if panel.rows and _overlap(panel.boxes) else None
    for kind, boxes in by_kind.items():
        if boxes:
            colour = panel.fills[kind]
            wide = [(b.right - b.left) * points_each > _EDGE_POINTS for b in boxes]
            white = panel.searched and (len(panel.boxes) <= _MOST_EDGED or bool(panel.rows))
            edges = ["white" if white and (yes or not panel.rows) else colour for yes in wide]
            axes.add_collection(
                PolyCollection(
                    [
                        [(b.left, b.low), (b.left, b.high), (b.right, b.high), (b.right, b.low)]
                        for b in boxes
                    ],
                    facecolors=colour,
                    edgecolors=edges,
                    linewidths=0.4,
                    hatch="/////" if kind.endswith(AGAIN) else None,
                    alpha=alpha,
                    label=kind,
                )
            )
    chain = [[(b.left, b.high), (b.right, b.high)] for b in panel.boxes if b.critical]
    if chain:
        lines = LineCollection(chain, colors="black", linewidths=1.6, capstyle="butt")
        lines.set_label(_CRITICAL)
        axes.add_collection(lines)


def _overlap(boxes: Iterable[Box]) -> bool:
    """Return whether boxes of a row overlap."""
    until: dict[tuple[str, float], float] = {}
    for box in sorted(boxes, key=lambda box: box.left):
        if box.left < until.get((box.row, box.high), box.left) - 1e-9 * abs(box.left):
            return True
        until[box.row, box.high] = max(box.right, until.get((box.row, box.high), box.right))
    return False


def _label_boxes(axes: Axes, panel: Panel, across: float, upward: float) -> None:
    """Draw names into boxes, in the longest form that fits."""
    for box in panel.boxes:
        if box.name in (box.row, box.kind) or (box.high - box.low) * upward < _LABEL_POINTS + 1:
            continue
        label = _label(box.name, (box.right - box.left) * across)
        if label:
            middle = ((box.left + box.right) / 2, (box.low + box.high) / 2)
            colour = ink(panel.fills[box.kind])
            style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": _LABEL_POINTS}
            axes.text(*middle, label, color=colour, clip_on=True, **style)


def _label(name: str, points: float) -> str:
    """Return the longest form of a name that fits: all of it, the value, the micro-batch."""
    value = name.partition(" to ")[0]
    batch = value[value.rfind("@") :] if "@" in value else ""
    fitting = (x for x in (name, value, batch) if len(x) * _CHARACTER_POINTS + 2 <= points)
    return next(fitting, "")


def _write(axes: Axes, text: str, at: tuple[float, float], **place: Any) -> None:
    style: dict[str, Any] = {"va": "center", "fontsize": _LABEL_POINTS}
    axes.annotate(text, at, textcoords="offset points", annotation_clip=False, **style, **place)


def _legend(part: Any, panels: Iterable[Panel]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: dict[str, Any] = {}
    for panel in panels:
        drawn = {box.kind for box in panel.boxes}
        for kind, colour in panel.fills.items():
            if kind in drawn:
                again = kind.endswith(AGAIN)
                handles[kind] = Patch(
                    facecolor=colour, edgecolor="white", hatch="/////" if again else None
                )
        if any(box.critical for box in panel.boxes):
            handles[_CRITICAL] = Line2D([], [], color="black", linewidth=1.6)
        for curve in panel.curves:
            handles[curve.name] = Line2D([], [], color=curve.colour, **_style(curve))
    for name, handle in handles.items():
        handle.set_label(name)
    if len(handles) <= _MOST_NAMED:
        figure_legend(part, list(handles.values()), "outside upper right")


def _align(drawn: Sequence[tuple[Axes, Panel]]) -> None:
    """Give axes with the same label the same limits."""
    known: dict[tuple[str, str], list[Axes]] = defaultdict(list)
    for axes, panel in drawn:
        known["x", panel.x.label].append(axes)
        if panel.y is not None:
            known["y", panel.y.label].append(axes)
    for (name, _), group in known.items():
        limits = [getattr(axes, f"get_{name}lim")() for axes in group]
        for axes in group:
            low, high = min(low for low, _ in limits), max(high for _, high in limits)
            getattr(axes, f"set_{name}lim")(low, high)
