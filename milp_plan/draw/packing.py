"""Pictures of packings: buffers as rectangles of time and addresses, and what they add up to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from milp_plan.check.packing import verify_packing
from milp_plan.core import Units
from milp_plan.core.packing import Buffer, PackingPlan, PackingProblem

from .canvas import Scale, axis_label, ink, new_figure, size_scale
from .panels import Axis, Box, Curve, Panel
from .style import drawing_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FILLS = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#0072B2", "#CC79A7")
_BROKEN = "#D55E00"
_WIDTH, _HEIGHT, _HEIGHT_EACH = 9.0, 6.0, 2.4
_NAMED = 40
"""Buffers up to which their names are written into the rectangles."""


def packing_figure(problem: PackingProblem, plan: PackingPlan) -> Figure:
    """Draw a packing, valid or not.

    Returns
    -------
    matplotlib.figure.Figure
        First axes: a rectangle per buffer, those that break a rule in one colour of their own; the
        height dashed, the capacity as a line. Second axes: the sum of sizes over time.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    """
    figure = new_figure(_WIDTH, _HEIGHT)
    with drawing_style():
        first, second = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
        verdict = verify_packing(problem, plan)
        broken = {name for violation in verdict.violations for name in violation.subjects}
        tops = [place.offset + place.buffer.size for place in plan.places]
        size = size_scale(Units(), max([problem.capacity or 0, *tops]))
        _place(first, plan, size, broken)
        times, loads = _load(place.buffer for place in plan.places)
        second.step(times, [size(load) for load in loads], where="post", color="black")
        if verdict.value is not None:
            first.axhline(size(verdict.value), color="black", linewidth=0.8, linestyle="--")
            title = f"{problem.name}: {verdict.objective} {size.text(verdict.value)}"
            first.set_title(title, loc="left")
        if problem.capacity is not None:
            for axes in (first, second):
                axes.axhline(size(problem.capacity), color="black", linewidth=1.2)
        first.set_ylabel(axis_label("addresses", size))
        second.set_ylabel(axis_label("alive", size))
        second.set_xlabel("time")
    return figure


def addresses_figure(packings: Sequence[tuple[PackingPlan, int | None]]) -> Figure:
    """Draw the packings of several memories, one below the other, over the same time.

    Parameters
    ----------
    packings
        Each with the size of its memory, drawn as a line; ``None`` is without limit.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    """
    figure = new_figure(_WIDTH, max(_HEIGHT / 2, _HEIGHT_EACH * len(packings)))
    with drawing_style():
        rows = figure.subplots(max(1, len(packings)), 1, sharex=True, squeeze=False)
        for axes, (plan, limit) in zip(rows[:, 0], packings, strict=False):
            height = max(place.offset + place.buffer.size for place in plan.places)
            size = size_scale(Units(), max(limit or 0, height))
            _place(axes, plan, size, set())
            axes.axhline(size(height), color="black", linewidth=0.8, linestyle="--")
            if limit is not None:
                axes.axhline(size(limit), color="black", linewidth=1.2)
            axes.set_title(f"{plan.problem}: {size.text(height)}", loc="left")
            axes.set_ylabel(axis_label("addresses", size))
        rows[-1, 0].set_xlabel("time")
    return figure


def _place(axes: Axes, plan: PackingPlan, size: Scale, broken: set[str]) -> None:
    """Draw a rectangle per buffer."""
    from matplotlib.patches import Rectangle

    for number, place in enumerate(plan.places):
        buffer = place.buffer
        corner = (buffer.lower, size(place.offset))
        width, height = buffer.upper - buffer.lower, size(buffer.size)
        fill = _BROKEN if buffer.name in broken else _FILLS[number % len(_FILLS)]
        axes.add_patch(Rectangle(corner, width, height, facecolor=fill, edgecolor="white"))
        if len(plan.places) <= _NAMED:
            middle = (corner[0] + width / 2, corner[1] + height / 2)
            axes.annotate(
                buffer.name, middle, fontsize=6, color=ink(fill), ha="center", va="center"
            )
    axes.autoscale_view()


def _load(buffers: Iterable[Buffer]) -> tuple[list[int], list[int]]:
    """Instants at which the sum of sizes changes, and the sums from them on."""
    changes: dict[int, int] = {}
    for buffer in buffers:
        changes[buffer.lower] = changes.get(buffer.lower, 0) + buffer.size
        changes[buffer.upper] = changes.get(buffer.upper, 0) - buffer.size
    times, loads, held = sorted(changes), [], 0
    for time in times:
        held += changes[time]
        loads.append(held)
    return times, loads


def packing_panels(problem: PackingProblem, plan: PackingPlan) -> tuple[Panel, ...]:
    """Return the rectangles of a packing, and the sum of sizes over time with the capacity."""
    if not plan.places:
        return ()
    verdict = verify_packing(problem, plan)
    broken = {name for violation in verdict.violations for name in violation.subjects}
    tops = [place.offset + place.buffer.size for place in plan.places]
    size = size_scale(Units(), max([problem.capacity or 0, *tops]))
    boxes = []
    for place, top in zip(plan.places, tops, strict=True):
        buffer = place.buffer
        kind = "breaks a rule" if buffer.name in broken else "buffer"
        said = f"{size.text(buffer.size)} at {size.text(place.offset)}"
        edges = (buffer.lower, buffer.upper, size(place.offset), size(top))
        boxes.append(Box(*edges, kind, buffer.name, said=said))
    times, loads = _load(place.buffer for place in plan.places)
    points = [(at, size(held)) for at, held in zip(times, loads, strict=True)]
    alive = Curve("alive", points, "#0072B2")
    lines = [("height", max(tops), "#009E73")]
    if problem.capacity is not None:
        lines.append(("capacity", problem.capacity, _BROKEN))
    limits = [
        Curve(name, [(times[0], size(amount)), (times[-1], size(amount))], colour, limit=True)
        for name, amount, colour in lines
    ]
    x, addresses = Axis("time", Scale(1, "")), Axis("addresses", size)
    fills = {"buffer": _FILLS[0], "breaks a rule": _BROKEN}
    return (
        Panel("Addresses", x, addresses, boxes=boxes, curves=limits, fills=fills, searched=True),
        Panel("Alive", x, Axis("size", size), curves=[alive, *limits], from_zero=True),
    )
