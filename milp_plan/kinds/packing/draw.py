"""Panels of packings: buffers as rectangles of time and addresses, and the sum of their sizes."""

from __future__ import annotations

from collections.abc import Collection

from milp_plan.core import Units
from milp_plan.draw.canvas import Scale, size_scale
from milp_plan.draw.panels import Axis, Box, Curve, Panel

from .check import load_over_time, verify_packing
from .problem import PackingPlan, PackingProblem

_FILLS = {"buffer": "#56B4E9", "breaks a rule": "#D55E00"}


def packing_panels(problem: PackingProblem, plan: PackingPlan) -> tuple[Panel, ...]:
    """Return the rectangles of a packing, and the sum of sizes over time with the capacity."""
    if not plan.places:
        return ()
    verdict = verify_packing(problem, plan)
    broken = {name for violation in verdict.violations for name in violation.subjects}
    addresses = addresses_panel("Addresses", plan, problem.capacity, broken)
    assert addresses.y is not None
    size = addresses.y.scale
    loads = load_over_time(place.buffer for place in plan.places)
    points = [(at, size(load)) for at, load in loads.items()]
    curves = [Curve("alive", points, "#0072B2"), *addresses.curves]
    return addresses, Panel("Alive", addresses.x, Axis("size", size), curves=curves, from_zero=True)


def addresses_panel(
    title: str, plan: PackingPlan, limit: int | None, broken: Collection[str] = ()
) -> Panel:
    """Return the rectangles of a packing with places, its height and the limit as lines."""
    height = max(place.offset + place.buffer.size for place in plan.places)
    size = size_scale(Units(), max(limit or 0, height))
    boxes = []
    for place in plan.places:
        buffer = place.buffer
        kind = "breaks a rule" if buffer.name in broken else "buffer"
        text = f"{size.text(buffer.size)} at {size.text(place.offset)}"
        edges = (size(place.offset), size(place.offset + buffer.size))
        boxes.append(Box(buffer.lower, buffer.upper, *edges, kind, buffer.name, tooltip=text))
    ends = min(box.left for box in boxes), max(box.right for box in boxes)
    lines = [("height", height, "#009E73")]
    lines += [] if limit is None else [("capacity", limit, _FILLS["breaks a rule"])]
    curves = [
        Curve(name, [(at, size(amount)) for at in ends], colour, limit=True)
        for name, amount, colour in lines
    ]
    x, y = Axis("time", Scale(1, "")), Axis("addresses", size)
    above = all(box.low >= 0 for box in boxes)
    return Panel(
        title, x, y, boxes=boxes, curves=curves, fills=_FILLS, searched=True, from_zero=above
    )
