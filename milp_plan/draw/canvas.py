"""Common parts of figures: import of matplotlib, colours, scales, files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings

from milp_plan.core import BackendUnavailableError, Units
from milp_plan.core.amounts import SIZES, TIMES, Ladder, unit_of
from milp_plan.core.quantity import BYTES, NANOSECONDS, UNSPECIFIED
from milp_plan.core.schedule import AGAIN

from .style import STYLE, drawing_style

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

COLOURS = {
    "forward": "#0072B2",
    "backward-input": "#E69F00",
    "backward-weight": "#009E73",
    "backward": "#B8622B",
    "overlapped": "#8DA0CB",
    "update": "#CC79A7",
    "collective": "#F0E442",
    "transfer": "#56B4E9",
    "accumulate": "#D55E00",
    "offload": "#5D3A9B",
    "reload": "#40B0A6",
}
"""Colours of usual kinds: the palette of Okabe and Ito, which is safe for colour-blind readers."""

LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Colours of lines in order, from the same palette."""

MEMORY, FULL = "#8A8A8A", "#D55E00"
"""Colours of memory and of its limits, which kinds of tasks in the same figure do not have."""

TRANSFERS = frozenset({"transfer", "offload", "reload"})
"""Kinds of tasks that occupy channels, not devices."""

SPARE = ("#777777", "#B0A8B9", "#882255", "#44AA99", "#DDCC77", "#332288", "#AA4499")

_HANDLE, _HANDLE_GAP, _COLUMN_GAP = 1.2, 0.6, 1.2
"""Spacing of legends, in font sizes."""

_SUFFIXES = (".png", ".svg")


@dataclass(frozen=True, slots=True)
class Scale:
    """Scale of readable numbers: an integer times ``parts / divisor``, followed by ``unit``."""

    divisor: int
    unit: str
    parts: int = 1

    def __call__(self, number: int) -> float:
        """Return the readable number; exact integers of any size are divided exactly first."""
        return number / self.divisor if self.parts == 1 else number * self.parts / self.divisor

    @property
    def per_unit(self) -> Fraction:
        """Integer amount that is written as 1."""
        return Fraction(self.divisor, self.parts)

    def text(self, number: int) -> str:
        """Return the number with its unit, to at least three significant digits."""
        readable = self(number)
        digits = f"{readable:,.0f}" if abs(readable) >= 1000 else f"{readable:.3g}"
        return f"{digits} {self.unit}".rstrip()


def time_scale(units: Units, longest: int) -> Scale:
    """Return a scale of ns, µs, ms or s; other units of a source stay."""
    return _scale(units.time, units.time_scale, NANOSECONDS, TIMES, longest)


def size_scale(units: Units, largest: int) -> Scale:
    """Return a scale of B, KiB, MiB, GiB or TiB; other units of a source stay."""
    return _scale(units.size, units.size_scale, BYTES, SIZES, largest)


def _scale(unit: str, per_unit: int, known: Mapping[str, int], ladder: Ladder, most: int) -> Scale:
    chosen = unit_of(unit, known, ladder, Fraction(most, per_unit))
    per_chosen = Fraction(per_unit * known.get(chosen, 1), known.get(unit, 1))
    name = "" if chosen == UNSPECIFIED else chosen
    return Scale(per_chosen.numerator, name, per_chosen.denominator)


def scale_of(unit: str, per_unit: int, largest: int) -> Scale:
    """Return the scale of amounts of a record, from its unit and the ticks or bytes per unit."""
    if unit in BYTES:
        return size_scale(Units(size=unit, size_scale=per_unit), largest)
    return time_scale(Units(unit, "bytes", per_unit), largest)


def axis_label(what: str, scale: Scale) -> str:
    """Return the label of an axis: the quantity and its unit, if the source names one."""
    return f"{what} ({scale.unit})" if scale.unit else f"{what} (unit unspecified)"


