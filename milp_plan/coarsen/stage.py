"""Stage one: the exact steps, then the heuristic ones until the target is met."""

from __future__ import annotations

from milp_plan.core import PlanningProblem

from .clustering import AcyclicClustering, ChainContraction, ColocationMerging
from .options import UselessOptions
from .reduction import Coarsening, Reduction, Step
from .zero_length import ZeroLengthAbsorption

DEFAULT_TARGET = 25
"""Operators that stage two plans well by one model."""


def exact_steps() -> tuple[Step, ...]:
    """Return the steps that keep the optimum, in the order they are taken."""
    return (UselessOptions(), ZeroLengthAbsorption())


def heuristic_steps(target: int) -> tuple[Step, ...]:
    """Return the steps that may lose the optimum, in the order they are taken."""
    return (
        ColocationMerging(target),
        ChainContraction(target),
        AcyclicClustering(target),
    )


def coarsen(
    problem: PlanningProblem, target: int | None = None, *, exact_only: bool = False
) -> Coarsening:
    """Make a problem smaller.

    Parameters
    ----------
    problem
        Any problem.
    target
        Operators wanted; ``None`` for :data:`DEFAULT_TARGET`. Heuristic steps are taken only
        while there are more. The result can have more operators where memory, sites or layouts
        forbid further merges.
    exact_only
        Take no heuristic step, whatever the size.

    Returns
    -------
    Coarsening
        The smallest problem and the way back.

    Raises
    ------
    ValueError
        ``target`` is below 1.
    """
    wanted = DEFAULT_TARGET if target is None else target
    if wanted < 1:
        raise ValueError(f"target is {wanted}, expected at least 1")
    reductions: list[Reduction] = []

    def take(step: Step) -> None:
        before = reductions[-1].after if reductions else problem
        reduction = step.apply(before)
        if reduction is not None:
            reductions.append(reduction)

    for step in exact_steps():
        take(step)
    if not exact_only:
        for step in heuristic_steps(wanted):
            smallest = reductions[-1].after if reductions else problem
            if len(smallest.graph.operators) > wanted:
                take(step)
    return Coarsening(problem, tuple(reductions))
