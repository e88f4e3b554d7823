"""Outcomes of runs that are hard to provoke."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from milp_plan.backends import Stop
from milp_plan.check import verify
from milp_plan.core import PlanningProblem
from milp_plan.run import Outcome, Progress, Settings
from tests.report.plans import plan_of_two_devices

from .cases import VALUE_NS, late_plan

BOUND_NS = 9_000


def outcome(problem: PlanningProblem, **changes: Any) -> Outcome:
    """A run that found the plan of two devices and reached its limit."""
    plan = replace(plan_of_two_devices(), problem=problem.name)
    gap = (VALUE_NS - BOUND_NS) / VALUE_NS
    made = Outcome(
        problem=problem,
        plan=plan,
        verdict=verify(problem, plan),
        value=VALUE_NS,
        bound=BOUND_NS,
        bound_name="critical path",
        gap=gap,
        stop=Stop.TIME_LIMIT,
        disputed=False,
        proved=False,
        infeasible_because=None,
        baselines={"slow": 28_000, "none": None, "fast": VALUE_NS},
        planner="fast",
        seconds=1.5,
        record={},
    )
    made = replace(made, **changes)
    record = {
        "key": f"{problem.name}-0123456789ab",
        "instance": problem.name,
        "fingerprint": problem.fingerprint,
        "objective": str(problem.objective),
        "operators": 3,
        "coarse_operators": 2,
        "value": made.value,
        "bound": made.bound,
        "bound_name": made.bound_name,
        "gap": made.gap,
        "stop": str(made.stop),
        "verdict": "no plan" if made.plan is None else "ok",
        "planner": made.planner or None,
        "seconds": made.seconds,
        "phases": {"bounds": 0.25, "solve": 12.0},
        "disputed_because": "the values differ" if made.disputed else None,
        **made.record,
    }
    return replace(made, record=record)


def without_plan(problem: PlanningProblem, **changes: Any) -> Outcome:
    """A run that found nothing."""
    nothing: dict[str, Any] = {
        "plan": None,
        "verdict": None,
        "value": None,
        "gap": None,
        "planner": "",
        "baselines": {"fast": None},
    }
    return outcome(problem, **(nothing | changes))


def broken(problem: PlanningProblem) -> Outcome:
    """A run whose plan fails the check."""
    plan = late_plan()
    return outcome(problem, plan=plan, verdict=verify(problem, plan))


Runner = Callable[..., Outcome]


def runner(make: Callable[..., Outcome], **changes: Any) -> Runner:
    """A stand-in for ``milp_plan.run.solve`` that reports once."""

    def solve(
        problem: PlanningProblem, settings: Settings, on_progress: Callable[[Progress], None]
    ) -> Outcome:
        on_progress(Progress("model", VALUE_NS, BOUND_NS, 0.357, 0.5, ""))
        return make(problem, **changes)

    return solve
