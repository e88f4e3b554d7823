"""Problems for the tests of the run, and a way to keep every stage busy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.bound import Bound
from milp_plan.kinds.schedule.bounds import catalogue
from milp_plan.kinds.schedule.formats import read
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from milp_plan.kinds.schedule.planners.enumeration import sizes
from milp_plan.kinds.schedule.planners.learning import ClauseLearning
from milp_plan.kinds.schedule.planners.portfolio import best_plan
from milp_plan.kinds.schedule.strategies import coarse_series, small_schedule, two_stages
from milp_plan.run import Outcome, Settings, solve
from milp_plan.zoo import TRAPS
from milp_plan.zoo.traps import Trap

REPOSITORY = Path(__file__).resolve().parents[2]
INSTANCES = REPOSITORY / "instances"
WEAK_BOUND = Bound("weak", 1, "every plan takes a tick")


def trap(name: str) -> Trap:
    """Return the trap of that name."""
    return next(entry for entry in TRAPS if entry.name == name)


def instance(name: str) -> PlanningProblem:
    """Read a shipped instance."""
    return read(INSTANCES / f"{name}.json")


def quick(problem: PlanningProblem, **changes: object) -> Outcome[PlanningProblem, Plan]:
    """Solve with a small limit."""
    settings: Mapping[str, object] = {"time_limit_s": 20.0, **changes}
    return solve(problem, Settings(**settings))  # type: ignore[arg-type]


def weaken(patch: pytest.MonkeyPatch) -> None:
    """Leave a trivial bound and one naive heuristic, so that every later stage has work to do.

    Without this, a better heuristic or bound would silently take the subject of a test away.
    """
    naive = {"single_device": PLANNERS["single_device"]}
    patch.setattr(catalogue, "all_bounds", lambda *_: iter([WEAK_BOUND]))
    patch.setattr(
        two_stages, "best_plan", lambda given, _=None, **how: best_plan(given, naive, **how)
    )
    patch.setattr(coarse_series, "LISTS", naive)
    patch.setattr(ClauseLearning, "suits", lambda _problem: False)
    patch.setattr(small_schedule, "is_small", lambda _problem: False)
    patch.setattr(sizes, "is_tiny", lambda _problem: False)


def starts(plan: Plan) -> dict[str, int | None]:
    """Start of each operator."""
    return {run.operator: run.start_ticks for run in plan.runs}
