"""Training problems from names and files, planned, checked, with the shipped costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from milp_plan.core import Finding, InputError, Verdict

from .answer import refuse_broken
from .architecture import Architecture
from .check import verify
from .cluster import TrainingCluster, training_cluster
from .configuration import Configuration
from .costing import PlanCosts
from .efficiency import Efficiency, shipped_for
from .exports import refusals
from .formats import PLANS
from .huggingface import read_config
from .memory import default_reserve
from .models import model as named_model
from .problem import MODEL_NOTES, TrainingPlan, TrainingProblem
from .report import TrainingAnswer
from .result import SearchResult
from .search import candidate_of
from .step import derive

MOST_MEMORY = 10**15
"""Bytes of a device at most."""


def training_problem(
    model: str | Path | Architecture,
    cluster: str | TrainingCluster,
    *,
    global_batch: int,
    sequence: int | None = None,
    memory_bytes: int | Sequence[int] | None = None,
    reserve_bytes: int | None = None,
    fixed: Mapping[str, Any] | None = None,
    efficiency: Efficiency | None = None,
    provenance: Mapping[str, str] | None = None,
    framework: str = "",
    host: bool = False,
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
        Of every device, or of those of each group, in place of what its class has.
    reserve_bytes
        Memory of every device that no plan may use; by default :data:`.memory.MARGIN` of it.
    fixed
        Fields of :class:`Configuration` and the values that they must have, as plain data or not.
    efficiency
        Rates that devices and framework reach; by default those of :func:`.shipped_for`.
    provenance
        Where the problem comes from.
    framework
        Plan only what this one of :data:`.exports.FORMATS` runs; empty for anything.
    host
        Whether activations and the optimizer's state may be in the memory of the hosts.

    Raises
    ------
    InputError
        A name, a file or a text that is not understood.
    """
    model, cluster = given_model(model), given_cluster(cluster, memory_bytes)
    if reserve_bytes is None:
        reserve_bytes = default_reserve(cluster)
    frozen = sum(block.frozen for block in model.blocks)
    still = (f"{frozen} of {len(model.blocks)} blocks are frozen",) if frozen else ()
    notes = "; ".join((*still, *model.notes))
    known: dict[str, str] = {MODEL_NOTES: notes} if notes else {}
    length = model.sequence if sequence is None else sequence
    problem = TrainingProblem(
        *(model, cluster, length, global_batch, framework, host),
        reserve_bytes=reserve_bytes,
        fixed=PLANS.fixed_values(fixed or {}),
        efficiency=efficiency or shipped_for(framework, cluster.device_names, model.has_experts),
        provenance=known | dict(provenance or {}),
    )
    refusals(problem)
    return problem


def given_model(model: str | Path | Architecture) -> Architecture:
    """Return a model by its name, by the path of a ``config.json``, or as it is."""
    if isinstance(model, Path):
        return read_config(model)
    return named_model(model) if isinstance(model, str) else model


def given_cluster(
    cluster: str | TrainingCluster, memory_bytes: int | Sequence[int] | None = None
) -> TrainingCluster:
    """Return a cluster by its text or as it is, with other memories of its devices if given."""
    if isinstance(cluster, str):
        cluster = training_cluster(cluster)
    if memory_bytes is None:
        return cluster
    amounts = tuple(memory_bytes) if isinstance(memory_bytes, Sequence) else (memory_bytes,)
    if len(amounts) not in (1, len(cluster.groups)):
        found, expected = f"{len(amounts)} amounts", f"one, or {len(cluster.groups)}, one a group"
        raise InputError([Finding("memory_bytes", found, expected, "correct it")])
    for amount in amounts:
        if not 1 <= amount <= MOST_MEMORY:
            expected = f"1 to {MOST_MEMORY:,} bytes of a device"
            found = f"{amount:,} bytes" if amount < 10**30 else "more than 10^30 bytes"
            raise InputError([Finding("memory_bytes", found, expected, "correct it")])
    return cluster.with_memory(*amounts)


def answer_of(outcome: Any) -> TrainingAnswer:
    """Return the outcome of a run as ``milp-plan train`` reports it."""
    problem: TrainingProblem = outcome.problem
    return _answer(problem, SearchResult.of(outcome), outcome.infeasible_reason)


def answer_for(problem: TrainingProblem, plan: TrainingPlan) -> TrainingAnswer:
    """Return a plan as ``milp-plan train`` reports one.

    Raises
    ------
    InputError
        It cannot run.
    """
    refuse_broken(check(problem, plan), "configuration")
    step = derive(plan.configuration, PlanCosts(problem).priced(plan.configuration))
    return _answer(problem, SearchResult([candidate_of(plan.configuration, step)]))


def _answer(
    problem: TrainingProblem, found: SearchResult, because: str | None = None
) -> TrainingAnswer:
    if not found.best:
        return TrainingAnswer(problem, found, None, {}, (), because=because)
    costs, best = PlanCosts(problem), found.best[0].configuration
    return TrainingAnswer(
        problem, found, costs.step(best), costs.overlapped(best), costs.memory(best)
    )


def check(problem: TrainingProblem, plan: TrainingPlan | Configuration) -> Verdict:
    """Check a plan, or a configuration, against every law; its value is the step in nanoseconds."""
    if isinstance(plan, Configuration):
        plan = TrainingPlan(problem.name, problem.fingerprint, plan)
    return verify(problem, plan, PlanCosts(problem), refusals(problem))
