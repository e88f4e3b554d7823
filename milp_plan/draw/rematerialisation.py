"""Picture of a plan of rematerialisation: bytes held during each run, against the budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from milp_plan.check.rematerialisation import usage, verify_rematerialisation
from milp_plan.core import Finding, InputError, Verdict
from milp_plan.core.amounts import size_text, time_text
from milp_plan.core.rematerialisation import (
    RematerialisationObjective,
    RematerialisationPlan,
    RematerialisationProblem,
)

from .canvas import Scale, axis_label, new_figure, size_scale
from .panels import Axis, Box, Curve, Panel
from .style import drawing_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RUN, _RELOAD = "runs again", "reloaded"
_AGAIN = {_RUN: "#D55E00", _RELOAD: "#40B0A6"}
"""What makes a result anew, and its colour."""


class _Again(NamedTuple):
    """A result that is made anew: operators run before, its own number, bytes held, and how."""

    at: int
    number: int
    held: int
    kind: str


def rematerialisation_figure(
    problem: RematerialisationProblem, plan: RematerialisationPlan
) -> Figure:
    """Draw a plan that breaks no law but perhaps those of memory and of running again.

    Returns
    -------
    matplotlib.figure.Figure
        First axes: bytes held while each operator runs first, with the plan and, in grey, where
        every operator runs once; the budget dashed. Second axes: a mark for each added run, over
        when it happens, at the place of its operator in the order.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    InputError
        The runs are not those of the problem.
    """
    verdict = _checked(problem, plan)
    held, firsts, again = _story(problem, plan)
    scale = size_scale(problem.units, max([*held, problem.peak, problem.budget or 0]))
    figure = new_figure(9.0, 5.0 if again else 3.4)
    with drawing_style():
        from matplotlib.ticker import MaxNLocator

        rows = 2 if again else 1
        ratios = (3, 2)[:rows]
        grid = figure.subplots(rows, 1, sharex=True, squeeze=False, height_ratios=ratios)[:, 0]
        first = grid[0]
        steps = range(len(firsts))
        before = [scale(amount) for amount in problem.held]
        first.step(steps, before, where="mid", color="0.7", label="every operator once")
        after = [scale(amount) for amount in firsts]
        first.step(steps, after, where="mid", color="#0072B2", label="this plan")
        for kind, colour in _AGAIN.items():
            made = [entry for entry in again if entry.kind == kind]
            if made:
                at, dots = [entry.at for entry in made], {"color": colour, "linestyle": "none"}
                held_then = [scale(entry.held) for entry in made]
                first.plot(at, held_then, marker=".", label=kind, **dots)
                grid[1].plot(at, [entry.number for entry in made], marker=".", **dots)
        if problem.budget is not None:
            first.axhline(scale(problem.budget), color="black", linewidth=0.8, linestyle="--")
        first.set_ylim(bottom=0)
        first.legend(fontsize=7)
        first.set_ylabel(axis_label("held", scale))
        for axis in (grid[-1].xaxis, *(axes.yaxis for axes in grid[1:])):
            axis.set_major_locator(MaxNLocator(integer=True))
        if again:
            grid[1].set_ylabel("operator, by its place")
        grid[-1].set_xlabel("operators run so far")
        first.set_title(_title(problem, verdict, bool(again)), loc="left")
    return figure


def _title(problem: RematerialisationProblem, verdict: Verdict, again: bool) -> str:
    if problem.objective is RematerialisationObjective.PEAK_MEMORY:
        text = size_text(problem.units, verdict.value)
    elif problem.objective is RematerialisationObjective.ADDED_TIME:
        text = time_text(problem.units, verdict.value)
    else:
        text = f"{verdict.value:,}"
    more = "" if again else "; no operator runs again"
    return f"{problem.name}: {problem.objective.value.replace('_', ' ')} {text}{more}"


def _checked(problem: RematerialisationProblem, plan: RematerialisationPlan) -> Verdict:
    verdict = verify_rematerialisation(problem, plan)
    if verdict.value is None:
        expected = f"first runs of all {len(problem.computations)} operators, in their order"
        raise InputError([Finding("plan", "other runs", expected, "plan the instance again")])
    return verdict


def _story(
    problem: RematerialisationProblem, plan: RematerialisationPlan
) -> tuple[Sequence[int], list[int], list[_Again]]:
    """Bytes held in each run, in each first run, and the other runs."""
    held, reloads = usage(problem, plan), set(plan.reloads)
    done, firsts, again = 0, [], []
    for number, name in enumerate(plan.runs):
        if problem.numbers[name] == done:
            firsts.append(held[number])
            done += 1
        else:
            kind = _RELOAD if number in reloads else _RUN
            again.append(_Again(done, problem.numbers[name], held[number], kind))
    return held, firsts, again


def rematerialisation_panels(
    problem: RematerialisationProblem, plan: RematerialisationPlan
) -> tuple[Panel, ...]:
    """Return the bytes held in each run, with and without the plan, and a box for each run.

    Raises
    ------
    InputError
        The runs are not those of the problem.
    """
    _checked(problem, plan)
    held = usage(problem, plan)
    scale = size_scale(problem.units, max([*held, problem.peak, problem.budget or 0]))
    boxes, done, reloads = [], 0, set(plan.reloads)
    for number, name in enumerate(plan.runs):
        first = problem.numbers[name] == done
        done += first
        kind = "first run" if first else _RELOAD if number in reloads else _RUN
        edges = (number, number + 1, 0, scale(held[number]))
        boxes.append(Box(*edges, kind, name, said=scale.text(held[number])))
    curves = []
    if problem.budget is not None:
        ends = [(0, scale(problem.budget)), (len(plan.runs), scale(problem.budget))]
        curves.append(Curve("budget", ends, "#CC79A7", limit=True))
    once = [(0, scale(problem.peak)), (len(plan.runs), scale(problem.peak))]
    curves.append(Curve("peak of every operator once", once, "#999999", limit=True))
    kinds = {box.kind for box in boxes}
    fills = {"first run": "#56B4E9", **{k: colour for k, colour in _AGAIN.items() if k in kinds}}
    x, y = Axis("runs", Scale(1, "")), Axis("held", scale)
    return (Panel("Memory", x, y, boxes=boxes, curves=curves, fills=fills, searched=True),)
