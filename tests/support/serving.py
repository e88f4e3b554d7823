"""Tiny serving problems, drawn at random."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from milp_plan.core.budget import Budget
from milp_plan.kinds.serving.api import serving_problem
from milp_plan.kinds.serving.costs import ServingCosts
from milp_plan.kinds.serving.problem import Objective, Phase, ServingPlan, ServingProblem
from milp_plan.kinds.serving.search import Search

from .training import RATES, anew, tiny_model

__all__ = ["anew", "drawn", "planned", "with_limits"]


def drawn(seed: int, **more: Any) -> ServingProblem:
    """A model of up to five blocks on two or four devices, some with little memory."""
    rng = random.Random(f"serving {seed}")
    phase = rng.choice(tuple(Phase))
    asked = {
        "prompt": rng.choice((1, 100, 3000)),
        "output": 1 if phase is Phase.PREFILL else rng.choice((2, 50)),
        "phase": phase,
        "objective": rng.choice(tuple(Objective)),
        "requests": rng.choice((None, 3, 10)),
        "fixed": rng.choice(({}, {"pipeline": 2}, {"prompts": 1})),
        "memory_bytes": rng.choice((None, 40_000_000)),
    }
    model = tiny_model(rng.randint(2, 5), rng.choice((0, 0, 4)))
    cluster = rng.choice(("2xA100", "4xA100", "2x1xA100"))
    return serving_problem(model, cluster, reserve_bytes=0, efficiency=RATES, **asked | more)


def planned(seed: int) -> tuple[ServingProblem, ServingPlan] | None:
    """A problem with the best deployment; ``None`` where there is none."""
    problem = drawn(seed)
    best = Search(problem, ServingCosts(problem), Budget(None)).run().best
    if not best:
        return None
    return problem, ServingPlan(problem.name, problem.fingerprint, best[0].deployment)


def with_limits(problem: ServingProblem, first: int | None, token: int | None) -> ServingProblem:
    """The same with limits on times."""
    return replace(problem, first_token_ns=first, token_ns=token)
