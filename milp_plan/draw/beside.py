"""Two pictures beside each other, in one figure, on one scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .canvas import drawn_into, new_figure
from .style import drawing_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_INCHES = 40.0
_MOST_LETTERS = 40


def beside(draws: Sequence[Callable[[], Figure]], titles: Sequence[str]) -> Figure:
    """Draw several figures beside each other; axes that show the same share their limits.

    Parameters
    ----------
    draws
        Each draws one figure. They are called twice: first for their sizes.
    titles
        Above them.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    """
    sizes = [tuple(draw().get_size_inches()) for draw in draws]
    width = min(_MOST_INCHES, sum(size[0] for size in sizes))
    figure = new_figure(width, max(size[1] for size in sizes) + 0.3)
    with drawing_style():
        widths = [size[0] for size in sizes]
        parts: Any = figure.subfigures(1, len(draws), squeeze=False, width_ratios=widths)[0]
        for part, draw, title in zip(parts, draws, titles, strict=True):
            with drawn_into(part):
                draw()
            short = title if len(title) <= _MOST_LETTERS else f"…{title[-_MOST_LETTERS:]}"
            part.suptitle(short, fontsize=9, x=0.005, horizontalalignment="left")
        _align([part.axes for part in parts])
    return figure


def _align(sides: Sequence[Sequence[Axes]]) -> None:
    """Give axes with the same label the same limits, where both sides have them."""
    known: dict[tuple[str, str], list[Any]] = {}
    for side in sides:
        for axes in side:
            for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
                label = axis.get_label_text()
                if label:
                    known.setdefault((name, label), []).append(axes)
    for (name, _), group in known.items():
        limits = [getattr(axes, f"get_{name}lim")() for axes in group]
        low, high = min(map(min, limits)), max(map(max, limits))
        for axes, limit in zip(group, limits, strict=True):
            upright = limit[0] <= limit[1]
            getattr(axes, f"set_{name}lim")(*((low, high) if upright else (high, low)))
