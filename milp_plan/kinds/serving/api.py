"""Serving problems from names and files, their answers, and the check of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from milp_plan.core import Verdict
from milp_plan.kinds.training.answer import refuse_broken
from milp_plan.kinds.training.api import given_cluster, given_model
from milp_plan.kinds.training.architecture import Architecture
from milp_plan.kinds.training.cluster import TrainingCluster
from milp_plan.kinds.training.efficiency import Efficiency, shipped

from .check import verify
from .costs import ServingCosts
from .formats import PLANS
from .problem import Deployment, ServingPlan, ServingProblem
from .report import ServingAnswer
from .search import ServingCandidate, ServingResult

RESERVE = 10
"""Percent of a device's memory that is left free by default, as vLLM does."""


def default_reserve(cluster: TrainingCluster) -> int:
    """Return the bytes of every device that are left free by default."""
    return cluster.memory_bytes * RESERVE // 100


def serving_problem(
    model: str | Path | Architecture,
    cluster: str | TrainingCluster,
    *,
    prompt: int,
    memory_bytes: int | Sequence[int] | None = None,
    reserve_bytes: int | None = None,
    fixed: Mapping[str, Any] | None = None,
    efficiency: Efficiency | None = None,
    **more: Any,
) -> ServingProblem:
    """Return the problem of answering requests to a model on a cluster.

    Parameters
    ----------
    model
        A name, the path of a Hugging Face ``config.json``, or an architecture.
    cluster
        Text such as ``"4xH100"``, or a cluster.
    prompt
        Tokens of a request's prompt.
    memory_bytes
        Of every device, or of those of each group, in place of what its class has.
    reserve_bytes
        Memory of every device that no plan may use; by default :data:`RESERVE` percent.
    fixed
        Fields of :class:`Deployment` and the numbers that they must have.
    efficiency
        Rates that devices and framework reach; by default the shipped ones.
    more
        Further fields of :class:`ServingProblem`.

    Raises
    ------
    InputError
        A name, a file or a text that is not understood.
    """
    cluster = given_cluster(cluster, memory_bytes)
    return ServingProblem(
        given_model(model),
        cluster,
        prompt,
        reserve_bytes=default_reserve(cluster) if reserve_bytes is None else reserve_bytes,
        fixed=PLANS.fixed_values(fixed or {}),
        efficiency=efficiency or shipped(),
        **more,
    )


def answer_of(outcome: Any) -> ServingAnswer:
    """Return the outcome of a run as ``milp-plan serve`` reports it."""
    found = ServingResult.of(outcome)
    reason = outcome.infeasible_reason
    return ServingAnswer(outcome.problem, found, outcome.bound, because=reason)


def answer_for(problem: ServingProblem, plan: ServingPlan) -> ServingAnswer:
    """Return a plan as ``milp-plan serve`` reports one.

    Raises
    ------
    InputError
        It cannot run.
    """
    refuse_broken(check(problem, plan), "deployment")
    costs, d = ServingCosts(problem), plan.deployment
    candidate = ServingCandidate(d, costs.figures(d), costs.memory(d))
    return ServingAnswer(problem, ServingResult([candidate]))


def check(problem: ServingProblem, plan: ServingPlan | Deployment) -> Verdict:
    """Check a plan, or a deployment, against every law; its value is in nanoseconds."""
    if isinstance(plan, Deployment):
        plan = ServingPlan(problem.name, problem.fingerprint, plan)
    return verify(problem, plan, ServingCosts(problem))
