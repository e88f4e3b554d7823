"""Sweeps over limits: a table, and a picture of values against what they take."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any

from milp_plan.core.amounts import share_text
from milp_plan.core.gap import relative_gap
from milp_plan.draw.canvas import (
    Scale,
    axis_label,
    figure_legend,
    new_figure,
    size_scale,
    time_scale,
)
from milp_plan.draw.style import drawing_style
from milp_plan.study.variants import step_text

from .pages import table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from milp_plan.run.kind import Measure
    from milp_plan.study.variants import Point, Sweep

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


@dataclass(frozen=True)
class Row:
    """A variant as tables and pictures show it.

    Parameters
    ----------
    settings
        Option -> its setting, as a number.
    value, bound
        In the unit of the axis; ``None`` for what is not known.
    proved, front
        Whether no plan is better; whether no other variant is, with at most as much of everything.
    """

    settings: dict[str, float]
    value: float | None
    bound: float | None
    proved: bool
    front: bool


def scale_of(measure: Measure, largest: int) -> Scale:
    """Return how values of an objective are written on an axis."""
    if isinstance(measure.units, str):
        return Scale(1, measure.units)
    return (size_scale if measure.what == "size" else time_scale)(measure.units, largest)


def variants_figure(rows: Sequence[Row], title: str, value_label: str) -> Figure:
    """Draw values against the option with most settings, a line for each setting of the others.

    Filled marks: no other variant is better with at most as much of everything. A tick below a mark
    is its bound; a cross near the axis is a variant without a plan, those of several lines one
    above the other. The legend names the marks that occur.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    """
    names = list(rows[0].settings)
    across = max(names, key=lambda name: len({row.settings[name] for row in rows}))
    others = [name for name in names if name != across]
    figure = new_figure(6.4, 4.0)
    with drawing_style():
        axes = figure.subplots()
        labels = [", ".join(f"{n} {row.settings[n]:g}" for n in others) for row in rows]
        for place, label in enumerate(dict.fromkeys(labels)):
            colour = _COLOURS[place % len(_COLOURS)]
            line = [row for row, of in zip(rows, labels, strict=True) if of == label]
            known = [(r.settings[across], r.value, r) for r in line if r.value is not None]
            style: dict[str, Any] = {"color": colour, "linewidth": 0.8}
            points = [entry[0] for entry in known], [entry[1] for entry in known]
            axes.plot(*points, "o-", fillstyle="none", label=label, **style)
            best = [(x, y) for x, y, row in known if row.front]
            axes.plot([x for x, _ in best], [y for _, y in best], "o", color=colour)
            for x, y, row in known:
                if row.bound is not None and not row.proved:
                    axes.plot([x, x], [row.bound, y], "_-", **style)
            without = [row.settings[across] for row in line if row.value is None]
            where = axes.get_xaxis_transform()
            height = [0.02 + 0.035 * place] * len(without)
            axes.plot(without, height, "x", color=colour, transform=where)
        axes.set_xlabel(across if across == "devices" else f"{across} (of what the file says)")
        axes.set_ylabel(value_label)
        axes.set_title(title, loc="left")
        handles = axes.get_legend_handles_labels()[0] if others else []
        figure_legend(figure, [*handles, *_marks(rows)], "outside lower center")
    return figure


def _marks(rows: Sequence[Row]) -> list[Line2D]:
    """Entries of the legend for the marks that occur."""
    from matplotlib.lines import Line2D

    planned = [row for row in rows if row.value is not None]
    open_ended = any(row.bound is not None and not row.proved for row in planned)
    known = (
        (any(row.front for row in planned), "o", "none better with as much"),
        (open_ended, "_", "its bound"),
        (len(planned) < len(rows), "x", "no plan"),
    )
    style: dict[str, Any] = {"color": "#555555", "linestyle": "none"}
    return [Line2D([], [], marker=m, label=label, **style) for shown, m, label in known if shown]


HEADS = ("value", "bound", "gap", "found", "front")


def told_rows(done: Sweep) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of a sweep for people."""
    best, rows = done.front(), []
    for point in done.points:
        measure = done.kind.measure(point.problem)
        row = [step_text(step) for step in point.settings.values()]
        row += [measure.text(point.value), measure.text(point.bound)]
        row += [share_text(relative_gap(point.value, point.bound)), _found(point)]
        rows.append([*row, "yes" if point in best else ""])
    return [*(axis.name for axis in done.axes), *HEADS], rows


def _found(point: Point) -> str:
    found = point.found
    if found is None:
        return "not planned"
    if found.infeasible_because is not None:
        return "no plan exists"
    if found.value is None:
        return f"no plan found ({found.stop})"
    return "proved optimal" if found.proved else str(found.stop).replace("_", " ")


def sweep_figure(done: Sweep) -> Figure:
    """Draw values of a sweep against what they take; see :func:`variants_figure`."""
    measure, best = done.kind.measure(done.problem), done.front()
    most = max((point.amount or Fraction(0) for point in done.points), default=Fraction(0))
    scale = scale_of(measure, ceil(most * measure.per_unit))

    def amount(point: Point, number: int | None) -> float | None:
        """Write it on the axis; ticks of a variant may be others than those of the problem."""
        exact = done.kind.measure(point.problem).amount(number)
        return None if exact is None else float(exact * measure.per_unit / scale.per_unit)

    rows = [
        Row(
            {name: float(step) for name, step in point.settings.items()},
            amount(point, point.value),
            amount(point, point.bound),
            point.found is not None and point.found.proved,
            point in best,
        )
        for point in done.points
    ]
    label = axis_label(measure.objective.replace("_", " "), scale)
    return variants_figure(rows, done.problem.name, label)


def csv_text(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> bytes:
    """Return a table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows(rows)
    return text.getvalue().encode()


def markdown(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> bytes:
    """Return a table as a page."""
    return f"# {title}\n\n{table(headings, rows)}".encode()
