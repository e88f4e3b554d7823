"""Panel of a plan of rematerialisation: bytes in use during each run, against the budget."""

from __future__ import annotations

from milp_plan.core import Finding, InputError
from milp_plan.draw.canvas import Scale, size_scale
from milp_plan.draw.panels import Axis, Box, Curve, Panel

from .check import usage, verify_rematerialisation
from .problem import RematerialisationPlan, RematerialisationProblem

_FIRST, _RUN, _RELOAD = "first run", "runs again", "reloaded"
_FILLS = {_FIRST: "#56B4E9", _RUN: "#D55E00", _RELOAD: "#40B0A6"}


def rematerialisation_panels(
    problem: RematerialisationProblem, plan: RematerialisationPlan
) -> tuple[Panel, ...]:
    """Return a box for each run, as high as the bytes in use, and the budget.

    The grey line is the memory where each operator runs once, drawn at the first runs.

    Raises
    ------
    InputError
        The runs are not those of the problem.
    """
    if verify_rematerialisation(problem, plan).value is None:
        expected = f"first runs of all {len(problem.computations)} operators, in their order"
        raise InputError([Finding("plan", "other runs", expected, "plan the instance again")])
    used = usage(problem, plan)
    scale = size_scale(problem.units, max([*used, problem.peak, problem.budget or 0]))
    once: list[tuple[float, float]] = []
    boxes, reloads = [], set(plan.reloads)
    for number, name in enumerate(plan.runs):
        first = problem.numbers[name] == len(once)
        if first:
            once.append((number, scale(problem.held[len(once)])))
        kind = _FIRST if first else _RELOAD if number in reloads else _RUN
        edges = (number, number + 1, 0, scale(used[number]))
        boxes.append(Box(*edges, kind, name, tooltip=scale.text(used[number])))
    ends = (0, len(plan.runs))
    curves = [Curve("every operator once", [*once, (ends[1], once[-1][1])], "#777777")]
    if problem.budget is not None:
        budget = [(at, scale(problem.budget)) for at in ends]
        curves.append(Curve("budget", budget, "#CC79A7", limit=True))
    drawn = {box.kind for box in boxes}
    fills = {kind: colour for kind, colour in _FILLS.items() if kind in drawn}
    notes = [] if _RUN in drawn else ["No operator runs again."]
    x, y = Axis("runs", Scale(1, "")), Axis("memory", scale)
    return (
        Panel("Memory", x, y, boxes=boxes, curves=curves, fills=fills, notes=notes, searched=True),
    )
