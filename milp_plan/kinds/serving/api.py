"""Serving problems from names and files, planned and checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from milp_plan.core import Verdict
from milp_plan.core.budget import Budget
from milp_plan.kinds.training.api import given_cluster, given_model
from milp_plan.kinds.training.architecture import Architecture
from milp_plan.kinds.training.cluster import TrainingCluster
from milp_plan.kinds.training.efficiency import Efficiency, shipped

from .check import verify
from .costs import ServingCosts
from .problem import Deployment, ServingPlan, ServingProblem
from .report import ServingAnswer
from .search import search

RESERVE = 10
"""Percent of a device's memory that is left free where nobody says, as vLLM does."""


def serving_problem(
    model: str | Path | Architecture,
    cluster: str | TrainingCluster,
    *,
    prompt: int,
    output: int = 1,
    memory_bytes: int | None = None,
    reserve_bytes: int | None = None,
    **more: Any,
) -> ServingProblem:
    """Return the problem of answering requests to a model on a cluster.

    Parameters
    ----------
    model
        A name, the path of a Hugging Face ``config.json``, or an architecture.
    cluster
        Text such as ``"4xH100"``, or a cluster.
    prompt, output
        Tokens of a request's prompt, and of its answer.
    memory_bytes
        Of every device, in place of what its class has.
    reserve_bytes
        Memory of every device that no plan may use; by default :data:`RESERVE` percent.
    more
        Further fields of :class:`ServingProblem`.

    Raises
    ------
    InputError
        A name, a file or a text that is not understood.
    """
    cluster = given_cluster(cluster, memory_bytes)
    if reserve_bytes is None:
        reserve_bytes = cluster.memory_bytes * RESERVE // 100
    architecture = given_model(model)
    return ServingProblem(
        architecture, cluster, prompt, output, reserve_bytes=reserve_bytes, **more
    )


def plan_serving(
    problem: ServingProblem,
    fixed: Mapping[str, int] | None = None,
    budget: Budget | None = None,
    efficiency: Efficiency | None = None,
) -> ServingAnswer:
    """Return the best deployment, what comes next and what does not fit.

    Parameters
    ----------
    problem
        What is planned.
    fixed
        Fields of :class:`Deployment` and the numbers that they must have.
    budget
        When to stop; by default 30 seconds.
    efficiency
        Rates of devices; by default the shipped ones.
    """
    costs = ServingCosts(problem, efficiency or shipped())
    found = search(costs, fixed or {}, budget or Budget(30.0))
    return ServingAnswer(problem, found, costs.efficiency, dict(fixed or {}))


def check(
    problem: ServingProblem,
    plan: ServingPlan | Deployment,
    efficiency: Efficiency | None = None,
) -> Verdict:
    """Check a plan, or a deployment, against every law."""
    if isinstance(plan, Deployment):
        plan = ServingPlan(problem.name, problem.fingerprint, plan)
    return verify(problem, plan, ServingCosts(problem, efficiency or shipped()))
