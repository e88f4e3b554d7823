"""Models that watch more and more, until what they say is a plan: then it is an optimal one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from milp_plan.backends import Limits, SolverReport, Stop
from milp_plan.core.budget import Budget
from milp_plan.run.confirmation import Means, unconfirmed

from ..check import copies, usage
from ..problem import RematerialisationPlan, RematerialisationProblem
from .model import Watch, Watched

SAFETY = 1e-6
"""Relative amount by which a solver's bound is lowered before anyone quotes it."""

MOST_COLUMNS = 80_000
"""Columns of the first model; where watching every full step takes more, only some are watched."""

QUICK_COLUMNS = 12_000
"""Columns of the linear program that gives large problems a bound before their first model."""

LEAST_S = 0.5
"""Seconds below which no model is asked."""


@dataclass(frozen=True)
class Answer:
    """What a model gave.

    Parameters
    ----------
    plan
        What its solution says; it may hold too much. ``None`` without a solution.
    bound
        Ticks that every plan adds at least; ``None`` where nothing is known.
    infeasible
        Whether there is no plan at all.
    stop
        Why the solver stopped.
    steps, columns, rows
        Of the model: steps at which memory is watched, columns, rows.
    """

    plan: RematerialisationPlan | None
    bound: int | None
    infeasible: bool
    stop: Stop
    steps: int
    columns: int
    rows: int


class Known(NamedTuple):
    """The best plan so far and its value; both may be missing."""

    plan: RematerialisationPlan | None
    value: int | None


Ask = Callable[..., SolverReport]


def refine(
    problem: RematerialisationProblem,
    ask: Ask,
    limits: Limits,
    budget: Budget,
    known: Callable[[], Known],
) -> Iterator[Answer]:
    """Ask models of a problem with a budget; each watches what the last one's plan exceeds.

    Parameters
    ----------
    ask
        The solver: model, limits and start to a report.
    limits
        Its time is a limit for each model.
    budget
        Of everything.
    known
        The best plan so far, asked for before each model.
    """
    watch = Watch(first_steps(problem, MOST_COLUMNS))
    few = first_steps(problem, QUICK_COLUMNS)
    if len(few) < len(watch.steps):
        yield _quick(Watched(problem, Watch(few)), ask, limits, budget)
    while watch.steps and budget.left_s > LEAST_S:
        model = Watched(problem, watch)
        compiled = model.compiled
        start = known()
        vector = None
        if start.plan is not None:
            runs = [problem.numbers[name] for name in start.plan.runs]
            vector = model.vector(runs, [copy.last for copy in copies(problem, start.plan)])
        left = min(limits.time_s, budget.left_s)
        report = ask(
            compiled, dataclasses.replace(limits, time_s=left, gap=0.0, gap_abs=0.49), vector
        )
        plan = None
        if report.solution is not None:
            sequence = model.runs(compiled.name_values(report.solution))
            plan = _plan(problem, sequence)
        bound, infeasible = _proved(model, report, ask, limits, budget)
        size = (len(watch.steps), compiled.num_columns, compiled.num_rows)
        yield Answer(plan, bound, infeasible, report.stop, *size)
        if plan is None or infeasible:
            return
        more = _more(problem, model, plan)
        if more == watch:
            return
        watch = more


def _quick(model: Watched, ask: Ask, limits: Limits, budget: Budget) -> Answer:
    """Return the bound of a linear relaxation, lowered by what floats may have cost."""
    compiled = model.compiled.relaxed()
    report = ask(
        compiled, dataclasses.replace(limits, time_s=min(limits.time_s, budget.left_s)), None
    )
    bound = None
    if report.stop is Stop.PROVED and report.objective is not None:
        safe = report.objective - SAFETY * max(1.0, abs(report.objective))
        bound = max(0, math.ceil(safe)) * model.tick
    size = (len(model.steps), compiled.num_columns, compiled.num_rows)
    return Answer(None, bound, False, report.stop, *size)


def first_steps(problem: RematerialisationProblem, columns: int) -> frozenset[int]:
    """Steps to watch first: those that hold too much where every operator runs once.

    Where that makes more than so many columns, the fullest ones of stretches of the order.
    """
    assert problem.budget is not None
    over = [step for step, held in enumerate(problem.held) if held > problem.budget]
    most = max(4, columns // (2 * len(problem.computations)))
    width = math.ceil(len(over) / most) if over else 1
    groups = (over[place : place + width] for place in range(0, len(over), width))
    return frozenset(max(group, key=problem.held.__getitem__) for group in groups)


def _plan(problem: RematerialisationProblem, runs: list[int]) -> RematerialisationPlan:
    names = tuple(problem.computations[place].name for place in runs)
    return RematerialisationPlan(problem.name, names)


def _proved(
    model: Watched, report: SolverReport, ask: Ask, limits: Limits, budget: Budget
) -> tuple[int | None, bool]:
    """Bound in ticks, and whether there is no plan: lowered, rounded up, and asked again.

    That a model's optimum is what it is, or that it has no solution, counts once it is confirmed
    (:mod:`milp_plan.run.confirmation`); otherwise it is a multiple of all costs less.
    """
    means = Means(ask, limits, budget)
    if report.stop is Stop.INFEASIBLE:
        return None, not unconfirmed(model.compiled, means)
    if report.bound is None or not math.isfinite(report.bound):
        return None, False
    safe = max(0, math.ceil(report.bound - SAFETY * max(1.0, abs(report.bound))))
    if report.stop is not Stop.PROVED or report.objective is None:
        return safe * model.tick, False
    units = round(report.objective)
    if not units:
        return 0, False
    times = 1 if safe >= units else 2  # a bound that floats cannot hold is no first proof
    below = Watched(model.problem, model.watch, (units - 1) * model.tick)
    if not unconfirmed(below.compiled, means, times):
        return units * model.tick, False
    return min(safe, units - 1) * model.tick, False


def _more(problem: RematerialisationProblem, model: Watched, plan: RematerialisationPlan) -> Watch:
    """Watch what a plan exceeds; the same where it keeps the budget."""
    held, done, part = usage(problem, plan), 0, 0
    steps, inside, covers = set(model.watch.steps), set(model.watch.inside), set(model.watch.covers)
    late: set[int] = set()
    alive = copies(problem, plan)
    for number, name in enumerate(plan.runs):
        operator = problem.numbers[name]
        over = held[number] > model.budget
        if operator == done:
            if over and operator not in steps:
                steps.add(operator)
            elif over:
                own = {operator, *problem.inputs[operator]}
                cover = frozenset(
                    problem.numbers[copy.name]
                    for copy in alive
                    if copy.made <= number <= copy.last and copy.size
                ) - frozenset(own)
                covers.add((operator, cover))
            part += part < len(model.steps) and operator == model.steps[part]
            done += 1
        elif over and part < len(model.steps) and (model.steps[part], operator) not in inside:
            inside.add((model.steps[part], operator))
        elif over:
            late.add(done)
    found = Watch(frozenset(steps), frozenset(inside), frozenset(covers))
    if found == model.watch and late:
        found = dataclasses.replace(found, steps=found.steps | late)
    return found
