"""Several problems of one: each finer than the one before, with a way down."""

from __future__ import annotations

from collections.abc import Iterable

from milp_plan.core import Plan, PlanningProblem

from .reduction import Coarsening
from .stage import coarsen


def coarsen_levels(
    problem: PlanningProblem,
    targets: Iterable[int],
    *,
    guide: Plan | None = None,
    stages: bool = True,
) -> tuple[Coarsening, ...]:
    """Make a series of nested problems, as in multilevel methods.

    Parameters
    ----------
    problem
        Any problem.
    targets
        Operators wanted, one number for each level. What would change nothing is left out.
    guide, stages
        As for :func:`milp_plan.kinds.schedule.coarsen.coarsen`. Each level has the guide.

    Returns
    -------
    tuple of Coarsening
        The coarsest first. ``problem`` of each is its level, and ``original`` is the ``problem``
        of the next, of the last the problem given. So ``undo`` turns a plan of a level into a
        start of the next finer one, which is no worse; ``project`` goes the other way.

    Raises
    ------
    ValueError
        A target is below 1, or the guide has no times.
    """
    levels: list[Coarsening] = []
    for target in sorted(set(targets), reverse=True):
        finer = levels[-1].problem if levels else problem
        coarsening = coarsen(finer, target, guide=guide, stages=stages and guide is None)
        if coarsening.problem is finer:
            continue
        levels.append(coarsening)
        guide = None if guide is None else coarsening.project(guide)
    return tuple(reversed(levels))
