"""The kind ``serving``: which parallel configuration answers requests to a model on a cluster."""

from milp_plan.kinds.training.configuration import Precision

from .api import check, plan_serving, serving_problem
from .problem import Deployment, Objective, Phase, ServingPlan, ServingProblem

__all__ = [
    "Deployment",
    "Objective",
    "Phase",
    "Precision",
    "ServingPlan",
    "ServingProblem",
    "check",
    "plan_serving",
    "serving_problem",
]