def colours(kinds: Iterable[str]) -> dict[str, str]:
    """Return the colour of each kind: that of a usual kind, or a spare one by name.

    What runs again has the colour it has the first time.
    """
    kinds = tuple(kinds)
    present = sorted({kind.removesuffix(AGAIN) for kind in kinds})
    others = [kind for kind in present if kind not in COLOURS]
    spare = {kind: SPARE[index % len(SPARE)] for index, kind in enumerate(others)}
    usual = [kind for kind in COLOURS if kind in present]
    first = {kind: COLOURS[kind] for kind in usual} | spare
    return {kind: first[kind.removesuffix(AGAIN)] for kind in _in_order(kinds, first)}


def paler(colour: str, share: float) -> str:
    """Return a colour mixed with white: 0 is the colour, 1 is white."""
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)


def _in_order(kinds: Iterable[str], first: Iterable[str]) -> list[str]:
    """Return kinds in the order of colours, each followed by its repeated runs."""
    known = set(kinds)
    return [kind for base in first for kind in (base, base + AGAIN) if kind in known]


_LETTERS = 160
"""Maximum characters of a line of text in a picture."""


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches; it needs no display.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    """
    try:
        from .picture import Picture
    except ImportError as error:
        raise BackendUnavailableError(
            "figures need matplotlib, which is not installed; "
            "install it with: pip install 'milp_plan[plot]'"
        ) from error
    return Picture(figsize=(width, height), dpi=150, layout="constrained")


def plain_ticks(*axes: Axis) -> None:
    """Set plain numbers as labels of logarithmic axes, in place of matplotlib's formulas."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    for axis in axes:
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())


def figure_legend(figure: Any, handles: Sequence[Any], loc: str) -> None:
    """Draw a legend outside the axes, in as many columns as fit into the figure.

    Parameters
    ----------
    figure
        A figure, or a part of one.
    handles
        Patches and lines with their labels.
    loc
        Location, such as ``"outside lower center"``.
    """
    from matplotlib.textpath import TextPath

    if not handles:
        return
    size = STYLE["legend.fontsize"]
    labels = [_short(handle.get_label()) or " " for handle in handles]
    with catch_warnings():
        filterwarnings("ignore", "Glyph .* missing from font")
        widest = max(TextPath((0, 0), f"|{x}|", size=size).get_extents().width for x in labels)
    wide = figure.bbox.width / figure.get_figure(root=True).dpi * 72  # in points, as texts are
    columns = int((wide - size) / (widest + (_HANDLE + _HANDLE_GAP + _COLUMN_GAP) * size))
    figure.legend(
        handles=handles,
        loc=loc,
        ncols=max(1, min(len(handles), columns)),
        frameon=False,
        handlelength=_HANDLE,
        handletextpad=_HANDLE_GAP,
        columnspacing=_COLUMN_GAP,
    )


def write_figure(figure: Figure, path: Path | str) -> Path:
    """Write a figure as PNG or SVG, by the suffix of ``path``.

    The file appears at once and complete: it is written under another name and renamed. The same
    figure gives the same bytes.

    Returns
    -------
    Path
        Where it was written; missing folders are made.

    Raises
    ------
    ValueError
        The suffix is neither ``.png`` nor ``.svg``.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in _SUFFIXES:
        raise ValueError(f"cannot write {target}: suffix {suffix!r}, expected .png or .svg")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.stem}.{os.getpid()}{suffix}")
    metadata = {"Date": None} if suffix == ".svg" else None
    FigureCanvasAgg(figure)
    _shorten(figure)
    try:
        with drawing_style(), catch_warnings():
            filterwarnings("ignore", "Glyph .* missing from font")  # a box stands there instead
            figure.savefig(partial, format=suffix[1:], metadata=metadata)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def _shorten(figure: Any) -> None:
    """Return a text cut to a length that fits; the layout of longer ones takes seconds."""
    from matplotlib.text import Text
    from matplotlib.ticker import FixedFormatter

    for text in figure.findobj(Text):
        text.set_text(_short(text.get_text()))
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_formatter(), FixedFormatter):
                axis.set_ticklabels([_short(text.get_text()) for text in axis.get_ticklabels()])


def _short(text: str) -> str:
    lines = text.split("\n")
    return "\n".join(x if len(x) <= _LETTERS else f"{x[: _LETTERS - 1]}…" for x in lines)


def ink(colour: str) -> str:
    """Return black or white, which contrasts more with ``colour`` (luminance by ITU-R BT.709)."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 110 else "white"
