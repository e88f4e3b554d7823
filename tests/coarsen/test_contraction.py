"""Contraction: every plan of the coarse problem comes back valid and no worse."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from milp_plan.check import verify
from milp_plan.coarsen import contract
from milp_plan.coarsen.quotient import Caps, Quotient
from milp_plan.core import MemoryLaw, Objective, PlanningProblem
from tests.support.plans import planted

from .drafts import INFINITE, random_plan, unlimited, without_times

LOOSE = Caps(INFINITE, INFINITE, INFINITE, None, strict=False)


def random_clusters(problem: PlanningProblem, rng: random.Random) -> list[list[str]]:
    quotient = Quotient(problem)
    for _ in range(rng.randint(1, 2 * len(quotient))):
        if len(quotient) > 1:
            pair = rng.sample(sorted(quotient.nodes), 2)
            if quotient.may_merge(pair, LOOSE):
                quotient.merge(pair)
    return quotient.clusters()


def drafted(seed: int) -> PlanningProblem:
    """A random problem of every communication model, objective and memory law."""
    return unlimited(planted(seed).problem)


@pytest.mark.parametrize("block", range(10))
def test_plans_come_back_valid_and_no_worse(block):
    """Per device memory, busy time of every resource and makespan never grow."""
    tried = 0
    for seed in range(block * 60, block * 60 + 60):
        rng = random.Random(seed)
        problem = drafted(seed)
        clusters = random_clusters(problem, rng)
        reduction = contract(problem, clusters, name="test")
        plan = random_plan(reduction.after, rng)
        if plan is None:
            continue
        tried += 1
        coarse = verify(reduction.after, plan)
        assert coarse.ok, (seed, coarse.violations)
        fine = verify(problem, reduction.undo(plan))
        assert fine.ok, (seed, clusters, [str(v) for v in fine.violations])
        for name, amount in fine.components.items():
            assert amount <= coarse.components.get(name, 0), (seed, name, clusters)
    assert tried > 40


def test_plans_without_times_come_back():
    tried = 0
    for seed in range(200):
        rng = random.Random(seed)
        problem = replace(
            drafted(seed), objective=Objective.BOTTLENECK, memory_law=MemoryLaw.STATIC
        )
        reduction = contract(problem, random_clusters(problem, rng), name="test")
        plan = random_plan(reduction.after, rng)
        if plan is not None and reduction.after is not problem:
            tried += 1
            bare = reduction.undo(without_times(plan))
            assert not bare.has_schedule
            assert verify(problem, bare).ok
    assert tried > 100
