"""Checkmate's approximation: the linear relaxation of the staged program, rounded in two phases.

Phase one retains what the relaxation retains to more than a threshold. Phase two runs again, in
each stage, the least that makes the retained outputs of the next stage and the stage's own
operator; nothing is rounded there (Jain et al., MLSys 2020, section 5). The relaxation has a share
of the budget, as rounding needs more; of several thresholds the cheapest plan within the whole
budget counts.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from milp_plan.backends import Limits
from milp_plan.models.protocol import Guide
from milp_plan.models.registry import get
from milp_plan.models.validated import compile_source
from milp_plan.run.model import backend

from .problem import (
    RematerialisationPlan,
    RematerialisationProblem,
)
from .stages import Staged

NAME = "two-phase rounding"

PART = 0.9
"""Share of the budget for the relaxation."""

THRESHOLDS = tuple(step / 10 for step in range(1, 10))

COLUMNS = 40_000
"""Largest number of columns of the relaxation: it takes seconds, and ignores other limits."""

SECONDS = 60.0
"""Time limit of the relaxation, seconds."""


def two_phase_rounding(
    problem: RematerialisationProblem, seed: int
) -> RematerialisationPlan | None:
    """Return the cheapest rounded plan; ``None`` where none fits or the relaxation is too large."""
    staged = get("remat_staged").formulation
    assert staged is not None
    budget = problem.peak if problem.budget is None else min(problem.budget, problem.peak)
    tight = replace(problem, budget=max(int(PART * budget), min(budget, max(problem.floors))))
    options, guide = staged.Options(columns=COLUMNS), Guide()
    if staged.unsupported(tight, options) is not None:
        return None
    model = compile_source(staged.build(tight, options, guide)).relaxed()
    report = backend("highs")(model, Limits(time_s=SECONDS, seed=seed), None)
    if report.solution is None:
        return None
    shares = model.name_values(report.solution).get("S", {})
    plans = (
        completed(problem, {index for index, share in shares.items() if share > threshold})
        for threshold in THRESHOLDS
    )
    fitting = [plan for plan in plans if plan.peak <= budget and _allowed(plan)]
    return min(fitting, key=_cost).plan(NAME) if fitting else None


def completed(problem: RematerialisationProblem, kept: Collection[tuple[int, int]]) -> Staged:
    """Return the plan with the least runs again that retains the requested copies.

    Parameters
    ----------
    kept
        Pairs (stage, operator): a copy is there when the stage begins.
    """
    again: list[tuple[int, int]] = []
    for stage in range(len(problem.computations)):
        there = {i for i in range(stage) if (stage, i) in kept}
        required = [i for i in range(stage) if (stage + 1, i) in kept]
        waiting = [stage, *(i for i in required if i not in there)]
        runs: set[int] = set()
        while waiting:
            operator = waiting.pop()
            if operator not in runs:
                runs.add(operator)
                waiting += [i for i in problem.inputs[operator] if i not in there]
        again += [(stage, operator) for operator in runs - {stage}]
    return Staged.of(problem, again)


def _allowed(plan: Staged) -> bool:
    """Return whether all repeated operators may run again."""
    computations = plan.problem.computations
    return all(computations[operator].again for stage, operator in plan.runs if stage > operator)


def _cost(plan: Staged) -> int:
    return sum(plan.problem.computations[operator].cost for _, operator in plan.runs)
