"""Serving plans as JSON; described in ``instances/formats/serving.md``."""

from __future__ import annotations

from milp_plan.io.wire import Positive, mirror
from milp_plan.kinds.training.formats import PlanFormat

from .problem import Deployment, ServingPlan, ServingProblem

PLANS = PlanFormat(
    "a serving plan (JSON)",
    "milp-plan-serving-plan",
    ServingPlan,
    Deployment,
    mirror(Deployment, **dict.fromkeys(ServingProblem.decided(), Positive)),
    "deployment",
    "value_ns",
)
"""Serving plans."""
