"""A heuristic alone, recorded like a run of both stages."""

from __future__ import annotations

from typing import Any

from milp_plan.check import verify
from milp_plan.core import PlanningProblem
from milp_plan.core.budget import now
from milp_plan.io import plan_to_json

from .identity import installed

FINISHED = "finished"
"""Why a heuristic stopped: it was done."""


def run_heuristic(problem: PlanningProblem, name: str, seed: int) -> dict[str, Any]:
    """Run a heuristic and check its plan.

    Returns
    -------
    dict
        ``status``, ``error``, ``outcome`` with the members of a run's record that tables read,
        and ``plan``.
    """
    from milp_plan.planners import PLANNERS
    from milp_plan.planners.experts import EXPERTS

    began = now()
    plan = PLANNERS[name](problem, seed=seed) if name in PLANNERS else EXPERTS[name](problem)
    planned_s = now() - began
    verdict = None if plan is None else verify(problem, plan)
    seconds = now() - began
    value = None if verdict is None or not verdict.ok else verdict.value
    found = "no plan" if verdict is None else "ok" if verdict.ok else "violated"
    outcome = {
        "instance": problem.name,
        "fingerprint": problem.fingerprint,
        "objective": str(problem.objective),
        "value": value,
        "bound": None,
        "bound_name": None,
        "gap": None,
        "proved": False,
        "stop": FINISHED,
        "verdict": found,
        "planner": name,
        "infeasible_because": None,
        "disputed_because": None if verdict is None else _breaches(verdict),
        "seconds": round(seconds, 3),
        "phases": {"plan": round(planned_s, 4), "check": round(seconds - planned_s, 4)},
        "trace": [
            {"seconds": round(planned_s, 3), "phase": "plan", "incumbent": value, "bound": None}
        ],
        "versions": installed(),
    }
    if plan is not None and value is not None:
        plan = plan.claimed(str(problem.objective), value, name)
    text = None if plan is None else plan_to_json(plan).decode()
    return {"status": "done", "error": None, "outcome": outcome, "plan": text}


def _breaches(verdict: Any) -> str | None:
    return "; ".join(str(violation) for violation in verdict.violations[:3]) or None
