"""Training problems from names and files, planned, checked, with the shipped costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from milp_plan.core import Verdict
from milp_plan.core.budget import Budget

from .architecture import Architecture
from .check import verify
from .cluster import TrainingCluster, training_cluster
from .configuration import Configuration
from .costing import PlanCosts
from .efficiency import Efficiency, shipped
from .huggingface import read_config
from .models import model as named_model
from .problem import TrainingPlan, TrainingProblem
from .report import Answer
from .search import search


def training_problem(
    model: str | Path | Architecture,
    cluster: str | TrainingCluster,
    *,
    global_batch: int,
    sequence: int | None = None,
    memory_bytes: int | None = None,
    reserve_bytes: int = 0,
) -> TrainingProblem:
    """Return the problem of training a model on a cluster.

    Parameters
    ----------
    model
        A name, the path of a Hugging Face ``config.json``, or an architecture.
    cluster
        Text such as ``"8x8xH100"``, or a cluster.
    global_batch, sequence
        Samples of a step, and tokens of a sample; by default those of the model.
    memory_bytes
        Of every device, in place of what its class has.
    reserve_bytes
        Memory of every device that no plan may use.

    Raises
    ------
    InputError
        A name, a file or a text that is not understood.
    """
    if isinstance(model, Path):
        model = read_config(model)
    elif isinstance(model, str):
        model = named_model(model)
    if isinstance(cluster, str):
        cluster = training_cluster(cluster)
    if memory_bytes is not None:
        cluster = cluster.with_memory(memory_bytes)
    return TrainingProblem(model, cluster, sequence or model.sequence, global_batch, reserve_bytes)


def plan_training(
    problem: TrainingProblem,
    fixed: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
    efficiency: Efficiency | None = None,
) -> Answer:
    """Return the best configuration that is found, with a bound and what else there is.

    Parameters
    ----------
    problem
        What is planned.
    fixed
        Fields of :class:`Configuration` and the values that they must have.
    budget
        When to stop; by default 30 seconds.
    efficiency
        Rates that devices and framework reach; by default the shipped ones.
    """
    efficiency = efficiency or shipped()
    costs = PlanCosts(problem, efficiency)
    found = search(problem, costs, fixed or {}, budget or Budget(30.0))
    best = found.best[0].configuration if found.best else None
    time = None if best is None else costs.step(best)
    memory = () if best is None else costs.memory(best)
    band, fitted_on = efficiency.band, efficiency.fitted_on
    return Answer(problem, found, time, memory, band, fitted_on, fixed or {})


def plan_of(answer: Answer) -> TrainingPlan:
    """Return the best configuration of an answer as a plan.

    Raises
    ------
    ValueError
        There is none.
    """
    if answer.best is None:
        raise ValueError("no configuration was found")
    best, of = answer.best, answer.problem
    return TrainingPlan(of.name, of.fingerprint, best.configuration, best.step_ns, "search")


def check(
    problem: TrainingProblem,
    plan: TrainingPlan | Configuration,
    efficiency: Efficiency | None = None,
) -> Verdict:
    """Check a plan, or a configuration, against every law; its value is the step in nanoseconds."""
    if isinstance(plan, Configuration):
        plan = TrainingPlan(problem.name, problem.fingerprint, plan)
    return verify(problem, plan, PlanCosts(problem, efficiency or shipped()))
