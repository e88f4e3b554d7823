"""Picture of a plan of rematerialisation: bytes held during each run, against the budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from milp_plan.check.rematerialisation import usage, verify_rematerialisation
from milp_plan.core import Finding, InputError, Verdict
from milp_plan.core.amounts import time_text
from milp_plan.core.rematerialisation import RematerialisationPlan, RematerialisationProblem

from .canvas import Scale, axis_label, drawing_style, new_figure, size_scale
from .panels import Axis, Box, Curve, Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    figure = new_figure(9.0, 5.0)
    with drawing_style():
        first, second = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        steps = range(len(firsts))
        before = [scale(amount) for amount in problem.held]
        first.step(steps, before, where="mid", color="0.7", label="every operator once")
        after = [scale(amount) for amount in firsts]
        first.step(steps, after, where="mid", color="#0072B2", label="this plan")
        if again:
            places = ([at for at, _, _ in again], [scale(amount) for _, _, amount in again])
            first.plot(*places, ".", color="#D55E00", label="runs again")
            second.plot(
                [at for at, _, _ in again], [of for _, of, _ in again], ".", color="#D55E00"
            )
        if problem.budget is not None:
            first.axhline(scale(problem.budget), color="black", linewidth=0.8, linestyle="--")
        first.set_ylim(bottom=0)
        first.legend(fontsize=7)
        first.set_ylabel(axis_label("held", scale))
        second.set_ylabel("operator run again")
        second.set_xlabel("operators run so far")
        text = time_text(problem.units, verdict.value)
        first.set_title(f"{problem.name}: added time {text}", loc="left")
    return figure


def _checked(problem: RematerialisationProblem, plan: RematerialisationPlan) -> Verdict:
    verdict = verify_rematerialisation(problem, plan)
    if verdict.value is None:
        expected = f"first runs of all {len(problem.computations)} operators, in their order"
        raise InputError([Finding("plan", "other runs", expected, "plan the instance again")])
    return verdict


def _story(
    problem: RematerialisationProblem, plan: RematerialisationPlan
) -> tuple[Sequence[int], list[int], list[tuple[int, int, int]]]:
    """Bytes held in each run, in each first run, and (runs before, operator, bytes) of others."""
    held = usage(problem, plan)
    done, firsts, again = 0, [], []
    for number, name in enumerate(plan.runs):
        if problem.numbers[name] == done:
            firsts.append(held[number])
            done += 1
        else:
            again.append((done, problem.numbers[name], held[number]))
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
    boxes, done = [], 0
    for number, name in enumerate(plan.runs):
        first = problem.numbers[name] == done
        done += first
        kind = "first run" if first else "runs again"
        edges = (number, number + 1, 0, scale(held[number]))
        boxes.append(Box(*edges, kind, name, said=scale.text(held[number])))
    curves = []
    if problem.budget is not None:
        ends = [(0, scale(problem.budget)), (len(plan.runs), scale(problem.budget))]
        curves.append(Curve("budget", ends, "#CC79A7", limit=True))
    once = [(0, scale(problem.peak)), (len(plan.runs), scale(problem.peak))]
    curves.append(Curve("peak of every operator once", once, "#999999", limit=True))
    fills = {"first run": "#56B4E9", "runs again": "#D55E00"}
    x, y = Axis("runs", Scale(1, "")), Axis("held", scale)
    return (Panel("Memory", x, y, boxes=boxes, curves=curves, fills=fills, searched=True),)
