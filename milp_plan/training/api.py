"""Training problems from names and files, planned, checked, with the shipped costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from milp_plan.core import Finding, InputError, UnsupportedProblemError, Verdict
from milp_plan.core.budget import Budget

from .architecture import Architecture
from .check import verify
from .cluster import TrainingCluster, training_cluster
from .configuration import Configuration
from .costing import PlanCosts
from .efficiency import Efficiency, shipped
from .exports import refusals
from .huggingface import read_config
from .memory import MARGIN
from .models import model as named_model
from .problem import TrainingPlan, TrainingProblem
from .report import Answer
from .search import search
from .space import Space, no_reason

MOST_MEMORY = 10**15
"""Bytes of a device at most."""


def training_problem(
    model: str | Path | Architecture,
    cluster: str | TrainingCluster,
    *,
    global_batch: int,
    sequence: int | None = None,
    memory_bytes: int | None = None,
    reserve_bytes: int | None = None,
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
        Memory of every device that no plan may use; by default :data:`.memory.MARGIN` of it.

    Raises
    ------
    InputError
        A name, a file or a text that is not understood.
    """
    model, cluster = given_model(model), given_cluster(cluster, memory_bytes)
    if reserve_bytes is None:
        reserve_bytes = round(MARGIN * cluster.memory_bytes)
    return TrainingProblem(model, cluster, sequence or model.sequence, global_batch, reserve_bytes)


def given_model(model: str | Path | Architecture) -> Architecture:
    """Return a model by its name, by the path of a ``config.json``, or as it is."""
    if isinstance(model, Path):
        return read_config(model)
    return named_model(model) if isinstance(model, str) else model


def given_cluster(
    cluster: str | TrainingCluster, memory_bytes: int | None = None
) -> TrainingCluster:
    """Return a cluster by its text or as it is, with another memory of every device if given."""
    if isinstance(cluster, str):
        cluster = training_cluster(cluster)
    if memory_bytes is None:
        return cluster
    if not 1 <= memory_bytes <= MOST_MEMORY:
        expected = f"1 to {MOST_MEMORY:,} bytes of a device"
        found = f"{memory_bytes:,} bytes" if memory_bytes < 10**30 else "more than 10^30 bytes"
        raise InputError([Finding("memory", found, expected, "correct it")])
    return cluster.with_memory(memory_bytes)


def plan_training(
    problem: TrainingProblem,
    fixed: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
    efficiency: Efficiency | None = None,
    framework: str | None = None,
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
    framework
        Plan only what this one of :data:`.exports.FORMATS` runs; ``None`` for what any runs.

    Raises
    ------
    InputError
        No framework of that name.
    UnsupportedProblemError
        The framework runs no configuration of the space.
    """
    efficiency = efficiency or shipped()
    costs = PlanCosts(problem, efficiency)
    refused = refusals(problem, framework) if framework else no_reason
    found = search(problem, costs, fixed or {}, budget or Budget(30.0), refused)
    if found.refused and found.refused == found.considered and found.finished:
        reasons = "\n  ".join(Space(problem, fixed or {}, refused).why_refused())
        raise UnsupportedProblemError(f"{framework} cannot run any configuration:\n  {reasons}")
    best = found.best[0].configuration if found.best else None
    time = None if best is None else costs.step(best)
    memory = () if best is None else costs.memory(best)
    hidden = {} if best is None else costs.overlapped(best)
    return Answer(problem, found, time, hidden, memory, efficiency, fixed or {}, framework)


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
