"""Tiny training problems, drawn at random."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from milp_plan.kinds.training import (
    Architecture,
    Attention,
    Block,
    DeviceRates,
    Efficiency,
    Mlp,
    Moe,
)
from milp_plan.kinds.training.api import training_problem
from milp_plan.kinds.training.problem import TrainingPlan, TrainingProblem
from milp_plan.kinds.training.search import search
from milp_plan.run import Settings, solve

RATES = Efficiency({"A100": DeviceRates()})
"""Assumed rates, which no fit changes."""


def tiny_model(blocks: int = 4, experts: int = 0) -> Architecture:
    """A model of a few megabytes."""
    part = Moe(experts, 2, 256) if experts else Mlp(512)
    block = Block(256, Attention(4, 4, 64), part)
    return Architecture("tiny", (block,) * blocks, 128, 256)


def drawn(seed: int, **fixed: Any) -> TrainingProblem:
    """A model of up to five blocks on two or four devices, some with little memory."""
    rng = random.Random(f"training {seed}")
    model = tiny_model(rng.randint(1, 5), rng.choice((0, 0, 4)))
    memory = rng.choice((None, None, rng.randint(20, 60) * 10**6))
    return training_problem(
        model,
        rng.choice(("2xA100", "4xA100", "2x1xA100")),
        global_batch=rng.choice((1, 2, 4, 6, 8)),
        memory_bytes=memory,
        reserve_bytes=0,
        fixed=fixed or rng.choice(({}, {"pipeline": 2}, {"zero": 1, "recompute": "none"})),
        efficiency=RATES,
    )


def problem_of(model: str, cluster: str, batch: int, sequence: int = 4096) -> TrainingProblem:
    """A published model on a cluster."""
    return training_problem(model, cluster, global_batch=batch, sequence=sequence)


def answered(problem: Any) -> Any:
    """The answer of a run of any length, of training or serving."""
    outcome: Any = solve(problem, Settings(time_limit_s=300.0))
    return outcome.kind.part("api").answer_of(outcome)


def planned(seed: int) -> tuple[TrainingProblem, TrainingPlan] | None:
    """A problem with the best configuration; ``None`` where there is none."""
    from milp_plan.core.budget import Budget
    from milp_plan.kinds.training.costing import PlanCosts

    problem = drawn(seed)
    best = search(problem, PlanCosts(problem), problem.fixed, Budget(None)).best
    if not best:
        return None
    return problem, TrainingPlan(problem.name, problem.fingerprint, best[0].configuration)


def anew(problem: Any, rng: random.Random) -> Any:
    """The same with other rates."""
    rates = DeviceRates(matrix=rng.uniform(0.2, 0.9), memory=rng.uniform(0.2, 0.9))
    return replace(problem, efficiency=Efficiency({"A100": rates}))
