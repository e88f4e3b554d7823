"""Figures about solving: what a memory limit costs. From plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milp_plan.core import Units
from milp_plan.draw.canvas import Scale, axis_label, new_figure, size_scale, time_scale
from milp_plan.draw.style import drawing_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NATIVE = Units()
_INCUMBENT, _BOUND, _PROVED = "#0072B2", "#D55E00", "#000000"
_SERIES = (("#000000", "s-"), ("#D55E00", "^-"), ("#009E73", "v-"), ("#0072B2", "o-"))


@dataclass(frozen=True, slots=True)
class MemoryPoint:
    """Outcome under one memory limit.

    Parameters
    ----------
    limit_bytes
        Memory of each device, or of the smallest one.
    value
        Value of the best plan; ``None`` where there is none.
    bound
        Bound on the original problem, if any.
    infeasible
        Whether it is proved that no plan fits; without a value and without this proof the search
        just found nothing.
    """

    limit_bytes: int
    value: int | None = None
    bound: int | None = None
    infeasible: bool = False


def memory_sweep(
    points: Iterable[MemoryPoint], title: str, units: Units = _NATIVE, *, of_bytes: bool = False
) -> Figure:
    """Draw the value reached under each memory limit; limits without a plan are marked.

    Parameters
    ----------
    points
        One per limit, in any order.
    title
        Above the figure.
    units
        Of the problem.
    of_bytes
        Whether values are bytes rather than ticks.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    """
    known = sorted(points, key=lambda point: point.limit_bytes)
    values = [(point.limit_bytes, point.value) for point in known if point.value is not None]
    bounds = [(point.limit_bytes, point.bound) for point in known if point.bound is not None]
    scale = _scale(units, [number for _, number in (*values, *bounds)], of_bytes)
    size = size_scale(units, max((point.limit_bytes for point in known), default=0))
    figure = new_figure(6.0, 3.4)
    with drawing_style():
        axes = figure.subplots()
        for line, colour, mark, label in (
            (values, _INCUMBENT, "o-", "best plan"),
            (bounds, _BOUND, "v--", "bound"),
        ):
            if line:
                axes.plot(
                    [size(limit) for limit, _ in line],
                    [scale(number) for _, number in line],
                    mark,
                    color=colour,
                    markersize=4,
                    linewidth=1.2,
                    label=label,
                )
        for marked, mark, label in (
            ([p for p in known if p.infeasible], "x", "proved infeasible"),
            ([p for p in known if p.value is None and not p.infeasible], "s", "no plan found"),
        ):
            if marked:
                axes.plot(
                    [size(point.limit_bytes) for point in marked],
                    [0.03] * len(marked),
                    mark,
                    color=_PROVED,
                    markersize=5,
                    fillstyle="none",
                    linestyle="none",
                    transform=axes.get_xaxis_transform(),
                    label=label,
                )
        axes.margins(y=0.12)
        axes.set_xlabel(axis_label("memory of a device", size))
        axes.set_ylabel(axis_label("value", scale))
        axes.set_title(title, loc="left")
        if known:
            axes.legend(frameon=False)
    return figure


def memory_curves(
    lines: Mapping[str, Sequence[MemoryPoint]], title: str, units: Units = _NATIVE
) -> Figure:
    """Draw the times reached under each memory limit, a line for each way to save memory.

    Parameters
    ----------
    lines
        Name -> points, at most four; crosses at the bottom mark what is proved infeasible.
    title
        Above the figure.
    units
        Of the problem.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    """
    points = [point for line in lines.values() for point in line]
    scale = _scale(units, [p.value for p in points if p.value is not None], of_bytes=False)
    size = size_scale(units, max((point.limit_bytes for point in points), default=0))
    figure = new_figure(6.0, 3.4)
    with drawing_style():
        axes = figure.subplots()
        styled = zip(lines.items(), _SERIES, strict=False)
        for number, ((name, line), (colour, mark)) in enumerate(styled):
            known = sorted((p.limit_bytes, p.value) for p in line if p.value is not None)
            axes.plot(
                [size(limit) for limit, _ in known],
                [scale(value) for _, value in known],
                mark,
                color=colour,
                markersize=7 - 1.5 * number,  # lines that lie on each other stay visible
                linewidth=2.4 - 0.5 * number,
                label=name,
            )
            proved = [size(p.limit_bytes) for p in line if p.infeasible]
            axes.plot(
                proved,
                [0.03 + 0.04 * number] * len(proved),
                "x",
                color=colour,
                markersize=5,
                transform=axes.get_xaxis_transform(),
            )
        axes.margins(y=0.2)
        axes.set_xlabel(axis_label("memory of a device", size))
        axes.set_ylabel(axis_label("time of a step", scale))
        axes.set_title(title, loc="left")
        if points:
            axes.legend(frameon=False)
    return figure


def _scale(units: Units, numbers: list[int], of_bytes: bool) -> Scale:
    largest = max(numbers, default=0)
    return size_scale(units, largest) if of_bytes else time_scale(units, largest)
