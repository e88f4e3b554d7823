"""Sweeps over limits as a table, and as a picture of values against limits."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from milp_plan.core.amounts import share_text
from milp_plan.core.gap import relative_gap
from milp_plan.draw.canvas import Scale, axis_label, size_scale, time_scale
from milp_plan.draw.tradeoff import Mark, tradeoff_figure
from milp_plan.study.variants import step_text

from .pages import table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from milp_plan.run.kind import Measure
    from milp_plan.study.variants import Point, Sweep

HEADS = ("value", "bound", "gap", "found", "front")


def sweep_rows(done: Sweep) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of a table of a sweep."""
    best, rows = done.front(), []
    for point in done.points:
        measure = done.kind.measure(point.problem)
        row = [step_text(step) for step in point.settings.values()]
        row += [measure.text(point.value), measure.text(point.bound)]
        row += [share_text(relative_gap(point.value, point.bound)), _result(point)]
        rows.append([*row, "yes" if point in best else ""])
    return [*(axis.name for axis in done.axes), *HEADS], rows


def _result(point: Point) -> str:
    result = point.found
    if result is None:
        return "not planned"
    if result.infeasible_reason is not None:
        return "no plan exists"
    if result.value is None:
        return f"no plan found ({result.stop})"
    return "proved optimal" if result.proved else str(result.stop).replace("_", " ")


def sweep_figure(done: Sweep) -> Figure:
    """Draw values against the option with most settings, a line for each setting of the others.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    """
    measure, best = done.kind.measure(done.problem), done.front()
    most = max((point.amount or Fraction(0) for point in done.points), default=Fraction(0))
    scale = _scale(measure, ceil(most * measure.per_unit))
    across = max(done.axes, key=lambda axis: len(axis.steps)).name

    def amount(point: Point, number: int | None) -> float | None:
        """Return an amount on the axis; ticks of a variant may differ from those of the problem."""
        exact = done.kind.measure(point.problem).amount(number)
        return None if exact is None else float(exact * measure.per_unit / scale.per_unit)

    marks = [
        Mark(
            ", ".join(f"{n} {float(s):g}" for n, s in point.settings.items() if n != across),
            float(point.settings[across]),
            amount(point, point.value),
            amount(point, point.bound),
            point in best,
            point.found is not None and point.found.infeasible_reason is not None,
        )
        for point in done.points
    ]
    of_file = across if across == "devices" else f"{across} (of what the file says)"
    labels = (of_file, axis_label(measure.objective.replace("_", " "), scale))
    return tradeoff_figure(marks, done.problem.name, labels)


def _scale(measure: Measure, largest: int) -> Scale:
    if isinstance(measure.units, str):
        return Scale(1, measure.units)
    return (size_scale if measure.what == "size" else time_scale)(measure.units, largest)


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
