"""Plans as panels of boxes and curves, which figures and pages draw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .canvas import COLOURS, FULL, MEMORY, SPARE, Scale, axis_label


@dataclass(frozen=True)
class Axis:
    """An axis: its quantity, and the scale of its numbers."""

    what: str
    scale: Scale

    @property
    def label(self) -> str:
        """Label of the axis: the quantity and its unit, if it has one."""
        return axis_label(self.what, self.scale) if self.scale.unit else self.what


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of a panel in units of its axes; the middle of the first row is 0.

    Parameters
    ----------
    left, right, low, high
        Edges of the rectangle.
    kind
        Key of its colour.
    name
        Name by which pages search for it.
    row
        The device, channel or memory it is on.
    tooltip
        Further text on it.
    """

    left: float
    right: float
    low: float
    high: float
    kind: str
    name: str
    row: str = ""
    tooltip: str = ""
    critical: bool = False


@dataclass(frozen=True)
class Curve:
    """A step curve: each value holds up to the next point; ``limit`` curves are dashed."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str
    limit: bool = False


@dataclass(frozen=True)
class Panel:
    """A picture as plain data.

    Parameters
    ----------
    title
        Title above the panel.
    x, y
        Axes; ``y`` is ``None`` where there are rows.
    rows, ends
        Names of rows, from above; what is written at their right ends, or nothing.
    boxes, curves
        Boxes and curves of the panel.
    fills
        Colour of every kind of box, in the order of the legend.
    notes
        Sentences on merged or omitted boxes.
    searched
        Whether its boxes are what people look for by name.
    row_height
        Height of a row; 1 is the default.
    from_zero
        Whether ``y`` begins at 0, not at the lowest of its values.
    summary
        Whether it summarises another panel: pages show it, figures leave it out.
    """

    title: str
    x: Axis
    y: Axis | None = None
    rows: Sequence[str] = ()
    ends: Sequence[str] = ()
    boxes: Sequence[Box] = ()
    curves: Sequence[Curve] = ()
    fills: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    searched: bool = False
    row_height: float = 1.0
    from_zero: bool = False
    summary: bool = False


def span(panel: Panel) -> tuple[float, float]:
    """Return the first and last number along ``x``; the first is at most 0."""
    ends = [edge for box in panel.boxes for edge in (box.left, box.right)]
    ends += [x for curve in panel.curves for x, _ in curve.points]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    return low, high if high > low else low + 1.0


def row_box(
    row: int,
    name: str,
    span: tuple[float, float],
    kind: str,
    at: str,
    *,
    tooltip: str = "",
    critical: bool = False,
) -> Box:
    """Return a box that fills the height of a row."""
    return Box(*span, row - 0.42, row + 0.42, kind, name, at, tooltip, critical)


def memory_panel(rows: Sequence[tuple[str, int, int | None]], size: Scale) -> Panel:
    """Return bars of memories: name, bytes in use and limit, if there is one."""
    used, above, free = "in use", "above the limit", "free"
    boxes = []
    for row, (name, amount, limit) in enumerate(rows):
        tooltip = f"{size.text(amount)}, "
        tooltip += "no limit" if limit is None else f"limit {size.text(limit)}"
        kind = above if limit is not None and amount > limit else used
        boxes.append(row_box(row, name, (0, size(amount)), kind, name, tooltip=tooltip))
        if limit is not None and amount < limit:
            boxes.append(
                row_box(row, name, (size(amount), size(limit)), free, name, tooltip=tooltip)
            )
    fills = {used: MEMORY, above: FULL, free: "#CCCCCC"}
    names = [name for name, _, _ in rows]
    return Panel("Memory", Axis("memory", size), rows=names, boxes=boxes, fills=fills)


def numbered(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each name; colours repeat."""
    known = (*COLOURS.values(), *SPARE)
    return {name: known[place % len(known)] for place, name in enumerate(names)}
