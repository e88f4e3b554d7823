"""The steps of coarsening: exact ones, then heuristic ones until the target is met."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from milp_plan.core import OperatorRun, Plan, PlanningProblem

from .clustering import AcyclicClustering, ChainContraction
from .folding import BlockFolding
from .guided import GuidedClustering
from .options import UselessOptions
from .pipeline_stages import StageClustering
from .reduction import Coarsening, Reduction, ReductionStep
from .zero_length import ZeroLengthAbsorption

DEFAULT_TARGET = 25
"""Default target: operators that one exact model plans well."""


def exact_steps() -> tuple[ReductionStep, ...]:
    """Return the steps that keep the optimum, in the order they are taken."""
    return (UselessOptions(), ZeroLengthAbsorption())


def heuristic_steps(
    guide: Mapping[str, OperatorRun] | None = None, *, stages: bool = False
) -> tuple[Callable[[int], ReductionStep], ...]:
    """Return constructors of the heuristic steps, which take a target, in their order."""
    if stages:
        return StageClustering, AcyclicClustering
    if guide is not None:
        return (partial(GuidedClustering, guide=guide),)
    return BlockFolding, ChainContraction, AcyclicClustering


def coarsen(
    problem: PlanningProblem,
    target: int | None = None,
    *,
    exact_only: bool = False,
    guide: Plan | None = None,
    stages: bool = False,
) -> Coarsening:
    """Make a problem smaller.

    Parameters
    ----------
    problem
        Any problem.
    target
        Number of operators to aim at; ``None`` for :data:`DEFAULT_TARGET`. Heuristic steps are
        taken only while there are more. The result can have more operators where memory, sites or
        layouts forbid further merges, and up to twice the target where stages find that fewer do
        not fit into memory or are clearly slower (:attr:`Coarsening.excess`).
    exact_only
        Take no heuristic step, whatever the size.
    guide
        A valid plan of the problem, with times: the best one known. Clusters are then on one of
        its sites each, and the coarse problem has that plan, with a longer or equal makespan:
        :meth:`Coarsening.project` gives it. There can be more of them than the target, where
        fewer would not have the plan.
    stages
        Cut the graph into stages first, which keep micro-batches, passes and branches apart.

    Returns
    -------
    Coarsening
        The smallest problem and the way back. Where operators may run again or values may wait
        on hosts no exact step is taken, and what may run again merges with nothing else.

    Raises
    ------
    ValueError
        ``target`` is below 1, or the guide has no times.
    """
    goal = DEFAULT_TARGET if target is None else target
    if goal < 1:
        raise ValueError(f"target is {goal}, expected at least 1")
    if guide is not None and not guide.has_schedule:
        raise ValueError("the guide has no times")
    reductions: list[Reduction] = []

    def take(step: ReductionStep) -> None:
        before = reductions[-1].after if reductions else problem
        reduction = step.apply(before)
        if reduction is not None:
            reductions.append(reduction)

    for step in () if problem.allows_memory_saving else exact_steps():
        take(step)
    if exact_only:
        return Coarsening(problem, tuple(reductions))
    rough = None if guide is None else Coarsening(problem, tuple(reductions)).project(guide)
    hints = None if rough is None else {run.operator: run for run in rough.runs}
    for made in heuristic_steps(hints, stages=stages):
        so_far = Coarsening(problem, tuple(reductions))
        aim = goal if so_far.excess is None else so_far.excess.operators
        if len(so_far.problem.graph.operators) > aim:
            take(made(aim))
    return Coarsening(problem, tuple(reductions))
