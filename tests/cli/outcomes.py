"""Outcomes of runs that are hard to provoke."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from milp_plan.backends import Stop
from milp_plan.check import verify
from milp_plan.core import PlanningProblem
from milp_plan.core.gap import relative_gap
from milp_plan.run import Outcome, Progress, Settings, kind_of
from milp_plan.run.model_answer import FAILURES
from milp_plan.run.record import verdict_word
from milp_plan.run.scope import scope_of
from tests.report.plans import plan_of_two_devices

from .cases import VALUE_NS, late_plan

BOUND_NS = 9_000


def outcome(problem: PlanningProblem, **changes: Any) -> Outcome[Any, Any]:
    """A run that found the plan of two devices and reached its limit."""
    plan = replace(plan_of_two_devices(), problem=problem.name)
    made: Outcome[Any, Any] = Outcome(
        kind=kind_of(problem),
        problem=problem,
        plan=plan,
        verdict=verify(problem, plan),
        value=VALUE_NS,
        bound=BOUND_NS,
        bound_name="critical path",
        gap=relative_gap(VALUE_NS, BOUND_NS),
        stop=Stop.TIME_LIMIT,
        proved=False,
        disputed_reason="",
        infeasible_reason=None,
        unproved_reason="",
        baselines={"slow": 28_000, "none": None, "fast": VALUE_NS},
        bounds=(),
        defects=(),
        planner="fast",
        seconds=1.5,
        scope=scope_of(problem),
        record={},
    )
    made = replace(made, **changes)
    if made.stop in FAILURES:
        made = replace(made, defects=(FAILURES[made.stop],))
    measure = made.measure
    record = {
        "key": f"{problem.name}-0123456789ab",
        "instance": problem.name,
        "fingerprint": problem.fingerprint,
        "objective": measure.objective,
        "unit": measure.unit,
        "ticks_per_unit": measure.per_unit,
        "scope": str(made.scope),
        "operators": 3,
        "coarse_operators": 2,
        "value": made.value,
        "bound": made.bound,
        "value_in_unit": measure.decimal(made.value),
        "bound_in_unit": measure.decimal(made.bound),
        "bound_name": made.bound_name,
        "gap": made.gap,
        "gap_asked": 0.0,
        "proved": made.proved,
        "stop": str(made.stop),
        "verdict": verdict_word(made),
        "planner": made.planner or None,
        "strategy": "schedule",
        "settings": {"seed": 0, "only": False},
        "trace": [],
        "formulation": {"name": "operator_schedule", "sha256": None},
        "reached": {"operator_schedule": 21_000, "annealing": 15_000},
        "baselines": made.baselines,
        "best_baseline": VALUE_NS,
        "baseline_name": "fast",
        "bounds": {"critical path": BOUND_NS},
        "seconds": made.seconds,
        "phases": {"bounds": 0.25, "solve": 12.0},
        "disputed_because": made.disputed_reason or None,
        "infeasible_because": made.infeasible_reason,
        "defects": list(made.defects),
        "model": None,
        "model_hash": None,
        **made.record,
    }
    return replace(made, record=record)


def without_plan(problem: PlanningProblem, **changes: Any) -> Outcome[Any, Any]:
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


def broken(problem: PlanningProblem) -> Outcome[Any, Any]:
    """A run whose plan fails the check."""
    plan = late_plan()
    return outcome(problem, plan=plan, verdict=verify(problem, plan))


Runner = Callable[..., Outcome[Any, Any]]


def runner(make: Callable[..., Outcome[Any, Any]], **changes: Any) -> Runner:
    """A stand-in for ``milp_plan.run.solve`` that reports once."""

    def solve(
        problem: PlanningProblem,
        _settings: Settings,
        on_progress: Callable[[Progress], None],
        **_: Any,
    ) -> Outcome[Any, Any]:
        on_progress(Progress("model", VALUE_NS, BOUND_NS, 0.357, 0.5, ""))
        return make(problem, **changes)

    return solve
